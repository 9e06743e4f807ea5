"""The gloo process group cannot be made.

What you see
------------
init_process_group() with gloo raises on one side, usually `connectFullMesh failed`, and prints nothing on the other.
The port in gloo's text has its bytes swapped.

Why it happens
--------------
None of the known causes is in the facts. The addresses that the ranks advertised are shown with their errors.

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

from collections.abc import Iterator
from dataclasses import replace

from distdoctor.check_api import Cluster, Finding, Line, failed_stage_finding

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


def judge(cluster: Cluster) -> Iterator[Finding]:
    for finding in failed_stage_finding(cluster, "gloo", "The gloo process group cannot be made", FIX):
        advertised = tuple(f"{node.name} advertises {node.gloo_address}" for node in cluster.nodes if node.gloo_address)
        yield replace(finding, evidence=(*finding.evidence, *advertised))
