"""The trainer and the engine do not form their group for weights.

## What you see
Trainer and engine both started. At the first `init_communicator` the trainer repeats

    TCP client failed to connect/validate to host 172.19.12.153:51216 - retrying

until `The client socket has timed out after 300000ms`, or the engine ends with `Address already in use`.

## Why it happens
An RL trainer sends its weights to the engine through a group of the two. Its store is on the engine's host, on a port
of its own. TRL and ms-swift use port 51216 and the address of `vllm_server_host`. The port of the HTTP server is
open, and this one is not. Or the trainer's address for the engine is 0.0.0.0 or localhost, its own host. Or an earlier
trainer's group still holds the port, or two trainers use the same one.

## Fix
Allow TCP 51216 from the trainer's host to the engine's. Give the trainer the engine's address: TRL and ms-swift
`--vllm_server_host 10.77.0.10`.

## Confirm with
`nc -vz 10.77.0.10 51216` on the trainer's host connects while the engine waits in `init_communicator`.

## When it is harmless
The trainer connects at a later try.

## See also
environment/agent-store-hijack, network/engine-port-in-use, network/port-filtered
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
SYNC = r"\bin (?:init_communicator|init_weights?_update_group|init_weight_transfer\w*|stateless_init_process_group)\b"
"""Functions that make such a group: trl/generation/vllm_client.py, swift/rlhf_trainers/vllm_client.py, SGLang's
managers/tp_worker.py, and vLLM's distributed/weight_transfer/nccl_common.py."""
NEXT = ("the engine's log, and a try of this port from the trainer's host", "nc -vz ENGINE_HOST 51216")
LOG = (
    Line(
        ("client socket has timed out", "connect() timed out"),
        r"trying to connect to \((?P<address>0\.0\.0\.0|::), (?P<port>\d{1,5})\)",
        stack=SYNC,
        told="The trainer looks for the engine's store on its own host: the engine's address is given as 0.0.0.0",
        fix="Give the trainer the engine's own address: TRL and ms-swift `--vllm_server_host ENGINE_HOST`. If the "
        "engine runs on this host, fix the first error in its log.",
    ),
    Line(
        ("client socket has timed out", "connect() timed out"),
        r"trying to connect to \((?!0\.0\.0\.0|::,)(?P<address>\S{1,253}), (?P<port>\d{1,5})\)",
        stack=SYNC,
        told="The trainer does not reach the store of its group with the engine",
        fix="Fix the first error in the engine's log. Without one, allow this port from the trainer's host to the "
        "engine's. Or give the group a port that is open: `--vllm_group_port 51300` "
        "(TRL), `--vllm_server_group_port 51300` (ms-swift).",
    ),
)
