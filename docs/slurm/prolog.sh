#!/bin/sh
# Prolog= of slurm.conf, with PrologFlags=Alloc: then it runs on all nodes of a job at once, before its first step.
# Up to the network no torch is needed, and none of the user's environment is there. Status 1 drains this node, and
# --exit-status own is 1 only where this node itself is to blame; whatever else goes wrong lets the job begin.
distdoctor=/opt/distdoctor/bin/distdoctor
log=/var/log/distdoctor-prolog.log

[ "${SLURM_JOB_NUM_NODES:-1}" -gt 1 ] || exit 0
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
# Shorter than SLURM's own patience with a prolog (PrologEpilogTimeout, BatchStartTimeout).
said=$(timeout -k 5 40 "$distdoctor" check --until network --wait 15 --timeout 15 --exit-status own -q 2>&1)
status=$?
case $status in
0) verdict=PASS ;;
1) verdict=FAIL ;;
124 | 137) verdict=TIMEOUT ;;
*) verdict=INCOMPLETE ;;
esac
# The line with the cause, of the report or of a node that does not print it: "FAIL  CAUSE  [ID]", "NODE: ID: CAUSE".
cause=$(printf '%s\n' "$said" | grep -m 1 -E '^(FAIL|WARN|INCOMPLETE|PASS)|: [a-z]+/[a-z-]+: ' |
    sed -E 's/^(distdoctor: |[A-Z][A-Za-z ]*(: |  ))//')
echo "$(date '+%Y-%m-%dT%H:%M:%S%z') $SLURMD_NODENAME job $SLURM_JOB_ID $verdict: ${cause:-no finding here}" >>"$log"
[ "$verdict" = FAIL ] || exit 0
# SLURM drains the node because of status 1, and keeps a reason that is there already.
timeout 15 scontrol update NodeName="$SLURMD_NODENAME" State=DRAIN Reason="distdoctor: $cause"
exit 1
