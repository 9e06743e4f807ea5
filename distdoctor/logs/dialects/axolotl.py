"""Lines of Axolotl."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect, Mark

# logging_config.py and train.py of axolotl-ai-cloud/axolotl, 0.4 to 0.13: its RANK is the variable LOCAL_RANK, and is
# left out where it is 0. The model is saved after all ranks have trained.
DIALECT = Dialect(
    places=(
        r"^\[[A-Z]{4,8}\] \[axolotl[^\]]{0,120}\](?: \[PID:(?P<pid>\d{1,9})\])?(?: \[RANK:(?P<local_rank>\d{1,4})\])?",
    ),
    success=(
        Mark("Model successfully saved to ", r"\[axolotl\.train[^\]]{0,80}\].{0,40} Model successfully saved to "),
    ),
)
