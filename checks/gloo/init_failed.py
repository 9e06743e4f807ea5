"""The gloo process group cannot be made.

What you see
------------
init_process_group() with gloo raises on one side, usually `connectFullMesh failed`, and prints nothing on the other.
The port in gloo's text has its bytes swapped.

Why it happens
--------------
None of the known causes is in the facts. The addresses that the ranks advertised are shown with their errors. Where all
of them were reached before, something between the nodes may forget connections that are idle, or limit their number.

Fix
---
Compare the addresses that the ranks advertise: each must be reached from all other nodes.

When it is harmless
-------------------
With backend="nccl", which makes no gloo group; the finding is then a warning.

See also
--------
gloo/loopback-address, gloo/interface-unreachable, mesh/peer-ports-blocked
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from distdoctor.check_api import Cluster, Finding, Fix, Line, failed_ranks, failed_stage_finding, together

SEVERITY = "fail"
LOG = (
    Line(
        ("gloo/transport", "gloo/rendezvous", "gloo/common"),
        shows="symptom",
        why="a peer that died, and one that cannot be reached, show the same",
        unless=r"Timed out waiting \d+ ?ms for (?:recv|send)|Connection closed by peer|Read error",  # it was made
    ),
    Line(
        " is NOT connected to",
        r"[Rr]ank \d+ is NOT connected to",
        shows="symptom",
        why="a peer that died, and one that cannot be reached, show the same",
    ),
)
PREVENTS = "gloo group formed"
SYMPTOM_OF = "gloo group formed"
FIX = "Compare the addresses that the ranks advertise: each must be reached from all other nodes."
FORGETS = (
    "The links between the nodes carried all that was measured: look for what is between them and forgets connections "
    "on which nothing was sent for a while (the idle time-out of a firewall or of NAT), or lets in only so many."
)
STILL = "{} stood still, and the ranks waited for its own: see to that first. Their addresses need not be wrong."
IN_VAIN = re.compile(r"(?i)did not return|wait timeout")
WAITED = re.compile(rf"{IN_VAIN.pattern}|another rank failed")


def judge(cluster: Cluster) -> Iterator[Finding]:
    still = [node.name for node in cluster.nodes if node.stood_still]
    for finding in failed_stage_finding(cluster, "gloo", "The gloo process group cannot be made", advice(cluster)):
        advertised = tuple(f"{node.name} advertises {node.gloo_address}" for node in cluster.nodes if node.gloo_address)
        fixes = (Fix(STILL.format(together(still)), tuple(still)),) if still else finding.fixes
        yield replace(finding, evidence=(*finding.evidence, *advertised), fixes=fixes)


def advice(cluster: Cluster) -> str:
    """Return what to look at: the way, where the facts of all nodes are here, ranks waited in vain, and every
    address was reached before."""
    all_here = len({node.host_key for node in cluster.nodes}) > 1 and len(cluster.nodes) >= (cluster.plan.nnodes or 0)
    reached = all(node.mesh.good and not node.mesh.bad for node in cluster.nodes)
    errors = [one.stage.error or "" for one in failed_ranks(cluster, "gloo")]
    waited = all(map(WAITED.search, errors)) and any(map(IN_VAIN.search, errors))
    return FORGETS if all_here and reached and waited else FIX
