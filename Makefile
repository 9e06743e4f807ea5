# The same as the scripts, for those who type make.
.PHONY: check test scoreboard format

check:
	bash scripts/check

test:
	bash scripts/test

scoreboard:
	bash scripts/scoreboard $(if $(ONLY),--only "$(ONLY)") $(if $(BUSY),--busy) $(if $(REPEAT),--repeat $(REPEAT))

SHELL := bash

format:
	. scripts/venv.sh && make_venv dev && $$venv/bin/ruff check --fix . && $$venv/bin/ruff format .
