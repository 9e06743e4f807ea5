#!/bin/sh
# Prolog= of slurm.conf, with PrologFlags=Alloc: then it runs on all nodes of a job at once, before its first step.
# Up to the network no torch is needed, and none of the user's environment is there. Status 1 drains this node, and
# --exit-status own is 1 only where this node itself is to blame; whatever else goes wrong lets the job begin.
distdoctor=/opt/distdoctor/bin/distdoctor
log=/var/log/distdoctor-prolog.log

[ "${SLURM_JOB_NUM_NODES:-1}" -gt 1 ] || exit 0
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
# Shorter than SLURM's own patience with a prolog (PrologEpilogTimeout, BatchStartTimeout).
timeout -k 5 40 "$distdoctor" check --until network --wait 15 --timeout 15 --exit-status own -q >>"$log" 2>&1
[ $? != 1 ]
