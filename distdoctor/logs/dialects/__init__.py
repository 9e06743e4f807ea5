"""Dialects as data: one file for each framework, launcher or scheduler whose lines distdoctor reads.

A new engine is one file here, with a ``DIALECT``, and its tests.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from distdoctor.logs.dialects.dialect import Dialect

DIALECTS: tuple[Dialect, ...] = tuple(
    import_module(f"{__name__}.{module.name}").DIALECT for module in iter_modules(__path__) if module.name != "dialect"
)
PREFIXES = tuple(prefix for dialect in DIALECTS for prefix in dialect.prefixes)
PLACES = tuple(place for dialect in DIALECTS for place in dialect.places)
WORDINGS = tuple(wording for dialect in DIALECTS for wording in dialect.ends)
BEGINS = tuple(mark for dialect in DIALECTS for mark in dialect.begins)
SUCCESS = tuple(mark for dialect in DIALECTS for mark in dialect.success)
STOPS = tuple(mark for dialect in DIALECTS for mark in dialect.stops)
OWN_PORTS = tuple((dialect.own_port, dialect.port_fix) for dialect in DIALECTS if dialect.own_port)
LITERALS = (*(mark.literal for mark in (*BEGINS, *SUCCESS, *STOPS)), "distributed_init_method=")
OVER = "|".join(dialect.over for dialect in DIALECTS if dialect.over)
WRAPPERS = "|".join(dialect.wrappers for dialect in DIALECTS if dialect.wrappers)
OWN_WORDS = tuple(dialect.own_words for dialect in DIALECTS if dialect.own_words)
