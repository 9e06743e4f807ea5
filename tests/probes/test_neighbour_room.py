"""The room in the kernel's table of hardware addresses, as /proc tells it."""

from __future__ import annotations

from pathlib import Path

from distdoctor.model.facts import NeighbourTable
from distdoctor.probes.network.neighbours import filled_since, refused
from tests.helpers.namespaces import lines_of

HEADING = "entries  allocs   destroys unresolved_discards table_fulls"


def written(folder: Path, *fulls: str, name: str = "arp_cache") -> str:
    """A /proc in which each processor has counted so many, in the kernel's hexadecimal numbers."""
    stat = folder / "net" / "stat"
    stat.mkdir(parents=True, exist_ok=True)
    rows = [f"00000010 00004c42 00004ce6 00000000            {count}" for count in fulls]
    (stat / name).write_text("\n".join([HEADING, *rows]) + "\n")
    default = folder / "sys" / "net" / "ipv4" / "neigh" / "default"
    default.mkdir(parents=True, exist_ok=True)
    (default / "gc_thresh3").write_text("1024\n")
    return str(folder)


def test_what_was_refused_meanwhile_is_told_with_the_room_there_is(tmp_path: Path) -> None:
    proc = written(tmp_path, "00000ac5", "000032ac")
    before = refused(proc)
    assert before == {4: 0xAC5 + 0x32AC}
    assert filled_since(before, proc) is None
    written(tmp_path, "00000ac6", "000032ae")
    assert filled_since(before, proc) == NeighbourTable(4, 1024, 3)


def test_the_kernel_of_this_host_tells_it_or_says_nothing() -> None:
    assert all(count >= 0 for count in refused().values())
    assert filled_since({}) is None


def test_nothing_is_known_where_the_network_is_a_namespace_of_its_own() -> None:
    assert lines_of("from distdoctor.probes.network.neighbours import refused; print(refused())", "--net") == ["{}"]
