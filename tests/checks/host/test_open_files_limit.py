"""host/open-files-limit: what it finds, and what it leaves alone."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from distdoctor.model.facts import Bind, Link, MeshFacts
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, first, found, left_alone
from tests.checks.store.test_silent import closed
from tests.clusters.limits import nccl_limits, nccl_warns, on, roots_and_fixes_when_told
from tests.facts_builder import PORT, failing, judged, with_network

POLL = "proxy.cc:1648 NCCL WARN [Proxy Service] Poll failed: Invalid argument"
CHECK = "host/open-files-limit"


def many_files() -> Facts:
    """gloo ran out of descriptors on one node; the other only saw it go."""
    a, b = on((1,), open_files=24)
    return failing(a, "gloo", "Connection closed by peer"), failing(b, "gloo", "socket: Too many open files")


def files_in_store() -> Facts:
    a, b = on((1,), open_files=16)
    return failing(a, "store", "ended", killed=True), failing(b, "store", "OSError: [Errno 24] Too many open files")


def files_in_mesh() -> Facts:
    """The node had none left to try the link with: no firewall's doing."""
    a, b = on((1,), open_files=16)
    link = Link(a.key, "10.77.0.10", 40000, ("gloo", "primary"), "error", 24)
    return a, replace(b, mesh=MeshFacts(good=0, bad=(link,)))


def held_connections() -> Facts:
    """Others hold connections to the store until it has no descriptor left: it closes those of the nodes."""
    a, b = closed()
    bind = Bind(True, PORT, files=(1023, 1024))
    return with_network(a, bind=bind), b


def two_stores(number: int) -> Facts:
    """torchrun's agent on host1 may host the store of its c10d rendezvous, and that of the ranks."""
    facts = on((1,), open_files=number)
    return tuple(replace(node, plan=replace(node.plan, rdzv_backend="c10d")) for node in facts)


def meets_itself(number: int) -> Facts:
    """One node alone, whose torchrun takes a place of its own for the rendezvous: the c10d one."""
    node, _ = on((0,), open_files=number)
    sources = {"master_port": "any free port"}
    return (replace(node, plan=replace(node.plan, nnodes=1, nproc_per_node=1, world_size=1, sources=sources)),)


ROWS = [
    Row("25 files, and two stores in one process", lambda: two_stores(25), ("host1",), together=True),
    Row("26 files, and two stores in one process", lambda: two_stores(26), ("host1",), "warn", together=True),
    Row("25 files, and one store", lambda: on((1,), open_files=25), ("host1",), "warn", together=True),
    Row("24 files for one rank and its agent", lambda: meets_itself(24), ("host0",)),
    Row("25 files for one rank and its agent", lambda: meets_itself(25), ("host0",), "warn"),
    Row("a store to which connections are held", held_connections, ("host0",), together=True),
    Row("16 files", files_in_store, ("host1",), together=True),
    Row("too many open files", many_files, ("host1",), together=True),
    Row("no file left for a link", files_in_mesh, ("host1",), together=True),
    Row("22 files, not tried", lambda: on((1,), open_files=22), ("host1",), together=True),
    Row(
        "1,010 of 1,024 were open before",
        lambda: on((1,), open_files=1024, open_files_inherited=1010),
        ("host1",),
        together=True,
    ),
    Row("64 files, and NCCL watches more", lambda: nccl_limits(open_files=64), ("host1",), together=True),
    Row("72 files, and NCCL says so", lambda: nccl_warns(POLL, open_files=72), ("host1",), together=True),
    Row("72 files, and NCCL made its group", lambda: nccl_limits(open_files=72), ("host1",), "warn", together=True),
    Row("64 files, and gloo", lambda: on((1,), open_files=64), ("host1",), "warn", together=True),
    Row("100 files", lambda: on((1,), open_files=100), ("host1",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("usual limits", lambda: on((0, 1))),
    LookAlike("30 files of an editor's terminal", lambda: on((1,), open_files=1024, open_files_inherited=30)),
    LookAlike("many open, and no limit", lambda: on((1,), open_files=-1, open_files_inherited=5000)),
]

CURES = [Cure("more descriptors", files_in_store, {"host1": {"commands": ("ulimit -n 65536",)}})]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_a_hard_limit_too_low_is_raised_in_its_file(tmp_path: Path) -> None:
    (fix,) = first(*on((1,), open_files=16, open_files_hard=16))
    limits = tmp_path / "limits.conf"
    subprocess.run(["sh", "-c", fix.commands[0].replace("/etc/security/limits.conf", str(limits))], check=True)
    assert limits.read_text() == "* soft nofile 65536\n* hard nofile 65536\n"


def test_a_hard_limit_between_is_used_up() -> None:
    (fix,) = first(*on((1,), open_files=16, open_files_hard=4096))
    assert fix.commands == ("ulimit -n 4096",)


def test_a_limit_that_is_used_up_by_what_is_open_is_not_raised_to_itself() -> None:
    (fix,) = first(*on((1,), open_files=1024, open_files_hard=1024, open_files_inherited=1010))
    assert "limits.conf" in fix.commands[0]


def test_the_kernels_own_table_of_files_is_no_limit_of_the_shell() -> None:
    checks, fixes = roots_and_fixes_when_told(
        "OSError: Too many open files in system", open_files=65536, open_files_hard=65536
    )
    assert checks == ["gloo/init-failed"] and "fs.file-max" in fixes and "ulimit" not in fixes
    checks, fixes = roots_and_fixes_when_told("OSError: Too many open files", open_files=65536, open_files_hard=-1)
    assert checks == [CHECK] and "ulimit -n 131072" in fixes


def test_a_store_without_a_descriptor_is_no_other_service() -> None:
    result = judged(*held_connections())
    assert [one.check for one in result.roots] == [CHECK]
    assert "network/foreign-service" not in {one.check for one in result.findings}
    assert any("has 1023 of 1024 files open, and none left for a node" in line for line in result.roots[0].evidence)
