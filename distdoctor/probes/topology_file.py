"""The files that NCCL reads this machine's topology from: NCCL_TOPO_FILE, else the one that virtual machines put there;
and NCCL_GRAPH_FILE, which gives it the ways between the GPUs.

Source: NCCL src/graph/topo.cc (``ncclTopoGetSystem``), search.cc (``ncclTopoCompute``), xml.cc.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import replace

from distdoctor.knowledge.nccl_topology import refusal
from distdoctor.model.facts import TopologyFile
from distdoctor.model.sanitize import fit

VARIABLE = "NCCL_TOPO_FILE"
GRAPH = "NCCL_GRAPH_FILE"
USUAL = "/var/run/nvidia-topologyd/virtualTopology.xml"
MAX_BYTES = 1 << 22
"""Of a machine of 16 GPUs it has some 20 kB."""


def probe(variables: Mapping[str, str], usual: str = USUAL) -> TopologyFile | None:
    """The file of the topology, and why NCCL would refuse it; None where there is none and none was asked for."""
    path = variables.get(VARIABLE)
    found = _read(usual if path is None else path, "system")
    if path is None:
        return None if found.missing else replace(found, variable=False)
    return found


def probe_graph(variables: Mapping[str, str]) -> TopologyFile | None:
    """The file of the graph, and why NCCL would refuse it; None where none is named."""
    path = variables.get(GRAPH)
    return None if path is None else _read(path, "graphs")


def _read(path: str, root: str) -> TopologyFile:
    try:
        # Neither a FIFO nor a device is waited for.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            text = file.read(MAX_BYTES + 1) or b""
    except OSError as err:
        return TopologyFile(fit(path), missing=errno.errorcode.get(err.errno or 0, "unknown"))
    refused = fit(refusal(text.decode(errors="replace"), root)) if len(text) <= MAX_BYTES else ""
    return TopologyFile(fit(path), refused=refused)
