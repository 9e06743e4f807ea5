"""Names of variables that look like a known one misspelled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distdoctor.knowledge.settings import DEPRECATED_VARIABLES, KNOWN, intended_variable, near_misses


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME"),
        ("NCCL_SOCKET_IF_NAME", "NCCL_SOCKET_IFNAME"),
        ("NCLL_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"),
        ("GLOO_SOCKET_IFNAM", "GLOO_SOCKET_IFNAME"),
        ("GLOO_SOCKET_IFNAME_", "GLOO_SOCKET_IFNAME"),
        ("MASTER_ADRR", "MASTER_ADDR"),
        ("MASTER_PROT", "MASTER_PORT"),
        ("WORLDSIZE", "WORLD_SIZE"),
        ("LOCALRANK", "LOCAL_RANK"),
        ("NCCL_IB_HCAS", "NCCL_IB_HCA"),
        ("NCCL_HEARTBEAT_TIMEOUT_SEC", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"),
    ],
)
def test_misspelled(name: str, expected: str) -> None:
    assert intended_variable(name) == expected
    assert near_misses([name]) == (name,)


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "HOME",
        "LD_LIBRARY_PATH",
        "RANKS",
        "MY_RANK",
        "SLURM_LOCALID",
        "OMPI_COMM_WORLD_RANK",
        "MASTER_KEY",
        "LOCAL_BIN",
        "WORLD",
        "AWS_SECRET_ACCESS_KEY",
        "nccl_socket_ifname_",
        "NCCL_HOME",
        "NCCL_ROOT",
        "NCCL_INCLUDE_DIRS",
        "LOCAL_RANK_FILE",
        "PETSC_DIR",
        "NCCL_TIMEOUT",
        "NCCL_SOCKET_IFNAME_ORIG",
        "NCCL_IB_EXT_DISABLE",
        "NCCL_IBEXT_DISABLE",
        "NCCL_SHARP_DISABLE",
        "MASTER_ADDR_IP",
    ],
)
def test_names_of_their_own_are_left_alone(name: str) -> None:
    assert near_misses([name]) == ()


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_no_known_name_is_a_misspelling(name: str) -> None:
    assert intended_variable(name) is None


def test_every_new_name_of_a_deprecated_variable_is_known() -> None:
    assert set(DEPRECATED_VARIABLES.values()) <= KNOWN


@given(st.dictionaries(st.text(max_size=40), st.text(max_size=40), max_size=5))
def test_only_names_are_told_never_values(env: dict[str, str]) -> None:
    assert set(near_misses(env)) <= set(env)


@pytest.mark.parametrize(
    "name",
    ["NCCL_VERSION", "NCCL_HOME", "NCCL_ROOT_DIR", "NCCL_LIB_DIR", "GLOBAL_RANK", "NODE_RANK", "MASTER_IP", "HOSTNAME"],
)
def test_what_others_set_is_not_misspelled(name: str) -> None:
    assert near_misses([name]) == ()


def test_no_known_name_is_another_one_misspelled() -> None:
    assert near_misses(KNOWN) == ()
    assert intended_variable("NCCL_SOCKET_IFNAM") == "NCCL_SOCKET_IFNAME"
