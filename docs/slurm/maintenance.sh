#!/bin/sh
# After maintenance, by an operator on the login node: the nodes are kept for root, checked as one job, and given back.
# Usage: maintenance.sh NODES, as gpu[01-64].
nodes=$1
count=$(scontrol show hostnames "$nodes" | wc -l)
scontrol create reservation ReservationName=distdoctor StartTime=now Duration=60 Users=root Flags=maint,ignore_jobs \
    Nodes="$nodes" || exit
srun --reservation=distdoctor --nodes="$count" --ntasks-per-node=1 distdoctor check --wait 60
status=$?
scontrol delete ReservationName=distdoctor
exit "$status"
