"""What ``--help`` says; ``\\b`` keeps the lines of a paragraph as they are."""

from __future__ import annotations

from distdoctor.model.stages import ABOUT

HELP = """Says which node, link or setting keeps a PyTorch distributed job from starting, and the line that fixes it.

Start `distdoctor check` exactly as the job would be started; its launch flags are torchrun's.

\b
Examples:
  distdoctor check                            this machine, with its own ranks
  distdoctor check --nnodes 2                 first node: prints the line for the other one, then waits
  torchrun --nnodes 2 --nproc-per-node 8 --master-addr A --node-rank 0 -m distdoctor check
                                              the ranks that torchrun starts, as the job would be
  srun distdoctor check                       every task of a SLURM step, in one report; mpirun alike
  distdoctor check --nnodes 4 --master-addr A && torchrun ...
                                              in the prolog of a cluster job, on every node
  distdoctor check --nnodes 2 --save DIR      keep what was seen, one file per node; then, with all files:
  distdoctor diagnose DIR                     one verdict for nodes that cannot talk to each other
  distdoctor run -- torchrun ... train.py     check, start the job, and say what killed it or where it hangs
  distdoctor hang                             on a node of a job that hangs now: who waits for whom, and where

\b
Exit status:
  0  nothing at or above --fail-on       2  bad command line or unreadable file
  1  findings                            3  could not finish (a node never came, a probe crashed)
  128+n  ended by signal n, with what was known then
With --exit-status own: of what blames this node, for a prolog that takes nodes out.
"""

CHECK_HELP = (
    """Check this machine, or its part in a cluster, as the job would use it.

\b
Stages, in the order in which they are run (--until names the last):
"""
    + "".join(f"  {stage:<12} {about}\n" for stage, about in ABOUT.items())
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
  distdoctor run --preflight full -- torchrun --nnodes 2 --node-rank 0 --master-addr A train.py
                                              on every node, each with its own line: they meet first, as check does
  srun distdoctor run -- python train.py      every task is a rank
  distdoctor run -- srun torchrun ...         the check is started by the same srun, in the job's allocation
  distdoctor run -- accelerate launch train.py

The job's exit status, signals and terminal are its own: they are handed on as they are. Where distdoctor itself fails,
the job runs all the same. --preflight quick looks at this node alone and waits for nobody; full needs every node to be
started by `distdoctor run --preflight full`. Of other programs (bash train.sh) only the environment says what they will
start: this machine is checked as it says.
"""

DIAGNOSE_HELP = """Say what killed a job, from whatever it left: logs (files, folders, .gz, .zst, - for stdin), facts
that `check --save` kept, flight-recorder dumps, torchelastic error files, kernel logs; all of one job together.

\b
Examples:
  distdoctor diagnose train.log               the first failure in it, what proves it, the fix
  distdoctor diagnose logs/ dmesg.txt facts/  everything of one job, judged together
  distdoctor diagnose -v --rank 3 logs/       each line of rank 3 that is known, also noise and why it is
  distdoctor diagnose --since 30m train.log   only the last half hour of it
  distdoctor diagnose --follow logs/          while the job runs: speaks when a root cause appears
  distdoctor diagnose --hosts gpu[01-16] '/var/log/job/*.err'
                                              what lies on these hosts, fetched over ssh and judged together

\b
Verdict and exit status:
  fail        1  the logs show how the job failed
  incomplete  3  they show that it failed and not why: what it may be and what to get next; or not all could be read
  warn        0  no failure in this, but no log says that the job is done: it still runs, or ended unseen in mid-work;
                 where each log ends and what it did last is told
  pass        0  no failure in this, and each log ends with the end of the job
"""
