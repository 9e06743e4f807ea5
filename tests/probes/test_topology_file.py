"""NCCL_TOPO_FILE: what NCCL's own reader makes of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from distdoctor.model.facts import TopologyFile
from distdoctor.probes.gpu import nccl

GOOD = """<!-- of a machine with one GPU > -->
<system version="1">
  <cpu numaid="0" affinity="ffff" arch="x86_64">
    <pci busid="0000:07:00.0" class='0x030200' link_width="16" />
    <pci busid="ffff:ff:01.0"><pci busid="0001:00:00.0"/></pci>
  </cpu>
</system>
"""

TEXTS = [
    (GOOD, ""),
    (GOOD.replace("\n", "\r\n"), ""),
    ("", ""),
    ('<graphs version="1"/>', ""),  # of another kind: read as nothing
    (f'<?xml version="1.0" encoding="UTF-8"?>\n{GOOD}', "expected '>' in the tag ?xml, got '?' (line 1)"),
    (GOOD.replace("  <cpu", "\t<cpu"), r"expecting '<', got '\t' (line 3)"),
    (GOOD.replace('"1"', '"2"'), "version 2, 1 is needed (line 2)"),
    (GOOD.replace(' version="1"', ""), "system has no version (line 2)"),
    (GOOD.replace('"16"', "16"), "expected '>' in the tag pci, got ' ' (line 4)"),
    (GOOD.replace(' affinity="ffff"', '\n  affinity="ffff"'), r"expected '>' in the tag cpu, got '\n' (line 3)"),
    (GOOD.replace("</system>", ""), "unterminated system"),
    (GOOD.replace("</cpu>", ""), "closing tag of system where another was open (line 7)"),
    (GOOD[: GOOD.index(" arch")], "expected '>' in the tag cpu, got the end of the file (line 3)"),
    ("404: Not Found", "expecting '<', got '4' (line 1)"),
]


@pytest.mark.parametrize(("text", "refused"), TEXTS, ids=[str(n) for n in range(len(TEXTS))])
def test_what_it_says(text: str, refused: str, tmp_path: Path) -> None:
    path = tmp_path / "topology.xml"
    path.write_bytes(text.encode())
    assert nccl.probe_topology({"NCCL_TOPO_FILE": str(path)}) == TopologyFile(str(path), refused=refused)


def test_where_it_is(tmp_path: Path) -> None:
    usual = tmp_path / "usual.xml"
    assert nccl.probe_topology({}, str(usual)) is None
    usual.write_text("<")
    assert nccl.probe_topology({}, str(usual)) == TopologyFile(
        str(usual), variable=False, refused="unexpected end of the file (line 1)"
    )
    assert nccl.probe_topology({"NCCL_TOPO_FILE": "/no/where"}, str(usual)) == TopologyFile(
        "/no/where", missing="ENOENT"
    )


def test_a_fifo_a_folder_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path, told in ((tmp_path / "fifo", ""), (tmp_path, "EISDIR")):
        seen = nccl.probe_topology({"NCCL_TOPO_FILE": str(path)})
        assert seen == TopologyFile(str(path), missing=told)
    (tmp_path / "bytes").write_bytes(b'<system \xff\x1b[2J="1"' + b"\x00" * 1000)
    seen = nccl.probe_topology({"NCCL_TOPO_FILE": str(tmp_path / "bytes")})
    assert seen is not None and seen.refused.isprintable() and len(seen.refused) <= 255


def test_the_graph(tmp_path: Path) -> None:
    path = tmp_path / "graph.xml"
    named = {"NCCL_GRAPH_FILE": str(path)}
    assert nccl.probe_graph({}) is None
    assert nccl.probe_graph(named) == TopologyFile(str(path), missing="ENOENT")
    assert nccl.probe_graph({"NCCL_GRAPH_FILE": ""}) == TopologyFile("", missing="ENOENT")
    for text, refused in (
        ('<graphs version="1">\n  <graph id="0" pattern="4"/>\n</graphs>\n', ""),
        ('<graphs version="2"/>\n', "version 2, 1 is needed (line 1)"),
        ("<graphs/>\n", "graphs has no version (line 1)"),
        ('<system version="2"/>\n', ""),  # of another kind: read as nothing
    ):
        path.write_text(text)
        assert nccl.probe_graph(named) == TopologyFile(str(path), refused=refused)
