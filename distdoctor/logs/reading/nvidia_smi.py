"""Output of ``nvidia-smi -q`` as lines that stand alone: each value gets the GPU and the headings that it belongs to.

Headings and values are indented by four spaces a level (drivers 418 to 580).
"""

from __future__ import annotations

import re

_BEGINS = re.compile(rb"\s{0,20}=+NVSMI LOG=+\r?\n")
_LINE = re.compile(
    r"(?P<indent> *)(?P<name>[^\s:][^:\n]*?(?: [0-9A-Fa-f]{8}:[0-9A-Fa-f:.]{7,12})?) *(?: : (?P<value>.*))?"
)


def is_query(head: bytes) -> bool:
    """Return whether a file that begins so is such an output."""
    return _BEGINS.match(head) is not None


def query_as_text(data: bytes) -> bytes:
    """Return the output with each value behind its headings: ``nvidia-smi: GPU ID: Fabric: State : Completed``."""
    above, lines = dict[int, str](), list[str]()
    for line in data.decode("utf-8", "replace").splitlines():
        found = _LINE.fullmatch(line.rstrip())
        if found is None:
            lines.append(line)
            continue
        depth = len(found["indent"])
        above = {level: name for level, name in above.items() if level < depth}
        if found["value"] is None:
            above[depth] = found["name"]
            lines.append("")
        else:
            lines.append(f"nvidia-smi: {': '.join([*above.values(), found['name']])} : {found['value']}")
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
