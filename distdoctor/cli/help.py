"""Texts of ``--help``; ``\\b`` keeps the lines of a paragraph as they are."""

from __future__ import annotations

import re
import textwrap

from distdoctor.model.stages import STAGE_TEXTS

HELP = """Find the node, link or setting that keeps a PyTorch distributed job from running, and print the fix.

`check` runs before the job, `hang` while it hangs, `diagnose` on the logs of a dead one. Start `check` exactly as you
start the job: its launch flags are torchrun's.
"""

EXAMPLES = """\b
Examples:
  distdoctor check                         this node and its own ranks
  distdoctor check --nnodes 2              on node 0: prints the command for
                                           the other node, then waits
  torchrun --nnodes 2 ... -m distdoctor check
                                           the ranks that torchrun starts
  srun distdoctor check                    every task of a SLURM step, in one
                                           report; mpirun likewise
  distdoctor check --hosts 'gpu[01-16]'    on these hosts, over ssh
  distdoctor run -- torchrun ... train.py  check, start the job, report what
                                           killed it or where it hangs
  distdoctor hang                          on a node of a job that hangs now
  distdoctor diagnose train.log            the first failure and its fix
  distdoctor explain "Connection refused"  likely causes of an error message

\b
Exit status:
  0      no finding at or above --fail-on
  1      findings
  2      bad command line or unreadable file
  3      inconclusive or not finished (a node did not join, a probe crashed)
  128+n  ended by signal n; the report covers what was known then
With --exit-status own, only findings that affect this node count.

\b
Documentation:
  man distdoctor           this help, and that of each command
  distdoctor explain ID    one failure; distdoctor list shows all ids
"""

CHECK_HELP = (
    """Check this node, or its part in a cluster, with the job's own nodes, ports and backend.

\b
Stages, in the order in which they run (--until names the last):
"""
    + "".join(f"  {stage:<12} {about}\n" for stage, about in STAGE_TEXTS.items())
    + """
With the job's own start line behind --, the check has the plan of that line, and starts nothing of it.

\b
  launchers   torchrun, accelerate, deepspeed, srun, mpirun, ft_launcher
  engines     vllm serve, sglang.launch_server, dynamo, trl vllm-serve
  trainers    LLaMA-Factory, ms-swift, axolotl, composer, Lightning, verl
  in front    env, uv run, conda run, numactl, nohup, bash -c

For any other line one sentence says which plan is used instead.

Without a GPU, a check of one node starts two ranks, so that they can talk to each other (torchrun's default is one).
Give --nproc-per-node as the job does.
"""
)

CHECK_EXAMPLES = """\b
Examples:
  distdoctor check                         this node
  distdoctor check --nnodes 2              on node 0
  distdoctor check --nnodes 2 --master-addr HOST
                                           on the other node
  distdoctor check --nnodes 4 --master-addr HOST && torchrun ...
                                           in a job's prolog, on every node
  distdoctor check -- vllm serve MODEL -tp 16 --nnodes 2 --master-addr HOST
                                           for the plan of this line, on every
                                           node: ranks, master and ports
  distdoctor check --nnodes 2 --wait 10m   wait up to 10 minutes
  distdoctor check --hosts 'gpu[01-16]'    all nodes from here, over ssh
  distdoctor check --nnodes 2 --save DIR/  save the facts of each node; then:
  distdoctor diagnose DIR                  one verdict, also for nodes that
                                           cannot reach each other
"""

RUN_HELP = """Start a job with its own command and watch it.

Before the job, distdoctor checks the same plan. While it runs, distdoctor reads its output and looks at ranks that make
no progress. After it, distdoctor reports the cause of a failure on stderr, below the job's own output.

The job keeps its exit status, signals and terminal. If distdoctor itself fails, the job still runs.
distdoctor reads the same commands as `distdoctor check -- LINE`. For any other program it takes the plan from the
environment.
"""

RUN_EXAMPLES = """\b
Examples:
  distdoctor run -- torchrun --nproc-per-node 8 train.py
  distdoctor run --preflight full -- torchrun --nnodes 2 ... train.py
                                           on every node: run all stages with
                                           the other nodes first
  srun distdoctor run -- python train.py   every task is a rank
  distdoctor run -- srun torchrun ...      the same srun starts the check, in
                                           the job's allocation
  distdoctor run -- accelerate launch train.py
"""

HANG_HELP = """Report why a running job makes no progress: which ranks are missing, and what each rank waits for.

Run it on one node of the job, or on all of them (--hosts, --slurm-job, --pods). It changes nothing: the job goes on.
"""

HANG_EXAMPLES = """\b
Examples:
  distdoctor hang                          the job on this node
  distdoctor hang --slurm-job 4711         all nodes of a SLURM job, from here
  distdoctor hang --watch 10               again every 10 s, with the changes
  distdoctor hang --save DIR/              on each node; then, with all files:
  distdoctor diagnose DIR                  one verdict for all nodes

\b
Verdict and exit status:
  HANG          1  ranks wait for a rank, node or link that is named
  RUNNING       0  the ranks make progress
  WAITING       0  ranks wait for one that may still come; it is named
  INCONCLUSIVE  3  this node's evidence is not enough; the report names the
                   node to look at next
"""

DIAGNOSE_HELP = """Report what killed a job, from the files that it left.

These are logs (files, folders, .gz, .xz, .zst, - for stdin), facts of `check --save`, flight-recorder dumps,
torchelastic error files and kernel logs. Give all files of one job together.
"""

DIAGNOSE_EXAMPLES = """\b
Examples:
  distdoctor diagnose train.log            the first failure, its evidence and
                                           its fix
  distdoctor diagnose logs/ dmesg.txt facts/
                                           all files of one job, together
  distdoctor diagnose -v --rank 3 logs/    every known line of rank 3
  distdoctor diagnose --since 30m x.log    only its last 30 minutes
  distdoctor diagnose --follow logs/       while the job runs: print a root
                                           cause as soon as it appears
  distdoctor diagnose --hosts 'gpu[01-16]' '/var/log/job/*.err'
                                           files on these hosts, over ssh

\b
Verdict and exit status:
  FAIL              1  the logs prove why the job failed
  INCONCLUSIVE      3  they show a failure without its cause: likely causes,
                       and what to get next; or a file could not be read
  NO FAILURE FOUND  0  no failure; a note says where a log ends in mid-work
"""

EXPLAIN_HELP = """Print everything known about one failure: symptoms, cause, fix, when it is harmless.

Give the id of a check, the beginning of ids (gloo), or an error message in quotes. A message
that does not prove its cause gets a list of likely causes, each with a command that confirms it (exit status 3).
"""

EXPLAIN_EXAMPLES = """\b
Examples:
  distdoctor explain gloo/loopback-address
                                           the page of this check
  distdoctor explain gloo                  the checks of this stage
  distdoctor explain "Connection refused"  likely causes of this message
  distdoctor explain -                     the message on stdin
"""

WIDE = 80
"""Columns of a terminal for which these are written."""
_INDENT, _TEXT_COLUMN = 2, 20
"""Columns that the parser puts before each line; text that begins before column 20 stays beside its explanation."""
_ROW, _MORE = re.compile(r"  (\S.*?)  +(\S.*)"), re.compile(r" {10,}(\S.*)")


def fitting(text: str, columns: int) -> str:
    """Return the text for a terminal of fewer columns: the explanation of a line is put below it. A command is never
    broken."""
    if columns >= WIDE:
        return text
    return "\n\n".join(
        "\b\n" + "\n".join(_folded(paragraph[2:].splitlines(), columns - _INDENT))
        if paragraph.startswith("\b\n")
        else paragraph
        for paragraph in text.split("\n\n")
    )


def _folded(lines: list[str], columns: int) -> list[str]:
    rows: list[tuple[str, int, str]] = []
    """(line or entry of a list, its text, column at which its explanation begins)."""
    for line in lines:
        text, column, about = rows[-1] if rows else (" ", 0, "")
        if rows and (more := _MORE.fullmatch(line)):
            rows[-1] = (text, column or more.start(1), f"{about} {more[1]}".strip())
        elif row := _ROW.fullmatch(line):
            rows.append((f"  {row[1]}", row.start(2), row[2]))
        elif line.startswith(" ") or text.startswith(" "):
            rows.append((line, 0, ""))
        else:
            rows[-1] = (f"{text} {line}", 0, "")
    folded: list[str] = []
    for text, column, about in rows:
        if column < _TEXT_COLUMN and (about or not text.startswith(" ")):
            folded += textwrap.wrap(f"{text:<{column}}{about}", columns, subsequent_indent=" " * column)
        else:
            folded += [text, *textwrap.wrap(about, columns, initial_indent=" " * 6, subsequent_indent=" " * 6)]
    return folded


MCP_HELP = """Serve check, hang, diagnose, explain and list as tools of the Model Context Protocol, on stdin and stdout.

An agent or editor starts it. Each call ends within a bound, changes nothing, and looks at this machine only.
It needs the extra mcp.
"""

MCP_EXAMPLES = """\b
Example of a client's configuration:
  {"mcpServers": {"distdoctor":
    {"command": "distdoctor", "args": ["mcp"]}}}
"""

HEALTH_HELP = """Answer a launcher's node health requests on a Unix socket, until it is stopped.

A request runs `distdoctor check --standalone --until network`: no torch, no GPU memory, about a second.
A FAIL makes the node unhealthy; a warning or an incomplete check does not. Answers are kept for --every.
The protocol is gRPC (nvhcd.HealthCheckService, of NVIDIA's resiliency extension). It needs the extra grpc.
"""

HEALTH_EXAMPLES = """\b
Examples:
  distdoctor health /run/d.sock   on each node, as a service

  The option of ft_launcher that asks it:
  --ft-node-health-check-endpoint /run/d.sock
"""
