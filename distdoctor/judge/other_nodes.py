"""How a job of SLURM goes on without a node that is to blame: the flag that leaves it out, the line that drains it.

sbatch(1), salloc(1), srun(1): ``--exclude``; scontrol(1): ``update NodeName= State=DRAIN Reason=``, for operators.
"""

from __future__ import annotations

import shlex
from dataclasses import replace

from distdoctor.model.cluster import Cluster
from distdoctor.model.findings import Finding, Fix
from distdoctor.model.launch_variables import SLURM_NODE

NODE_NAME = SLURM_NODE
"""What SLURM calls the node, in each task of a step; its host name may be another."""
OF_THE_LAUNCH = ("launch", "environment")
"""Stages whose findings are about how the job is started: on other nodes it would be started the same."""


def with_exclusion(finding: Finding, cluster: Cluster) -> Finding:
    """The finding with the lines as its last option, where other nodes are a remedy: under SLURM, where it is sure that
    a failure is that of a few nodes, and nothing that the user sets would mend it."""
    if finding.severity != "fail" or finding.because_of is not None or finding.incomplete or finding.blame != "all":
        return finding
    if finding.check.partition("/")[0] in OF_THE_LAUNCH or not 0 < 2 * len(finding.nodes) <= _size(cluster):
        return finding
    best = min((fix.option for fix in finding.fixes), default=0)
    if any(fix.env or fix.flags or fix.unknown for fix in finding.fixes if fix.option == best):
        return finding
    names = [name for node in finding.nodes if (name := _slurm_name(node, cluster))]
    if len(names) < len(finding.nodes):
        return finding
    listed = ",".join(names)
    fix = Fix(
        f"start the job on other nodes: `--exclude={listed}` to sbatch, salloc or srun. Where you may, drain "
        f"{'it' if len(names) == 1 else 'them'} until that is mended.",
        option=1 + max((fix.option for fix in finding.fixes), default=0),
        commands=(
            f"scontrol update NodeName={listed} State=DRAIN Reason={shlex.quote(f'distdoctor: {finding.check}')}",
        ),
    )
    return replace(finding, fixes=(*finding.fixes, fix))


def _size(cluster: Cluster) -> int:
    return max(cluster.plan.nnodes or 0, len(cluster.nodes))


def _slurm_name(name: str, cluster: Cluster) -> str:
    """SLURM's name of a node; empty where this is not SLURM, or it is not known."""
    roster = cluster.plan.roster
    for node in cluster.nodes:
        if node.name == name:
            return node.variables.get(NODE_NAME, "")
    under_slurm = any(node.variables.get(NODE_NAME) for node in cluster.nodes)
    return name if under_slurm and name in roster else ""
