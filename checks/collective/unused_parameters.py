"""DDP waits for gradients of unused parameters.

## What you see
`Expected to have finished reduction in the prior iteration before starting a new one`.

## Why it happens
Some parameters took no part in the loss of this step, so they get no gradients.

## Fix
Use `DistributedDataParallel(model, find_unused_parameters=True)`, or freeze or remove the unused parameters.

## Confirm with
`TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun ...` (names the parameters).

## When it is harmless
Never.

## See also
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
