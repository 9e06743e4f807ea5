"""The file that NCCL reads this machine's topology from: NCCL_TOPO_FILE, else the one that virtual machines put there.

Source: NCCL src/graph/topo.cc (``ncclTopoGetSystem``).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping

from distdoctor.knowledge.nccl_topology import refusal
from distdoctor.model.facts import TopologyFile
from distdoctor.model.sanitize import fit

VARIABLE = "NCCL_TOPO_FILE"
USUAL = "/var/run/nvidia-topologyd/virtualTopology.xml"
MAX_BYTES = 1 << 22
"""Of a machine of 16 GPUs it has some 20 kB."""


def probe(variables: Mapping[str, str], usual: str = USUAL) -> TopologyFile | None:
    """The file, and why NCCL would refuse it; None where there is none and none was asked for."""
    path = variables.get(VARIABLE)
    try:
        # Neither a FIFO nor a device is waited for.
        with open(os.open(path if path is not None else usual, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            text = file.read(MAX_BYTES + 1) or b""
    except OSError as err:
        return TopologyFile(fit(path), missing=errno.errorcode.get(err.errno or 0, "")) if path is not None else None
    refused = fit(refusal(text.decode(errors="replace"))) if len(text) <= MAX_BYTES else ""
    return TopologyFile(fit(path if path is not None else usual), path is not None, refused=refused)
