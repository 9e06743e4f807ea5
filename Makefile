# The same as the scripts, for those who type make.
.PHONY: dev check test release pristine image imports compare perf scoreboard logs healthy hang further turns format man pyz docs validation gpu gpu-kit

dev:
	bash scripts/dev

check:
	bash scripts/check

test:
	bash scripts/test

# What compares times; on a machine that does nothing else.
perf:
	bash scripts/test -m perf

scoreboard:
	bash scripts/scoreboard $(if $(ONLY),--only="$(ONLY)") $(if $(BUSY),--busy) $(if $(REPEAT),--repeat $(REPEAT)) $(if $(RECORD),--record)

# The jobs whose logs are kept, run in the lab.
logs:
	. scripts/venv.sh && make_venv dev && $$venv/bin/python scripts/record_logs.py $(if $(ONLY),--only="$(ONLY)") $(if $(RECORD),,--missing)

# Every healthy shape alone, in the lab.
healthy:
	. scripts/venv.sh && make_venv dev && $$venv/bin/python scripts/healthy_runs.py $(RUNS) $(if $(ONLY),--only="$(ONLY)") $(if $(BUSY),--busy) $(if $(RECORD),--record)

# Jobs that hang for real, and what distdoctor hang says of them.
hang:
	. scripts/venv.sh && make_venv dev && $$venv/bin/python scripts/hang_table.py $(if $(ONLY),--only="$(ONLY)")

# What else CI leaves out, but for the table and the shapes.
further:
	bash scripts/test -m scoreboard --deselect tests/lab/test_faults.py --deselect tests/lab/test_healthy.py --deselect tests/lab/test_hang.py

# check && torchrun on the same port, 20 times in a row.
turns:
	bash scripts/test tests/lab/test_clean.py -m scoreboard

# The man page and the shells' completions, from the help of today.
man:
	. scripts/venv.sh && make_venv dev && $$venv/bin/python scripts/man_page.py

# docs/validation.md: counts, recorded results and measured figures.
validation:
	. scripts/venv.sh && make_venv dev && $$venv/bin/python scripts/validation.py

# dist/: wheel, sdist and pyz of the last commit, built twice and tried with each Python of this machine.
release:
	. scripts/venv.sh && make_venv dev && pip_install -q twine && $$venv/bin/python scripts/release.py

# The same files in a fresh Debian 12 (root).
pristine:
	. scripts/venv.sh && apt_install debootstrap:debootstrap && make_venv dev && pip_install -q twine && $$venv/bin/python scripts/release.py --pristine

# The Dockerfile's steps in a fresh Debian 12 with torch (root).
image:
	. scripts/venv.sh && apt_install debootstrap:debootstrap && make_venv dev && $$venv/bin/python scripts/release.py --image

# What the import of each dependency costs.
imports:
	. scripts/venv.sh && make_venv dev && $$venv/bin/python benchmarks/start.py --imports

# benchmark/compared.md: nine faults with every known program, for docs/validation.md; on a machine that does nothing else.
compare:
	. scripts/venv.sh && make_venv dev && { [ -d build/dlrover ] || $$venv/bin/python -m pip install -q --target build/dlrover 'dlrover[k8s]' || rm -rf build/dlrover; }
	. scripts/venv.sh && $$venv/bin/python benchmark/lab.py --compare --limit 120 --at-once 3

# dist/distdoctor.pyz: all but torch in one file.
pyz:
	. scripts/venv.sh && make_venv dev && $$venv/bin/python scripts/pyz.py

# What gpu takes along, fetched where there is a network.
gpu-kit: pyz
	. scripts/venv.sh && make_venv dev && $$venv/bin/python -m pip download -q --no-deps --dest dist nvidia-ml-py py-spy

# What a machine with a GPU says, and jobs that go wrong on it, by its own Python; "make gpu-kit" before.
gpu:
	python3 tests/gpu/facts.py build/gpu-facts; status=$$?; python3 tests/gpu/jobs.py build/gpu-facts; exit $$status

# build/site: the documentation, searchable.
docs:
	. scripts/venv.sh && make_venv docs && $$venv/bin/python scripts/site.py

SHELL := bash

format:
	. scripts/venv.sh && make_venv dev && { $$venv/bin/ruff check -q --fix --exit-zero . ; $$venv/bin/ruff format . && $$venv/bin/ruff check . ; }
