"""The process group was not made.

What you see
------------
`Default process group has not been initialized, please make sure to call init_process_group`.

Why it happens
--------------
A collective, DDP or a sampler is used in a program that was started without a launcher, or before init_process_group().

Fix
---
Start with torchrun and call init_process_group() first; guard the code with dist.is_initialized() where one process is
enough.

When it is harmless
-------------------
Never.

See also
--------
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
