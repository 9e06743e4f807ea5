"""CUDA was used before the process was forked.

## What you see
    RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you
    must use the 'spawn' start method

## Why it happens
A CUDA context does not survive fork(). The parent used the GPU before it forked workers: a tensor, a dataset that
loads to the GPU, or torch.cuda.is_available() in old versions.

## Fix
Use the spawn start method: `mp.set_start_method("spawn")`, `DataLoader(dataset, multiprocessing_context="spawn")`. Or
use CUDA only after the fork.

## Confirm with
`python -c "import multiprocessing as m; print(m.get_start_method())"`.

## When it is harmless
Never.

## See also
process/exception
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
LOG = (
    Line("Cannot re-initialize CUDA in forked subprocess"),
    Line(
        "initialization error",
        "CUDA error: initialization error|Error 3: initialization error",
        shows="symptom",
        why="a broken driver shows the same",
    ),
)
