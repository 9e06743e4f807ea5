"""Prefix of torchtitan's lines, before the time."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect

# init_logger() of torchtitan/tools/logging.py of pytorch/torchtitan
DIALECT = Dialect(prefixes=(("[", r"\[titan\] (?=\d{4}-)"),))
