"""The remedies for what nodes disagree on and for what their hosts allow: real values, on the right nodes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distdoctor.check_api.majority import disagreement
from distdoctor.check_api.torch_import import install_torch_version
from distdoctor.knowledge.variables import KNOWN, near_misses, variable_meant
from distdoctor.model.facts import SharedMemory
from distdoctor.model.findings import Fix
from tests.checks import rows_host as rows
from tests.checks.row import Facts
from tests.facts_builder import healthy, judged, with_plan


def first(facts: Facts) -> list[Fix]:
    """The first option of the only root."""
    (root,) = judged(*facts).roots
    return [fix for fix in root.fixes if fix.option == 1]


CHANGES: dict[str, tuple[Callable[[], Facts], tuple[str, ...], dict[str, Any]]] = {
    "the usual id": (lambda: rows.run_ids("a", "b", "a"), ("host1",), {"flags": {"--rdzv-id": "a"}}),
    "an id where none was given": (
        lambda: rows.run_ids("none", "x", "none"),
        ("host0",),
        {"flags": {"--rdzv-id": "x"}},
    ),
    "gloo for all": (lambda: rows.cpu_builds(0, 1), ("host0", "host1"), {"flags": {"--backend": "gloo"}}),
    "the other's build": (lambda: rows.cpu_builds(1), ("host1",), {"commands": ("pip install torch==2.13.0",)}),
    "the fewest ranks": (lambda: rows.uneven_gpus(8, 8, 4), ("host0",), {"flags": {"--nproc-per-node": "4"}}),
    "the usual setting": (lambda: rows.settings(None, "1", None), ("host1",), {"env": {"NCCL_IB_DISABLE": None}}),
    "the new name": (
        lambda: rows.old_name(nccl=True),
        ("host0",),
        {"env": {"NCCL_BLOCKING_WAIT": None, "TORCH_NCCL_BLOCKING_WAIT": "1"}},
    ),
    "the stale file": (
        lambda: rows.init_files(rows.STALE, rows.STALE),
        ("host0", "host1"),
        {"commands": ("rm -f /shared/init",)},
    ),
    "no file at all": (
        lambda: rows.init_files(rows.TMP, rows.TMP),
        ("host0", "host1"),
        {"flags": {"--init-method": None}},
    ),
    "an unprivileged port": (rows.privileged, ("host0", "host1"), {"flags": {"--master-port": "29500"}}),
    "a port below the range": (
        lambda: rows.ephemeral(40000),
        ("host0", "host1"),
        {"flags": {"--master-port": "29500"}},
    ),
    "more descriptors": (rows.files_in_store, ("host1",), {"commands": ("ulimit -n 65536",)}),
    "a larger /dev/shm": (
        lambda: rows.on((1,), shared_memory=SharedMemory(rows.MIB, rows.MIB)),
        ("host1",),
        {"commands": ("mount -o remount,size=16g /dev/shm",)},
    ),
    "the wide range": (
        rows.no_ports,
        ("host1",),
        {"commands": ('sysctl -w net.ipv4.ip_local_port_range="32768 60999"',)},
    ),
    "a line for the reverse look-up": (
        lambda: rows.slow_reverse(1),
        ("host1",),
        {"commands": ("echo '::ffff:10.77.0.10 host0-store' >> /etc/hosts",)},
    ),
    "a line for the master": (
        rows.slow_master,
        ("host1",),
        {"commands": ("echo '10.77.0.10 host0' >> /etc/hosts",)},
    ),
    "a port, and no name": (rows.one_node, ("host0",), {"flags": {"--master-port": "29500"}}),
    "a port in place of standalone": (
        rows.standalone,
        ("host0",),
        {"flags": {"--standalone": None, "--master-port": "29500"}},
    ),
    "a port in place of a standalone that is left over": (
        lambda: rows.standalone(given="PET_STANDALONE"),
        ("host0",),
        {"env": {"PET_STANDALONE": None}, "flags": {"--master-port": "29500"}},
    ),
    "node 0's address": (
        rows.numeric_master,
        ("6841231", "6841232"),
        {"flags": {"--master-addr": "10.77.0.10"}},
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_changed_and_where(name: str) -> None:
    make, nodes, change = CHANGES[name]
    fix = first(make())[0]
    assert fix.nodes == nodes
    assert {"env": fix.env, "flags": fix.flags, "commands": fix.commands} == {
        "env": {},
        "flags": {},
        "commands": (),
        **change,
    }


def test_the_shell_carries_a_misspelled_variables_value_over() -> None:
    """The printed line is run in a shell; the doctor never saw the value."""
    (fix,) = first(rows.misspelled("GLOO_SOCKET_IFNAM"))
    script = f"GLOO_SOCKET_IFNAM='eth 0'; {fix.commands[0]}; echo \"$GLOO_SOCKET_IFNAME|$GLOO_SOCKET_IFNAM\""
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, env={})
    assert done.stdout == "eth 0|\n"


def test_a_hard_limit_too_low_is_raised_in_its_file(tmp_path: Path) -> None:
    (fix,) = first(rows.on((1,), open_files=16, open_files_hard=16))
    limits = tmp_path / "limits.conf"
    subprocess.run(["sh", "-c", fix.commands[0].replace("/etc/security/limits.conf", str(limits))], check=True)
    assert limits.read_text() == "* soft nofile 65536\n* hard nofile 65536\n"


def test_a_hard_limit_between_is_used_up() -> None:
    (fix,) = first(rows.on((1,), open_files=16, open_files_hard=4096))
    assert fix.commands == ("ulimit -n 4096",)


def test_only_ones_own_processes_get_a_kill_line() -> None:
    mine, theirs = replace(rows.OLD, user="me"), replace(rows.OLD, pid=4712, user="you")
    a, b = rows.left(mine, theirs)
    own, others = first((a, rows.with_identity(b, user="me")))
    assert own.commands == ("kill 4711",)
    assert others.commands == () and "you" in others.text


def test_a_reserved_list_is_added_to() -> None:
    (root,) = judged(*rows.ephemeral(40000, reserved_ports="8080")).roots
    assert root.fixes[-1].commands == ("sysctl -w net.ipv4.ip_local_reserved_ports=8080,40000",)


def test_without_a_master_of_ones_own_the_file_is_replaced_by_node_0s_address() -> None:
    facts = rows.init_files(rows.TMP, rows.TMP)
    facts = tuple(with_plan(one, sources={"master_addr": "default route, eth0"}) for one in facts)
    (fix,) = first(facts)
    assert fix.flags == {"--init-method": "tcp://10.77.0.10:29500", "--master-addr": None}


def test_a_build_is_installed_from_its_own_index() -> None:
    assert (
        install_torch_version("2.7.0+cu126")
        == "pip install torch==2.7.0 --index-url https://download.pytorch.org/whl/cu126"
    )
    assert install_torch_version("2.7.0") == "pip install torch==2.7.0"
    assert install_torch_version("2.7.0a0+git;rm") == "pip install torch==2.7.0a0"


def test_half_and_half_is_no_majority() -> None:
    found = disagreement({"a": 1, "b": 2, "c": 2, "d": 1})
    assert found is not None and found.blamed == ("a", "b", "c", "d") and found.blame == "one-of"
    assert disagreement({"a": 1, "b": 1}) is None


@pytest.mark.parametrize(
    "name",
    ["NCCL_VERSION", "NCCL_HOME", "NCCL_ROOT_DIR", "NCCL_LIB_DIR", "GLOBAL_RANK", "NODE_RANK", "MASTER_IP", "HOSTNAME"],
)
def test_what_others_set_is_not_misspelled(name: str) -> None:
    assert near_misses([name]) == ()


def test_no_known_name_is_another_one_misspelled() -> None:
    assert near_misses(KNOWN) == ()
    assert variable_meant("NCCL_SOCKET_IFNAM") == "NCCL_SOCKET_IFNAME"


def test_healthy_nodes_differ_in_nothing() -> None:
    assert judged(*healthy(3)).findings == ()


def test_a_rendezvous_is_made_alike_in_both_directions() -> None:
    """With everything that torchrun needs for it: the endpoint and the id, or the address and a free node rank."""
    a, b = rows.rendezvous("static", "c10d")
    found = next(f for f in judged(a, b).roots if f.check == "environment/rendezvous-backend-mismatch")
    to_static, to_c10d = found.fixes
    assert (to_static.nodes, to_static.option, to_c10d.nodes, to_c10d.option) == (("host1",), 1, ("host0",), 2)
    assert to_static.flags["--node-rank"] == "1" and to_static.flags["--rdzv-backend"] is None
    assert to_c10d.flags["--rdzv-endpoint"] == "10.77.0.10:29500" and to_c10d.flags["--rdzv-id"] == "job7"
    assert to_c10d.flags["--master-addr"] is None
    b = replace(b, variables={"PET_RDZV_BACKEND": "c10d"})
    found = next(f for f in judged(a, b).roots if f.check == "environment/rendezvous-backend-mismatch")
    assert found.fixes[0].env == {"PET_RDZV_BACKEND": None} and "--rdzv-backend" not in found.fixes[0].flags
