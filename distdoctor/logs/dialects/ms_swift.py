"""Lines of ms-swift, also of its Megatron-SWIFT."""

from __future__ import annotations

from distdoctor.logs.dialects.dialect import Dialect, Mark

# SwiftPipeline.main() of swift/pipelines/base.py of modelscope/ms-swift, 2 to 4: run() has returned. Where the last
# checkpoints are follows.
DIALECT = Dialect(
    success=(Mark("End time of running main: ", r"^\[INFO:swift\] End time of running main: "),),
    over=r"^\[INFO:swift\] (?:End time of running main|last_model_checkpoint|best_model_checkpoint): ",
)
