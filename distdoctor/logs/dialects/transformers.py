"""Lines of the Trainer of transformers, and of what builds on it: TRL, ms-swift, LLaMA-Factory."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect

DIALECT = Dialect(over=r"\btrain_runtime\b")
