"""What NCCL says of itself with NCCL_DEBUG=INFO, while a group is made.

Source: NCCL src/debug.cc (``host:pid:tid [device] NCCL INFO text``; a WARN has the file before its name, and comes
after an empty line), bootstrap.cc ("Bootstrap: Using eth0:10.0.0.1<port>"; older versions have a blank before the
colon), transport/net_socket.cc and net_ib/init.cc ("NET/IB : Using [0]mlx5_0:1/RoCE [1]... ; OOB ..."), init.cc ("Using
network IB"), and of each channel transport/p2p.cc, shm.cc and net.cc ("0[0] -> 1[1] [send] via NET/IB/0/GDRDMA"). What
it says before it takes sockets: net_ib, misc/ibvsymbols.cc, plugin/plugin_open.cc. Read in versions 2.8 to 2.29.
"""

from __future__ import annotations

import re
from collections import Counter

from distdoctor.model.facts import NcclLog
from distdoctor.model.sanitize import clean, encodable

VARIABLES: dict[str, str | None] = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV",
    "NCCL_DEBUG_FILE": "",
}
"""By which it says so on stdout: a file that is named, also in nccl.conf, is left to the job."""
MOST = 8
"""Warnings, notes and devices that are kept of one rank."""
SHOWN = 300
_SAID = re.compile(r"NCCL (?P<level>INFO|WARN) (?P<text>.*)")
_VERSION = re.compile(r"NCCL version (\d[\w.+-]{1,40})")
_INTERFACE = re.compile(r"Bootstrap ?: Using (?:\[0\])?(?P<name>[^\s:]{1,15}):(?P<address>[^\s<]{2,60})")
_NETWORK = re.compile(r"Using network (?P<name>.{1,60}?)\s*$")
_DEVICES = re.compile(r"NET/(?:IB|Socket)\S* ?: Using (?P<list>\[0\].*)")
_DEVICE = re.compile(r"\[\d{1,3}\](?P<name>[^\s<;]{1,80})")
_CHANNEL = re.compile(
    r"\d ?(?:\[\w+\])? -> \d.* via (?P<way>P2P/(?:direct pointer|indirect|\w+)|SHM|direct shared memory|NET/[^/]{1,40})"
    r"(?P<rest>\S*)"
)
_NO_LIBRARY = re.compile(r"(?:Failed to|Coun?l?[dt] not) open libibverbs\.so(?:\[|\.1)")
"""A warning in older versions, on every machine without one."""
_NOTE = re.compile(
    r"NET/IB ?: No device found|NET/Plugin ?:.*(?:cannot open|[Ff]ailed|returned)|Failed to initialize NET plugin|"
    r"NET/OFI.*(?:failed|No eligible)|ibv_\w+.*(?:failed|not found)"
)
_OWN_PLUGIN = re.compile(r"libnccl-?net\.so\b")
"""The plugin that NCCL looks for where none is named: there is none on most machines."""


def read(text: str) -> NcclLog | None:
    """What a rank's NCCL said; None where ``text`` has nothing of NCCL's."""
    version = interface = network = ""
    devices: dict[str, tuple[str, ...]] = {}
    channels: Counter[str] = Counter()
    notes: dict[str, None] = {}
    warnings: dict[str, None] = {}
    heard = False
    for line in text.splitlines():
        if found := _VERSION.search(line):
            version, heard = version or found[1], True
        said = _SAID.search(line)
        if said is None:
            continue
        heard, words = True, said["text"]
        if _NO_LIBRARY.search(words) or (said["level"] == "INFO" and _NOTE.search(words)):
            if not _OWN_PLUGIN.search(words):
                notes.setdefault(_fit(words))
        elif said["level"] == "WARN":
            warnings.setdefault(_fit(line[_file(line) :]))
        elif found := _CHANNEL.search(words):
            channels[_way(found["way"], found["rest"])] += 1
        elif found := _INTERFACE.search(words):
            interface = interface or f"{found['name']}:{found['address']}"
        elif found := _NETWORK.search(words):
            network = found["name"]  # a second group may get another; the last one counts
        elif found := _DEVICES.search(words):
            kind = "Socket" if "NET/Socket" in words else "IB"
            devices[kind] = tuple(one["name"] for one in _DEVICE.finditer(found["list"]))
    if not heard:
        return None
    return NcclLog(
        version,
        _fit(interface),
        _fit(network),
        tuple(map(_fit, devices.get("Socket" if network == "Socket" else "IB", ())))[:MOST],
        dict(channels),
        tuple(notes)[:MOST],
        tuple(warnings)[:MOST],
    )


def _way(way: str, rest: str) -> str:
    """``NET/IB/GDRDMA`` where the adapter reads the GPU's memory itself."""
    if way == "direct shared memory":
        return "SHM"
    return _fit(f"{way}/GDRDMA" if "/GDRDMA" in rest else way)


def _file(line: str) -> int:
    """Where a warning's own words begin: at the file that it is from, else at NCCL's name."""
    place = re.search(r"\S+\.(?:cc|cpp|c|cu|h):\d+ (?:\(\w*\) )?NCCL WARN", line)
    return place.start() if place else line.index("NCCL WARN")


def _fit(text: str) -> str:
    return clean(encodable(text.strip()))[:SHOWN]
