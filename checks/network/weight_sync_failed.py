"""The trainer and the engine do not form their group for weights.

## What you see
Trainer and engine both started. At the first weight transfer one of them repeats

    TCP client failed to connect/validate to host 172.19.12.153:51216 - retrying

until `The client socket has timed out after 300000ms`, or ends with `Address already in use`. SGLang prints `Failed to
initialize custom process group`, and the trainer of vLLM's weight transfer `OSError: [Errno 9] Bad file descriptor`.

## Why it happens
An RL trainer sends its weights to the engine through a group of the two. Rank 0 of the group has its store, on a port
of its own, and the others connect to it. Rank 0 is the engine with ms-swift and with TRL up to 1.10, at
`vllm_server_host`. It is the trainer with TRL from 1.11 on, vLLM's weight transfer, OpenRLHF, slime and SGLang. TRL and
ms-swift use port 51216; the others pick a free one.

The port of the HTTP server is open, and this one is not. Or the address is 0.0.0.0 or localhost, each reader's own
host. TRL from 1.11 on takes VLLM_HOST_IP, else the address of the route to the internet. Without such a route it is
0.0.0.0. Or an earlier trainer's group still holds the port, or two trainers use the same one.

## Fix
Allow the port to the host of rank 0. Where that is the engine, give the trainer its address: `--vllm_server_host
10.77.0.10`. Where it is the trainer, set VLLM_HOST_IP on its host: `export VLLM_HOST_IP=10.77.0.11`.

## Confirm with
`nc -vz 10.77.0.10 51216` on the other host connects while rank 0 waits.

## When it is harmless
A later try connects.

## See also
environment/agent-store-hijack, network/engine-port-in-use, network/port-filtered
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
ENGINE_HOSTS = r"\bin init_communicator\b"
"""Function of a trainer that connects to the engine (trl/generation/vllm_client.py of TRL 1.10,
swift/rlhf_trainers/vllm_client.py of ms-swift 4.6)."""
TRAINER_HOSTS = (
    r"\bin (?:init_weights?_update_group|init_weight_transfer\w*|init_transfer_engine|worker_init_process_group"
    r"|stateless_init_process_group)\b"
)
"""Functions of an engine that connects to the trainer, or of both: SGLang's weight_updater.py (0.5.23), vLLM's
distributed/weight_transfer/nccl_common.py (0.33), openrlhf/utils/distributed_util.py (OpenRLHF 0.11)."""
NEXT = ("the log of the group's rank 0, and a try of this port from the other host", "nc -vz HOST 51216")
TIMED_OUT = ("client socket has timed out", "connect() timed out")
ITSELF = r"trying to connect to \((?P<address>0\.0\.0\.0|::), (?P<port>\d{1,5})\)"
ANOTHER = r"trying to connect to \((?!0\.0\.0\.0|::,)(?P<address>\S{1,253}), (?P<port>\d{1,5})\)"
NO_TRAINER = "The engine does not reach the trainer's store of their group"
LET_TRAINER = (
    "Fix the first error in the trainer's log. Without one, allow this port from the engine's hosts to the trainer's, "
    "or give the group one that is open (TRL: `--vllm_group_port 51300`). If the address is not one that the engine "
    "reaches, set VLLM_HOST_IP on the trainer's host."
)
LOG = (
    Line(
        TIMED_OUT,
        ITSELF,
        stack=TRAINER_HOSTS,
        told="The engine looks for the trainer's store on its own host: the trainer gave 0.0.0.0 as its address",
        fix="Set VLLM_HOST_IP on the trainer's host to its own address: without it and a route to the internet, the "
        "trainer finds none.",
    ),
    Line(TIMED_OUT, ANOTHER, stack=TRAINER_HOSTS, told=NO_TRAINER, fix=LET_TRAINER),
    Line(  # SGLang catches the exception
        "Failed to initialize custom process group: ",
        rf"process group: .{{0,80}}{ANOTHER}",
        told=NO_TRAINER,
        fix=LET_TRAINER,
    ),
    Line(  # vLLM's create_tcp_store() closes a descriptor that TCPStore has closed, as it gives up
        "Errno 9] Bad file descriptor",
        stack=r"\bin create_tcp_store\b",
        told="The other ranks of vLLM's group did not join its store; Errno 9 only hides this",
        fix="Fix the first error in the log of the engine that was to join. Without one, allow the store's port from "
        "its hosts to this one, or set VLLM_HOST_IP here to an address that they reach.",
    ),
    Line(
        TIMED_OUT,
        ITSELF,
        stack=ENGINE_HOSTS,
        told="The trainer looks for the engine's store on its own host: the engine's address is given as 0.0.0.0",
        fix="Give the trainer the engine's own address: TRL and ms-swift `--vllm_server_host ENGINE_HOST`. If the "
        "engine runs on this host, fix the first error in its log.",
    ),
    Line(
        TIMED_OUT,
        ANOTHER,
        stack=ENGINE_HOSTS,
        told="The trainer does not reach the store of its group with the engine",
        fix="Fix the first error in the engine's log. Without one, allow this port from the trainer's host to the "
        "engine's. Or give the group a port that is open: `--vllm_group_port 51300` "
        "(TRL), `--vllm_server_group_port 51300` (ms-swift).",
    ),
)
