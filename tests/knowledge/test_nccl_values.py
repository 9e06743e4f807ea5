"""Tests of what NCCL makes of the values of its settings, as its source says (none was tried on a GPU)."""

from __future__ import annotations

import pytest

from distdoctor.knowledge.nccl import NEWEST, corrected_value, misread_value, refused_value, version, without_value

OLD, NEW = version("2.21.5"), version("2.27.5")
GOOD = [
    ("NCCL_ALGO", "Ring"),
    ("NCCL_ALGO", "ring,TREE"),
    ("NCCL_ALGO", "^NVLS,NVLSTree"),
    ("NCCL_ALGO", "ring,collnetdirect;allreduce:tree,collnetdirect;broadcast:ring"),
    ("NCCL_ALGO", "allreduce:tree"),
    ("NCCL_ALGO", ""),
    ("NCCL_ALGO", "Ring,"),
    ("NCCL_ALGO", "Ring;"),
    ("NCCL_ALGO", "^"),
    ("NCCL_ALGO", "PAT"),
    ("NCCL_PROTO", "LL,Simple;allreduce:^LL"),
    ("NCCL_PROTO", "^LL128"),
    ("NCCL_NTHREADS", "abc"),
]
BAD = [
    ("NCCL_ALGO", "rings", "'rings'"),
    ("NCCL_ALGO", "Ring, Tree", "' Tree'"),
    ("NCCL_ALGO", "CollNet", "'CollNet'"),
    ("NCCL_ALGO", "Ring;Tree", "after a semicolon"),
    ("NCCL_ALGO", "alltoall:ring", "'alltoall'"),
    ("NCCL_ALGO", "allreduce:", "'allreduce'"),
    ("NCCL_ALGO", "1", "'1'"),
    ("NCCL_ALGO", "'Ring'", "'Ring'"),
    ("NCCL_PROTO", "SIMPLE,LL64", "'LL64'"),
    ("NCCL_PROTO", "Ring", "'Ring'"),
]


@pytest.mark.parametrize(("name", "value"), GOOD)
def test_values_that_are_taken(name: str, value: str) -> None:
    assert refused_value(name, value, NEW) == ""


@pytest.mark.parametrize(("name", "value", "said"), BAD)
def test_values_on_which_it_ends(name: str, value: str, said: str) -> None:
    assert said in refused_value(name, value, NEW)
    assert refused_value(name, value, version("2.24.3"))
    assert refused_value(name, value, OLD) == refused_value(name, value, NEWEST) == ""  # passed over; not known


def test_what_only_has_blanks_or_quotes_is_mended() -> None:
    assert corrected_value("NCCL_ALGO", "Ring, Tree") == "Ring,Tree"
    assert corrected_value("NCCL_ALGO", "'Ring'") == "Ring"
    assert corrected_value("NCCL_ALGO", "rings") is None


@pytest.mark.parametrize(
    ("value", "without"),
    [
        ("Tree", ("Broadcast", "Reduce", "AllGather", "ReduceScatter")),
        ("NVLS", ("Broadcast", "Reduce")),
        ("PAT", ("Broadcast", "Reduce", "AllReduce")),
        ("^Ring", ("Broadcast", "Reduce")),
        ("Ring;broadcast:tree", ("Broadcast",)),
        ("Tree;broadcast:ring;reduce:ring;allgather:ring;reducescatter:pat", ()),
        ("allreduce:tree", ()),
        ("Ring,Tree", ()),
        ("", ("",)),
        ("rings", ()),
    ],
)
def test_functions_that_are_left_without(value: str, without: tuple[str, ...]) -> None:
    assert without_value(value, NEW) == tuple(filter(None, without))
    assert without_value(value, OLD) == without_value(value, NEWEST) == ()


@pytest.mark.parametrize(
    ("name", "value", "taken"),
    [
        ("NCCL_IB_DISABLE", "true", (0, "1")),
        ("NCCL_P2P_DISABLE", "'1'", (0, "1")),
        ("NCCL_P2P_DISABLE", "auto", (0, None)),
        ("NCCL_BUFFSIZE", "4M", (4, "4194304")),
        ("NCCL_BUFFSIZE", "8MiB", (8, "8388608")),
        ("NCCL_BUFFSIZE", "512 KB", (512, "524288")),
        ("NCCL_IB_GID_INDEX", "auto", (0, None)),
        ("NCCL_IB_GID_INDEX", '"3"', (0, "3")),
        *((name, value, None) for name, value in (
            ("NCCL_IB_DISABLE", "1"), ("NCCL_IB_DISABLE", "0"), ("NCCL_IB_DISABLE", "false"), ("NCCL_IB_DISABLE", ""),
            ("NCCL_NVLS_ENABLE", "off"), ("NCCL_IB_TC", "106 # fast"), ("NCCL_IB_PKEY", "0x7fff"),
            ("NCCL_IB_TIMEOUT", " 22"), ("NCCL_NET_GDR_LEVEL", "PHB"), ("NCCL_P2P_LEVEL", "NVL"),
            ("NCCL_SOCKET_IFNAME", "eth0"), ("NCCL_CROSS_NIC", "-1"), ("NCCL_CHECKS_DISABLE", "true"),
        )),
    ],
)  # fmt: skip
def test_numbers_that_it_misreads(name: str, value: str, taken: tuple[int, str | None] | None) -> None:
    assert misread_value(name, value) == taken
