"""The process group was not initialized.

## What you see
`Default process group has not been initialized, please make sure to call init_process_group`.

## Why it happens
The program uses a collective, DDP or a sampler before init_process_group(), or was started without a launcher.

## Fix
Start the script with `torchrun --nproc-per-node 2 train.py`, and call `dist.init_process_group()` first. If it must
also run as one process, guard the code with `dist.is_initialized()`.

## Confirm with
`printenv RANK WORLD_SIZE MASTER_ADDR` in the job (set by every launcher).

## When it is harmless
Never.

## See also
environment/missing-variable
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
LOG = (
    Line(
        "efault process group has not been initialized",
        "(?P<without_group>efault process group has not been initialized)",
    ),
    Line("efault process group is not initialized", "(?P<without_group>efault process group is not initialized)"),
)
