#!/bin/sh
# HealthCheckProgram= of slurm.conf, with HealthCheckInterval= and HealthCheckNodeState=IDLE: slurmd runs it again and
# again on each node and only logs its status, so the script drains the node itself. It knows of no job, and looks at
# this machine alone. A node that is drained already keeps the reason that somebody gave.
distdoctor=/opt/distdoctor/bin/distdoctor

export PATH=/usr/sbin:/usr/bin:/sbin:/bin
# Shorter than SLURM's own patience, which is 60 s. Status 2 of -o nagios: a job would fail here.
said=$(timeout -k 5 40 "$distdoctor" check --standalone --until gpu -q -o nagios 2>/dev/null)
[ $? = 2 ] || exit 0
scontrol --oneliner show node "$SLURMD_NODENAME" | grep -q 'State=[^ ]*DRAIN' && exit 0
said=${said#* - }
scontrol update NodeName="$SLURMD_NODENAME" State=DRAIN Reason="distdoctor: ${said%% | *}"
