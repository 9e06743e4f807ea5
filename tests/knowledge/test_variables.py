"""Which variables are known, and which name is one of them misspelled."""

from __future__ import annotations

import pytest

from distdoctor.knowledge.variables import KNOWN, near_misses, variable_meant


@pytest.mark.parametrize(
    "name",
    ["NCCL_VERSION", "NCCL_HOME", "NCCL_ROOT_DIR", "NCCL_LIB_DIR", "GLOBAL_RANK", "NODE_RANK", "MASTER_IP", "HOSTNAME"],
)
def test_what_others_set_is_not_misspelled(name: str) -> None:
    assert near_misses([name]) == ()


def test_no_known_name_is_another_one_misspelled() -> None:
    assert near_misses(KNOWN) == ()
    assert variable_meant("NCCL_SOCKET_IFNAM") == "NCCL_SOCKET_IFNAME"
