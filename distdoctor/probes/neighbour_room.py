"""Whether the kernel had room for one more host in its table of hardware addresses (ARP, and ND for IPv6)."""

from __future__ import annotations

from pathlib import Path

from distdoctor.model.facts import NeighbourTable

_TABLES = {4: "arp_cache", 6: "ndisc_cache"}


def refused(proc: str = "/proc") -> dict[int, int]:
    """How often there was none since the host's start, by IP's version (``table_fulls``, summed over the processors);
    nothing in a container with a network of its own: the table is the host's, and told there alone."""
    found = {}
    for version, name in _TABLES.items():
        try:
            heading, *rows = (line.split() for line in Path(proc, "net/stat", name).read_text().splitlines())
            place = heading.index("table_fulls")
            found[version] = sum(int(row[place], 16) for row in rows)
        except (OSError, ValueError, IndexError):
            continue
    return found


def filled_since(before: dict[int, int], proc: str = "/proc") -> NeighbourTable | None:
    """The table in which there was no room since then; None: in none, or that is not known."""
    now = refused(proc)
    grown = {version: now[version] - count for version, count in before.items() if version in now}
    version = max(grown, key=lambda one: grown[one], default=None)
    if version is None or grown[version] <= 0:
        return None
    try:
        most = int(Path(proc, f"sys/net/ipv{version}/neigh/default/gc_thresh3").read_text())
    except (OSError, ValueError):
        most = 0
    return NeighbourTable(version, most, grown[version])
