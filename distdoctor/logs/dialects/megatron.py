"""Lines of Megatron-LM and of what builds on it, such as MindSpeed and Megatron-DeepSpeed."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect, Mark

# print_datetime() of training.py in NVIDIA/Megatron-LM, behind a barrier of all ranks: after train(), and where
# --exit-interval ended it. The signal handler and --exit-duration-in-mins end it in other words: the job goes on later.
DIALECT = Dialect(
    stops=(Mark("exiting program after receiving SIG"),),
    over=r"\[(?:after training is done|exiting program at iteration \d{1,12})\] datetime: ",
)
