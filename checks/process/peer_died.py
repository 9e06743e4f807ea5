"""Another rank or node ended first.

## What you see
`Connection reset by peer`, `Connection closed by peer`, `Broken pipe`, `recvValue failed`,
`socketProgress: Connection closed by remote peer`, watchdogs that abort.

## Why it happens
These are consequences: the other end of the connection died. The log of the rank that ended first has the cause.

## Fix
Fix the error in the log of the rank that ended first: the earliest one that is not about a connection
(`distdoctor diagnose LOGS...` names the rank).

## Confirm with
`distdoctor diagnose LOGS...` with the logs of all ranks (names the first rank).

## When it is harmless
At the very end of a job, when ranks exit one after another.

## See also
process/exception, process/rank0-died, process/peer-exited-early
"""

from distdoctor.check_api import Ended, Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = ("the logs of the other ranks and nodes; the one that ended first has the cause", "distdoctor diagnose LOGS...")
LOG = (
    Line(
        "exits: rank",
        r"^exits: rank (?P<ranks>\d{1,6})(?: on (?P<host>\S+))? ended first, with code [1-9].+; the job has one node$",
        told="A rank ended itself, with no error message in this log",
        fix="Look for what ends that rank with this code: `sys.exit()`, `os._exit()`, or an error in its own file. "
        "torchrun keeps each rank's output with `--log-dir DIR --tee 3`.",
    ),
    Line(
        "exits: rank",
        r"^exits: rank (?P<ranks>\d{1,6})(?: on (?P<host>\S+))? ended first, ",
        shows="symptom",
        why="a rank on another node may have ended before it",
    ),
    Line(
        (
            "Connection reset by peer",
            "Connection closed by peer",
            "onnection was forcibly closed",
            "ConnectionResetError",
            "Software caused connection abort",
        ),
        r"(?:.{0,400}by peer \[(?!127\.|::1)(?P<peer>[\da-fA-F.:]{3,45})\])?",  # of gloo
        shows="symptom",
        why="the peer died for an unknown reason, or a firewall dropped an idle connection",
        unless=r"huggingface|https?://|urllib3|wandb|requests\.exceptions",
    ),
    Line(
        "An MPI communication peer process has unexpectedly disconnected",
        shows="symptom",
        why="the peer died for an unknown reason; the lines below name its host",
    ),
    Line(
        ("Broken pipe", "BrokenPipeError"),
        unless=r"line \d+: +\d+ Broken pipe ",  # of bash, about a script's own pipe
        shows="symptom",
        why="the other end died for an unknown reason",
    ),
    Line(
        ("onnection closed by remote peer", "remote process exited or there was a network error", "ncclRemoteError"),
        r"(?:.{0,400}by remote peer (?P<peer>[\w.:-]{2,253})<)?",
        shows="symptom",
        why="the peer died for an unknown reason",
    ),
    Line(
        (
            "Proxy Call to rank",
            "ocketProgressOpt",
            "ocketPollConnect",
            "ocketStartConnect",
            "ocketFinalizeAccept",
            "ocketTryAccept",
            "exceeded error retry count after",
            "Call to recv from",
            "Call to connect returned",
            "Call to sendmsg failed",
            "Call to recvmsg failed",
        ),
        "failed|returned|closed|timeout|exceeded|error",
        shows="symptom",
        why="a dead peer and an unreachable peer show the same",
    ),
    Line(
        ("ocketPollConnect", "ocketStartConnect", "Call to connect returned"),
        "Connection refused|No route to host|Connection timed out",
        shows="hint",
        why="the port was closed, or never open",
    ),
    Line(  # the answer of ncclras (src/ras/client_support.cc)
        ("considered dead (unreachable via the RAS network)", "Missing communicator data from "),
        shows="symptom",
        why="NCCL's RAS does not reach the process: a dead process, a stopped one and a cut network show the same",
    ),
    Line(
        "WARN Net : ",
        "WARN Net : (?:Conn|Call)",
        shows="symptom",
        why="a dead peer and an unreachable peer show the same",
    ),
    Line(
        ("communicator encountered a fatal error", "ncclCommSetAsyncError: error comm"),
        shows="symptom",
        why="the cause is above it, or in the log of another rank",
    ),
    Line(
        "Exception raised from ",
        r"Exception raised from \w{1,80} at \S{0,200}(?:ProcessGroup|NCCLUtils|TCPStore|socket)",
        shows="symptom",
        why="the error is above it",
    ),
    Line.of_end(
        Ended(("daemon lost",)), shows="symptom", why="a dead node and an unreachable node show the same in mpirun"
    ),
    Line.of_end(
        Ended(("node dead", "node lost")), shows="symptom", why="the node's own log and its kernel log have the cause"
    ),
    Line.of_end(Ended(("actor died", "actor lost")), shows="symptom", why="the actor's own log has the cause"),
    Line(
        ("GetTimeoutError", "DEADLINE_EXCEEDED"),
        shows="symptom",
        why="a peer did not answer in time; its log has the cause",
    ),
    Line(
        ("failed to connect to all addresses", "oordination service", "Failed to meet rendezvous"),  # of gRPC and XLA
        r"UNAVAILABLE: ?failed to connect|Failed to meet rendezvous '"
        r"|oordination service agent in error status: \w|\bERROR in coordination service|RPC to coordination service",
        shows="symptom",
        why="a dead peer, a peer that was never started and an unreachable peer show the same",
    ),
    Line(  # of XLA's coordination service, for JAX
        "heartbeat timeout. This indicates",
        r"Task /job:\w{1,40}/replica:\d{1,6}/task:(?P<ranks>\d{1,6}) heartbeat timeout",
        shows="symptom",
        why="a dead task, a hanging one and an unreachable one show the same",
    ),
    Line(
        "got completion with error:",
        shows="symptom",
        why="a dead node and an unreachable node show the same on an InfiniBand adapter",
    ),
    Line(
        "DistBackendError",
        unless="is setting up NCCL communicator|NCCL error in",
        shows="symptom",
        head=True,
        why="it names the failed backend, not the cause",
    ),
    Line(
        ("DistNetworkError", "DistStoreError"),
        shows="symptom",
        why="it names a lost connection or a timeout, not the cause",
        # Frames of a C++ stack prove nothing; and before the join no peer can have died.
        unless=r"\bframe #\d|while trying to connect to|(?:clients|workers) joined",
    ),
    Line(
        "EOFError",
        r"^EOFError:?\s*$",  # multiprocessing/connection.py; a file adds a word
        shows="symptom",
        why="the process at the other end of the pipe has ended",
    ),
    Line(
        "EOFError: ",
        r"^EOFError: \S",
        stack=r"/multiprocessing/|/torch/distributed/distributed_c10d\.py",
        shows="symptom",
        why="the process at the other end has ended",
    ),
    Line(
        "worker_count=",
        r"world_size=(?P<expected>\d{1,9}), worker_count=(?P<here>\d{1,9})",
        above=("here", "expected"),
        shows="hint",
        why="more ranks joined than the world size: from an earlier start, or by a stale file",
    ),
    Line(
        "exited unexpectedly",
        r"DataLoader worker \(pid.{0,40}exited unexpectedly",
        shows="symptom",
        why="the kernel log or the lines above show how the worker ended",
    ),
    Line("Some NCCL operations have failed or timed out", shows="symptom", why="the cause is above it"),
    Line("NCCL communicator was aborted", shows="symptom", why="the cause is in the log of another rank"),
    Line("taking the entire process down", shows="symptom", why="the cause is above it"),
    Line(
        "watchdog thread terminated with exception",
        shows="symptom",
        why="the cause follows it, or is in the log of another rank",
    ),
    Line(
        (
            "EngineDeadError",
            "Engine core initialization failed",
            "EngineCore failed",
            "WorkerProc initialization failed",
        ),
        shows="symptom",
        why="the cause is above it",
    ),
    Line(  # of a task that Ray tries again after its worker died
        "Failed to create placement group",
        r"Failed to create placement group .{1,80} because name .{1,200} already exists",
        shows="symptom",
        why="an earlier attempt of the task, or another job, made it; the first error above it has the cause",
    ),
    Line(
        "successfully reached monitoredBarrier, but received errors",
        shows="symptom",
        why="the log of the named rank has the cause, or names the next rank",
    ),
    Line(
        ("Checkpoint background process is dead", "response from checkpointer process"),
        shows="symptom",
        why="the log of the checkpoint process has the cause",
    ),
    Line(
        "other ranks that didn",  # of SGLang
        "other ranks that didn.?t finish",
        shows="symptom",
        why="the logs of the unfinished ranks have the cause",
    ),
    Line(
        "Background thread for TCPStore died", shows="symptom", why="the store's host ended, or its connection was lost"
    ),
    Line(
        "Fatal error in ",  # of MPICH, and of Cray's and Intel's MPI
        r"(?:MPICH ERROR \[Rank (?P<rank>\d{1,7})\] .{0,200}\[(?P<host>[\w.-]{1,64})\] - |^)Abort\(\d{1,12}\) "
        r"(?:on node \d{1,7} )?\(rank (?P<ranks>\d{1,7}) in comm ",
        shows="symptom",
        why="a dead peer, a lost message and a wrong call show the same in MPI",
    ),
    Line(
        "fatal signal from worker process",  # of vLLM
        shows="symptom",
        why="the cause is above it, or in the log of the worker",
    ),
    Line(
        (
            "Aborting process on rank",
            "encountered error set by ProcessGroupNCCL",
            "indicates that another task died",  # of JAX
        ),
        shows="symptom",
        why="the cause is above it, or in the log of another rank",
    ),
    Line(
        ("[Proxy Service", "[Service thread]", "[Proxy service]", "failed while polling for opId"),
        "Failed to execute operation|Could not receive type|Error encountered progressing|failed while polling",
        shows="symptom",
        why="a rank of the same node failed or exited; its own lines have the cause",
    ),
    Line(
        ("UCX  ERROR", "Unexpected UCX error: ", "PMIX ERROR: ", "ExecutorLostFailure"),
        r"UCX  ERROR .{1,200}(?:exceeded|[Tt]imeout|timed out|reset|(?:send|recv)\(\d{1,9}\) failed)"
        r"|Unexpected UCX error: (?:Endpoint timeout|Connection reset)|PMIX ERROR: \S{0,20}(?:UNREACH|LOST|COMM)"
        r"|ExecutorLostFailure",
        shows="symptom",
        why="a dead peer and an unreachable peer show the same",
    ),
    Line(
        (
            "process managed by the executor was unexpectedly terminated",
            "abruptly died during map operation",
            "scheduler is dead",
            "scheduler died",
            "Background thread failed",
            "Waited too long for local leader",
            "RPC call to ",
            "_InactiveRpcError",
            "marked as dead by",  # of Ray, on the node itself
            "m marked as dead.",
        ),
        "terminated|died|dead|failed|too long|timed out|InactiveRpcError",
        shows="symptom",
        why="it does not show how the awaited process ended",
    ),
)
