"""Lines of PyTorch Lightning."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect

DIALECT = Dialect(over=r"\bfit\W{1,3}stopped: \W?max_(?:epochs|steps|time)=")
