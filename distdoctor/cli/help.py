"""What ``--help`` says; ``\\b`` keeps the lines of a paragraph as they are."""

from __future__ import annotations

import re
import textwrap

from distdoctor.model.stages import STAGE_TEXTS

HELP = """Says which node, link or setting keeps a PyTorch distributed job from starting, and the line that fixes it.

Start `distdoctor check` exactly as the job would be started; its launch flags are torchrun's.

\b
Examples:
  distdoctor check                         this machine, with its own ranks
  distdoctor check --nnodes 2              first node: prints the line for the
                                           other one, then waits
  torchrun --nnodes 2 ... -m distdoctor check
                                           the ranks that torchrun starts
  srun distdoctor check                    every task of a SLURM step, in one
                                           report; mpirun alike
  distdoctor check --nnodes 4 --master-addr A && torchrun ...
                                           in a job's prolog, on every node
  distdoctor check --nnodes 2 --save DIR/  keep what was seen, a file per node
  distdoctor diagnose DIR                  one verdict from these files, also
                                           of nodes that cannot meet
  distdoctor run -- torchrun ... train.py  check, start the job, say what
                                           killed it or where it hangs
  distdoctor hang                          on a node of a job that hangs now

\b
Exit status:
  0      nothing at or above --fail-on
  1      findings
  2      bad command line or unreadable file
  3      could not finish (a node never came, a probe crashed)
  128+n  ended by signal n, with what was known then
With --exit-status own: of what blames this node, for a prolog that takes
nodes out.
"""

CHECK_HELP = (
    """Check this machine, or its part in a cluster, as the job would use it.

\b
Stages, in the order in which they are run (--until names the last):
"""
    + "".join(f"  {stage:<12} {about}\n" for stage, about in STAGE_TEXTS.items())
    + """
A check of one node has two ranks where there is no GPU (torchrun: one), so that they have something to say to each
other; give --nproc-per-node as the job does.
"""
)

RUN_HELP = """Start a job with its own line, unchanged, and watch over it: check the same plan first, follow what it
writes, look at it where nothing moves, and say below its own output what killed it, all on stderr.

\b
Examples:
  distdoctor run -- torchrun --nproc-per-node 8 train.py
  distdoctor run --preflight full -- torchrun --nnodes 2 ... train.py
                                           on every node, each with its own
                                           line: they meet first, as in check
  srun distdoctor run -- python train.py   every task is a rank
  distdoctor run -- srun torchrun ...      the check is started by the same
                                           srun, in the job's allocation
  distdoctor run -- accelerate launch train.py

The job's exit status, signals and terminal are its own: they are handed on as they are. Where distdoctor itself fails,
the job runs all the same. --preflight quick looks at this node alone and waits for nobody; full needs every node to be
started by `distdoctor run --preflight full`. Of other programs (bash train.sh) only the environment says what they will
start: this machine is checked as it says.
"""

HANG_HELP = """Look at a job that hangs now, from one of its nodes, or on all of them (--hosts, --slurm-job, --pods):
which ranks are there and which are missing, what each waits for, and why. Nothing is changed: the job goes on as if
nobody had looked.

\b
Examples:
  distdoctor hang                          the job on this node
  distdoctor hang --slurm-job 4711         all nodes of a SLURM job, from here
  distdoctor hang --watch 10               every 10 s, and what changed
  distdoctor hang --save DIR/              on each node; then, with all files:
  distdoctor diagnose DIR                  one verdict of all nodes

\b
Verdict and exit status:
  HANGS        1  a rank, a node or a link was found for which others wait
  MOVES        0  it is no hang
  STARTS       0  the ranks still meet
  WAITS        0  the others wait for a rank that may come yet; it is named
  CANNOT TELL  3  it cannot be known from here; the node to ask is told
"""

DIAGNOSE_HELP = """Say what killed a job, from whatever it left: logs (files, folders, .gz, .xz, .zst, - for stdin),
facts that `check --save` kept, flight-recorder dumps, torchelastic error files, kernel logs; all of one job together.

\b
Examples:
  distdoctor diagnose train.log            the first failure, what proves it,
                                           the fix
  distdoctor diagnose logs/ dmesg.txt facts/
                                           all of one job, judged together
  distdoctor diagnose -v --rank 3 logs/    its known lines, noise too
  distdoctor diagnose --since 30m x.log    only the last half hour of it
  distdoctor diagnose --follow logs/       while the job runs: speaks when a
                                           root cause appears
  distdoctor diagnose --hosts 'gpu[01-16]' '/var/log/job/*.err'
                                           what lies on these hosts, over ssh

\b
Verdict and exit status:
  fail        1  the logs show why the job failed
  incomplete  3  they show that it failed and not why: what it may be, and
                 what to get next; or not all could be read
  warn        0  no failure, but no log says that the job is done: it still
                 runs, or ended unseen in mid-work; what each log did last
  pass        0  no failure, and each log ends with the end of the job
"""

WIDE = 80
"""Columns of a terminal for which these are written."""
_INDENT, _BESIDE = 2, 20
"""Columns that the parser puts before each line; what begins before column 20 stays beside what it explains."""
_ROW, _MORE = re.compile(r"  (\S.*?)  +(\S.*)"), re.compile(r" {10,}(\S.*)")


def fitting(text: str, columns: int) -> str:
    """The same for a terminal of fewer columns: what explains a line stands below it. A command is never broken."""
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
    """A line or an entry of a list, and from which column on what is said of it."""
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
    found: list[str] = []
    for text, column, about in rows:
        if column < _BESIDE and (about or not text.startswith(" ")):
            found += textwrap.wrap(f"{text:<{column}}{about}", columns, subsequent_indent=" " * column)
        else:
            found += [text, *textwrap.wrap(about, columns, initial_indent=" " * 6, subsequent_indent=" " * 6)]
    return found
