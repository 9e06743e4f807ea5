"""CUDA was used before the process was forked.

What you see
------------
`RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the
'spawn' start method`.

Why it happens
--------------
A context of CUDA does not survive fork(): the parent touched the GPU (a tensor, torch.cuda.is_available() in old
versions, a dataset that loads to the GPU) before workers were forked from it.

Fix
---
Use the spawn start method (mp.set_start_method('spawn'), DataLoader(multiprocessing_context='spawn')), or touch no CUDA
before the fork.

When it is harmless
-------------------
Never.

See also
--------
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
        why="a driver that does not work shows the same",
    ),
)
