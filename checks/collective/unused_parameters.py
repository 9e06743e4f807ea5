"""DDP waits for gradients of parameters that were not used.

What you see
------------
`Expected to have finished reduction in the prior iteration before starting a new one`.

Why it happens
--------------
Parameters took no part in the loss of this step, so their gradients never come.

Fix
---
DistributedDataParallel(find_unused_parameters=True), or freeze or remove what is not used;
TORCH_DISTRIBUTED_DEBUG=DETAIL names them.

When it is harmless
-------------------
Never.

See also
--------
collective/model-mismatch
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
LOG = (
    Line("Expected to have finished reduction in the prior iteration"),
    Line("parameters that were not used in producing the loss"),
    Line(
        "which did not receive grad for rank",
        r"Parameter(?:s| indices) which did not receive grad for rank (?P<ranks>\d+)",
    ),
)
