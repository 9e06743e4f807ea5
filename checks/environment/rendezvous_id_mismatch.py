"""The nodes use different rendezvous ids.

## What you see
Nothing until the rendezvous times out. With c10d that is `RendezvousTimeoutError` after ten minutes. With a static
rendezvous it is `wait timeout ... keys: /none/torchelastic/role_info/1`.

## Why it happens
--rdzv-id names the job. torchrun separates the keys of each id, so that nodes with different ids never join although
they use the same store. A date, a process id or a random number in the launch script gives each node its own id.

## Fix
Give all nodes the same --rdzv-id, a new one for every job: `torchrun --rdzv-id $SLURM_JOB_ID ...`.

## Confirm with
`pgrep -af torchrun` shows the same --rdzv-id on every node.

## When it is harmless
Two jobs really share the endpoint, each with its own id and its own nodes.

## See also
environment/world-size-mismatch, environment/master-mismatch
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, disagreement, live, together

SEVERITY = "fail"
MATTERS = live.STARTED_NOW
LOG = (Line("generated a random run_id", shows="hint", why="several nodes generate different ids and never join"),)
PREVENTS = "all met"
LOOKS_AT = ("everyone",)
FOLLOWS = ("environment/rendezvous-backend-mismatch", "environment/missing-variable", "environment/invalid-variable")


def judge(cluster: Cluster) -> Iterator[Finding]:
    # Once per rank, the agents that start the ranks have met already.
    nodes = [node for node in cluster.nodes if node.plan.started == "node"]
    differing = disagreement({node.name: node.plan.run_id for node in nodes})
    if differing is None:
        return
    given = [value for value in dict.fromkeys(differing.values.values()) if value != "none"]
    target = differing.usual if differing.usual in given else given[0]
    # A majority that gave none at all: the few that gave one differ, but one id for all is what is meant.
    wrong = [node for node in nodes if node.plan.run_id != target]
    yield Finding.about(
        [node for node in nodes if node.name in differing.blamed],
        f"The nodes use different rendezvous ids: {differing.said()}.",
        unsure=not differing.majority,
        evidence=map(line, nodes),
        fixes=(fix(node, target) for node in wrong),
    )


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    differing = live.differing_run_ids(job) if job is not None else ()
    if job is None or not differing:
        return
    hosts = {
        group.run_id: tuple(dict.fromkeys(agent.host for agent in group.agents if agent.host)) for group in differing
    }
    largest = max(len(group.agents) for group in differing)
    usual = [group.run_id for group in differing if len(group.agents) == largest]
    wrong = [group.run_id for group in differing if len(usual) > 1 or group.run_id not in usual]
    wording = "; ".join(f"{together(hosts[group.run_id]) or 'a node'} with {group.run_id}" for group in differing)
    yield Finding.about(
        tuple(dict.fromkeys(host for group in wrong for host in hosts[group])),
        f"The nodes have different rendezvous ids and never join: {wording}.",
        unsure=len(usual) > 1,
        evidence=(f"they are {job.first.nnodes} nodes together, as many as --nnodes of {usual[0]}",),
        fixes=(Fix(f"Start torchrun with the same id on all nodes, for example --rdzv-id {usual[0]}."),),
        severity="warn" if job.young else None,
    )


def line(node: Node) -> str:
    run_id = node.plan.run_id
    if run_id == "none":
        return f"{node.name}: no --rdzv-id is given ({node.plan.rdzv_backend} rendezvous)"
    return f"{node.name}: --rdzv-id {run_id} ({node.plan.rdzv_backend} rendezvous)"


def fix(node: Node, target: str) -> Fix:
    text = "Start it with the rendezvous id of the other nodes."
    if node.variables.get("PET_RDZV_ID") == node.plan.run_id:
        return Fix.on(node, text, env={"PET_RDZV_ID": target})
    return Fix.on(node, text, flags={"--rdzv-id": target})
