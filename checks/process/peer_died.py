"""Another rank or node went away first.

What you see
------------
`Connection reset by peer`, `Connection closed by peer`, `Broken pipe`, `recvValue failed`, `socketProgress: Connection
closed by remote peer`, watchdogs that abort.

Why it happens
--------------
These are what is left of a connection whose other end died. The reason is in the log of the rank that ended first.

Fix
---
Read the log of the rank that ended first: by the clock, the one with no error about a connection.

When it is harmless
-------------------
At the very end of a job, where ranks leave one after another.

See also
--------
process/exception, process/rank0-died, process/peer-exited-early
"""

from distdoctor.check_api import Ended, Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = ("the logs of the other ranks and nodes: the one that ended first has the reason", "distdoctor diagnose LOGS...")
LOG = (
    Line(
        "exits: rank",
        r"^exits: rank (?P<ranks>\d{1,6})(?: on (?P<host>\S+))? ended first, ",
        shows="symptom",
        why="on another node one may have ended before it",
    ),
    Line(
        (
            "Connection reset by peer",
            "Connection closed by peer",
            "onnection was forcibly closed",
            "ConnectionResetError",
            "Software caused connection abort",
        ),
        r"(?:.{0,400}by peer \[(?!127\.|::1)(?P<peer>[\da-fA-F.:]{3,45})\])?",  # gloo's
        shows="symptom",
        why="the peer may have died of anything; a firewall that forgets idle connections resets them on both sides",
        unless=r"huggingface|https?://|urllib3|wandb|requests\.exceptions",
    ),
    Line(
        "An MPI communication peer process has unexpectedly disconnected",
        shows="symptom",
        why="the peer may have died of anything; the lines below name its host",
    ),
    Line(
        ("Broken pipe", "BrokenPipeError"),
        unless=r"line \d+: +\d+ Broken pipe ",  # bash's, of a script's own pipe
        shows="symptom",
        why="the other end may have died of anything",
    ),
    Line(
        ("onnection closed by remote peer", "remote process exited or there was a network error", "ncclRemoteError"),
        r"(?:.{0,400}by remote peer (?P<peer>[\w.:-]{2,253})<)?",
        shows="symptom",
        why="the peer may have died of anything",
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
        why="a peer that died, and one that cannot be reached, show the same",
    ),
    Line(
        ("ocketPollConnect", "ocketStartConnect", "Call to connect returned"),
        "Connection refused|No route to host|Connection timed out",
        shows="hint",
        why="it was closed, or never open",
    ),
    Line(
        "WARN Net : ",
        "WARN Net : (?:Conn|Call)",
        shows="symptom",
        why="a peer that died, and one that cannot be reached, show the same",
    ),
    Line(
        ("communicator encountered a fatal error", "ncclCommSetAsyncError: error comm"),
        shows="symptom",
        why="the reason is above it, or in the log of another rank",
    ),
    Line(
        "Exception raised from ",
        r"Exception raised from \w{1,80} at \S{0,200}(?:ProcessGroup|NCCLUtils|TCPStore|socket)",
        shows="symptom",
        why="what it was stands above it",
    ),
    Line.of_end(
        Ended(("daemon lost",)),
        shows="symptom",
        why="a node that went away, and one that cannot be reached, show the same to mpirun",
    ),
    Line.of_end(
        Ended(("node dead", "node lost")),
        shows="symptom",
        why="why the node went away is in its own log, and in its kernel's",
    ),
    Line.of_end(Ended(("actor died", "actor lost")), shows="symptom", why="how it died is in the actor's own log"),
    Line(
        ("GetTimeoutError", "DEADLINE_EXCEEDED"),
        shows="symptom",
        why="somebody did not answer in time: why is in their log",
    ),
    Line(
        ("failed to connect to all addresses", "oordination service", "Failed to meet rendezvous"),  # gRPC's, XLA's
        r"UNAVAILABLE: ?failed to connect|Failed to meet rendezvous '"
        r"|oordination service agent in error status: \w|\bERROR in coordination service|RPC to coordination service",
        shows="symptom",
        why="a peer that died, one that was never started, and one that cannot be reached, show the same",
    ),
    Line(
        "got completion with error:",
        shows="symptom",
        why="a node that went away, and one that cannot be reached, show the same to an InfiniBand adapter",
    ),
    Line(
        "DistBackendError",
        unless="is setting up NCCL communicator|NCCL error in",
        shows="symptom",
        head=True,
        why="it names a backend's failure, not its reason",
    ),
    Line(
        ("DistNetworkError", "DistStoreError"),
        shows="symptom",
        why="it names a lost connection or a wait in vain, not its reason",
        # The frames of a C++ stack say nothing; nor has anybody been there yet who could have died.
        unless=r"\bframe #\d|while trying to connect to|(?:clients|workers) joined",
    ),
    Line(
        "EOFError",
        r"^EOFError:?\s*$",  # multiprocessing/connection.py: of a file there is a word more
        shows="symptom",
        why="the process at the other end of the pipe is gone",
    ),
    Line(
        "EOFError: ",
        r"^EOFError: \S",
        stack=r"/multiprocessing/|/torch/distributed/distributed_c10d\.py",
        shows="symptom",
        why="the process at the other end is gone",
    ),
    Line(
        "worker_count=",
        r"world_size=(?P<expected>\d{1,9}), worker_count=(?P<here>\d{1,9})",
        above=("here", "expected"),
        shows="hint",
        why="more came than the world has: those of an earlier start, whose failure stands further up, or a stale file",
    ),
    Line(
        "exited unexpectedly",
        r"DataLoader worker \(pid.{0,40}exited unexpectedly",
        shows="symptom",
        why="how the worker ended is in the kernel's log or above",
    ),
    Line("Some NCCL operations have failed or timed out", shows="symptom", why="the reason is above it"),
    Line("NCCL communicator was aborted", shows="symptom", why="the reason is in the log of another rank"),
    Line("taking the entire process down", shows="symptom", why="the reason is above it"),
    Line(
        "watchdog thread terminated with exception",
        shows="symptom",
        why="the reason is behind it, or in the log of another rank",
    ),
    Line(
        (
            "EngineDeadError",
            "Engine core initialization failed",
            "EngineCore failed",
            "WorkerProc initialization failed",
        ),
        shows="symptom",
        why="the reason is above it",
    ),
    Line(
        "successfully reached monitoredBarrier, but received errors",
        shows="symptom",
        why="the rank that it names has the reason, or knows whose it is",
    ),
    Line(
        ("Checkpoint background process is dead", "response from checkpointer process"),
        shows="symptom",
        why="what became of the process that writes checkpoints is in its own log",
    ),
    Line(
        "other ranks that didn",  # SGLang's
        "other ranks that didn.?t finish",
        shows="symptom",
        why="the logs of the ranks that did not finish say why",
    ),
    Line(
        "Background thread for TCPStore died", shows="symptom", why="the store's host ended, or its connection was lost"
    ),
    Line(
        "Fatal error in ",  # MPICH's, and Cray's and Intel's MPI that come of it
        r"(?:MPICH ERROR \[Rank (?P<rank>\d{1,7})\] .{0,200}\[(?P<host>[\w.-]{1,64})\] - |^)Abort\(\d{1,12}\) "
        r"(?:on node \d{1,7} )?\(rank (?P<ranks>\d{1,7}) in comm ",
        shows="symptom",
        why="MPI tells which call failed: a peer that died, a message that was lost, and a wrong call show the same",
    ),
    Line(
        "fatal signal from worker process",  # vLLM's
        shows="symptom",
        why="the reason is above it, or in the log of the worker",
    ),
    Line(
        (
            "Aborting process on rank",
            "encountered error set by ProcessGroupNCCL",
            "indicates that another task died",  # JAX's
        ),
        shows="symptom",
        why="the reason is above it, or in the log of another rank",
    ),
    Line(
        ("[Proxy Service", "[Service thread]", "[Proxy service]", "failed while polling for opId"),
        "Failed to execute operation|Could not receive type|Error encountered progressing|failed while polling",
        shows="symptom",
        why="a rank of the same node failed, or left: its own lines say why",
    ),
    Line(
        ("UCX  ERROR", "PMIX ERROR: ", "ExecutorLostFailure"),
        r"UCX  ERROR .{1,300}(?:exceeded|[Tt]imeout|timed out|reset)|PMIX ERROR: \S{0,20}(?:UNREACH|LOST|COMM)"
        r"|ExecutorLostFailure",
        shows="symptom",
        why="a peer that died, and one that cannot be reached, show the same",
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
            "marked as dead by",  # Ray's, of a node, on that node
            "m marked as dead.",
        ),
        "terminated|died|dead|failed|too long|timed out|InactiveRpcError",
        shows="symptom",
        why="how the process that it waited for ended is not said",
    ),
)
