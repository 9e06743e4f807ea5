"""A file that could not be written, beside a list of disks of which one is full. Pure."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.judge.first_failure import Reading


def with_full_disk(reading: Reading) -> Reading:
    """``reading`` with the file that could not be written as the root, where nothing else is and a disk is full."""
    full = [match for match in reading.symptoms if "full" in match.values]
    failed = [match for match in reading.symptoms if any(match.check == one.check for one in full)]
    root = next((match for match in failed if match not in full), None)
    if reading.root is not None or root is None:
        return reading
    rest = tuple(match for match in reading.symptoms if match not in failed)
    others = (*(match for match in failed if match is not root), *reading.others)
    return replace(reading, root=replace(root, shows="cause", why=""), others=others, symptoms=rest)
