#!/bin/sh
# TaskProlog= of slurm.conf, or srun --task-prolog: before each task, as its user, in its cgroup, with its variables and
# GPUs, which Prolog= does not see (the task's limits it does not have: those are set later). A line "print ..." of it
# goes to the task's output; the task begins in any case.
distdoctor=/opt/distdoctor/bin/distdoctor

[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0 # once on each node
said=$(timeout -k 5 30 "$distdoctor" check --nnodes 1 --master-port 29500 --until gpu -q 2>&1)
[ $? = 1 ] || exit 0
echo "print distdoctor: $(date '+%Y-%m-%dT%H:%M:%S%z') $SLURMD_NODENAME job $SLURM_JOB_ID"
printf '%s\n' "$said" | sed 's/^/print /'
exit 0
