"""Lines of transformers and its Trainer, and of what builds on it: TRL, LLaMA-Factory."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect

DIALECT = Dialect(
    prefixes=(
        # extras/logging.py of hiyouga/LLaMA-Factory; utils/logging.py of huggingface/transformers, before the time
        ("[", r"\[[A-Z]{4,8}\|(?P<date>\d{4}-\d\d-\d\d) (?P<clock>\d\d:\d\d:\d\d)\] [\w.]{1,120}:\d{1,6} >> "),
        (
            "[",
            r"\[[A-Z]{4,8}\|[\w.]{1,80}:\d{1,6}\] (?P<date>\d{4}-\d\d-\d\d) (?P<clock>\d\d:\d\d:\d\d(?:,\d{3})?) >> ",
        ),
    ),
    over=r"\btrain_runtime\b",
)
