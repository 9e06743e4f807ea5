#!/bin/sh
# TaskProlog= of slurm.conf, or srun --task-prolog: before each task, as its user, in its cgroup, with its variables and
# GPUs, which Prolog= does not see (the task's limits it does not have: those are set later). A line "print ..." of it
# goes to the task's output; the task begins in any case.
distdoctor=/opt/distdoctor/bin/distdoctor

[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0 # once on each node
timeout -k 5 30 "$distdoctor" check --nnodes 1 --master-port 29500 --until gpu -q 2>&1 | sed -n '/FAIL/,$s/^/print /p'
exit 0
