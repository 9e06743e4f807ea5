"""The rendezvous with this id is closed already.

## What you see
`RendezvousClosedError` at the start.

## Why it happens
An earlier run with that id has ended. Its rendezvous stays closed for later nodes with the same id.

## Fix
Start all nodes with a new --rdzv-id: `torchrun --rdzv-id $SLURM_JOB_ID ...`.

## Confirm with
`pgrep -af torchrun` shows a new --rdzv-id on every node.

## When it is harmless
On a node that joined after the job had ended.

## See also
environment/rendezvous-id-mismatch, environment/stale-init-file
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "plan agreed"
NEXT = ("the logs of all agents", "")
LOG = (
    Line("RendezvousClosedError", shows="symptom", why="a node that joins after the others have failed shows the same"),
)
