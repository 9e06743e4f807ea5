"""Nodes use different rendezvous ids.

What you see
------------
Nothing until the rendezvous times out: `RendezvousTimeoutError` after ten minutes with c10d, `wait timeout ... keys:
/none/torchelastic/role_info/1` with a static rendezvous.

Why it happens
--------------
--rdzv-id names the job. torchrun keeps what belongs to one id apart from every other, so that nodes with different ids
never meet although they talk to the same store. A date, a process id or a random number in the launch script gives
each node an id of its own.

Fix
---
Give all nodes the same --rdzv-id, a fresh one for every job: the scheduler's job number, for example.

When it is harmless
-------------------
When two jobs really share the endpoint, each with its own id and its own nodes.

See also
--------
environment/world-size-mismatch, environment/master-mismatch
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, disagreement, live, together

SEVERITY = "fail"
MATTERS = live.STARTED_NOW
LOG = (
    Line("generated a random run_id", shows="hint", why="on several nodes each makes up its own, and they never meet"),
)
PREVENTS = "all met"
LOOKS_AT = ("everyone",)
FOLLOWS = ("environment/rendezvous-backend-mismatch", "environment/missing-variable", "environment/invalid-variable")


def judge(cluster: Cluster) -> Iterator[Finding]:
    # Once per rank, the agents that start the ranks have met already.
    nodes = [node for node in cluster.nodes if node.plan.started == "node"]
    found = disagreement({node.name: node.plan.run_id for node in nodes})
    if found is None:
        return
    given = [value for value in dict.fromkeys(found.values.values()) if value != "none"]
    target = found.usual if found.usual in given else given[0]
    # A majority that gave none at all: the few that gave one differ, but one id for all is what is meant.
    wrong = [node for node in nodes if node.plan.run_id != target]
    yield Finding.about(
        [node for node in nodes if node.name in found.blamed],
        f"The nodes use different rendezvous ids: {found.said()}.",
        unsure=not found.majority,
        evidence=map(line, nodes),
        fixes=(fix(node, target) for node in wrong),
    )


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    found = live.differing_run_ids(job) if job is not None else ()
    if job is None or not found:
        return
    hosts = {one.run_id: tuple(dict.fromkeys(agent.host for agent in one.agents if agent.host)) for one in found}
    most = max(len(one.agents) for one in found)
    usual = [one.run_id for one in found if len(one.agents) == most]
    wrong = [one.run_id for one in found if len(usual) > 1 or one.run_id not in usual]
    said = "; ".join(f"{together(hosts[one.run_id]) or 'a node'} with {one.run_id}" for one in found)
    yield Finding.about(
        tuple(dict.fromkeys(host for one in wrong for host in hosts[one])),
        f"The nodes came to torchrun's rendezvous with different ids, and never meet: {said}.",
        unsure=len(usual) > 1,
        evidence=(f"they are {job.first.nnodes} in all, as many as --nnodes of {usual[0]} says",),
        fixes=(Fix(f"Start torchrun with the same id on all nodes, such as --rdzv-id {usual[0]}."),),
        severity="warn" if job.young else None,
    )


def line(node: Node) -> str:
    run_id = node.plan.run_id
    if run_id == "none":
        return f"{node.name}: no --rdzv-id is given ({node.plan.rdzv_backend} rendezvous)"
    return f"{node.name}: --rdzv-id {run_id} ({node.plan.rdzv_backend} rendezvous)"


def fix(node: Node, target: str) -> Fix:
    text = "Give all nodes the same rendezvous id."
    if node.variables.get("PET_RDZV_ID") == node.plan.run_id:
        return Fix.on(node, text, env={"PET_RDZV_ID": target})
    return Fix.on(node, text, flags={"--rdzv-id": target})
