"""NCCL's own rules: interface choice, setting values, its log lines, RDMA ports and GIDs, and topology files.

Interfaces (``predict``): NCCL src/misc/socket.cc, later also src/os/linux.cc (``ncclFindInterfaces``,
``findInterfaces``), and utils.cc (``parseStringList``, ``matchIfList``): NCCL_SOCKET_IFNAME is a list of prefixes;
``^`` in front excludes them, ``=`` in front asks for exact names; a value of one character is ignored, and one that
names no interface is an error. NCCL_SOCKET_FAMILY narrows to IPv4 or IPv6. Without the variable: interfaces whose names
begin with ``ib``; else all but ``docker*``, ``lo*`` and, from 2.28 on, ``virbr*``; else ``docker*``; else ``lo*``; else
``virbr*``. NCCL_COMM_ID, which adds a rule about subnets after the first, is not considered: PyTorch does not set it.
From 2.28 on an interface has to be running; before, one that is down or has no carrier is taken, too. Of what is left
it is the first of getifaddrs(), which has the IPv4 addresses of all interfaces before any of IPv6. The choices of eight
real NCCL versions are kept in tests/recorded/nccl.json.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv6Address

from distdoctor.model.addresses import parse_address
from distdoctor.model.facts import AddressChoice, Gid, Interface, NcclLog, RdmaPort
from distdoctor.model.text import clean, encodable

Version = tuple[int, int]
NEWEST: Version = (9999, 0)
"""Version whose rules apply if the version is unknown: the newest."""
RUNNING_ALONE: Version = (2, 28)


def version(text: str | None) -> Version:
    """Return ``(2, 27)`` for ``2.27.5``, NEWEST if there is none."""
    match = re.match(r"(\d{1,4})\.(\d{1,4})", text or "")
    return (int(match[1]), int(match[2])) if match else NEWEST


def predict(variables: Mapping[str, str], interfaces: Sequence[Interface], nccl: Version = NEWEST) -> AddressChoice:
    """Return the interface and address that the bootstrap of an NCCL of this version will use on this node."""
    variable = variables.get("NCCL_SOCKET_IFNAME", "")
    family = {"AF_INET": 4, "AF_INET6": 6}.get(variables.get("NCCL_SOCKET_FAMILY", ""))
    candidates = [(i.name, a) for i in interfaces if i.up or nccl < RUNNING_ALONE for a in i.addresses]
    usable = [candidate for candidate in candidates if ":" not in candidate[1] and _counts(candidate[1], family)]
    usable += [candidate for candidate in candidates if ":" in candidate[1] and _counts(candidate[1], family)]
    if len(variable) > 1:
        for name, address in usable:
            if matches(variable, name):
                return AddressChoice(address, name, "variable", variable)
        return AddressChoice(None, None, "not-found", variable)
    others = "^docker,lo" if nccl < RUNNING_ALONE else "^docker,lo,virbr"
    for pattern in ("ib", others, "docker", "lo", "virbr"):
        for name, address in usable:
            if matches(pattern, name):
                return AddressChoice(address, name, "order")
    return AddressChoice(None, None, "not-found")


def matches(pattern: str, name: str) -> bool:
    """Return whether NCCL_SOCKET_IFNAME=``pattern`` takes the interface ``name``."""
    excluded = pattern.startswith("^")
    text = pattern[1:] if excluded else pattern
    exact = text.startswith("=")
    parts = [part.partition(":")[0] for part in (text[1:] if exact else text).split(",") if part]
    listed = any(name == part if exact else name.startswith(part) for part in parts)
    return listed != excluded


def _counts(address: str, family: int | None) -> bool:
    parsed = parse_address(address)
    if parsed is None or (family is not None and parsed.version != family):
        return False
    return not (parsed.version == 6 and parsed.is_loopback)


# Values of NCCL's settings: those that it refuses, and those that it misreads. Source: NCCL src/graph/tuning.cc
# (``parseList``, ``ncclTopoTuneModel``), src/enqueue.cc (``topoGetAlgoInfo``) and src/misc/param.cc
# (``ncclLoadParam``), read in versions 2.18 to 2.30; nothing here was tried on a GPU.
#
# NCCL_ALGO and NCCL_PROTO are lists of names, of any case and without blanks. Before 2.24 NCCL ignores an unknown name,
# and a function without an algorithm uses the ring. From 2.24 on ``function:names`` parts may follow after a semicolon;
# NCCL fails with ncclInvalidUsage on an unknown name or function when the group is made, and on a function without an
# algorithm when it is called. A number is parsed by C's strtoll() with base 0: a word is 0, ``4M`` is 4, and neither is
# an error.


NAMES = {
    "NCCL_ALGO": ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"),
    "NCCL_PROTO": ("LL", "LL128", "Simple"),
}
FUNCTIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
STRICT: Version = (2, 24)
"""Version from which an unknown name is an error."""
READ: Version = (2, 30)
"""Newest version that was read: a later one may know more names."""
_GATHER = frozenset({"ring", "pat", "nvls", "collnetdirect"})
_SERVED_BY = {
    "Broadcast": frozenset({"ring"}),
    "Reduce": frozenset({"ring"}),
    "AllGather": _GATHER,
    "ReduceScatter": _GATHER,
    "AllReduce": frozenset(name.lower() for name in NAMES["NCCL_ALGO"]) - {"pat"},
}
"""Function -> the algorithms that exist for it; some need special hardware."""
_NUMBERS = re.compile(
    r"NCCL_(?!STORK_|CHECKS_)(?:\w+_(?:DISABLE|ENABLE|INDEX|TIMEOUT|RETRY_CNT|NTHREADS|NCHANNELS|TC|SL|CTAS)"
    r"|(?:LL_|LL128_)?BUFFSIZE|P2P_(?:NET|PCI|NVL)_CHUNKSIZE|NTHREADS|CROSS_NIC|IB_PKEY|IB_QPS_PER_CONNECTION)"
)
_SWITCH = re.compile(r"\w+_(?:DISABLE|ENABLE)")
_LED = re.compile(r"\s*([+-]?(?:0[xX][0-9a-fA-F]+|\d+))(.*)", re.DOTALL)
_UNIT = re.compile(r"\s?([KMG])i?B?\s*", re.IGNORECASE)
_ON = ("true", "yes", "on", "y", "t", "enable", "enabled")
_OFF = ("false", "no", "off", "n", "f", "disable", "disabled")


def refused_value(name: str, value: str, version: Version) -> str:
    """Return the error of this NCCL about a value when a group is made, empty if none or unknown."""
    if name not in NAMES or not STRICT <= version <= READ:
        return ""
    known = [known_name.lower() for known_name in NAMES[name]]
    functions = [function.lower() for function in FUNCTIONS]
    for number, part in enumerate(piece for piece in value.split(";") if piece):
        function, names = _part(part)
        if not function and (number or value.startswith(";")):
            return f"has {part!r} after a semicolon, and no function before it"
        for item in names:
            if item.lower() not in known:
                return f"names {item!r}, which is none of {', '.join(NAMES[name])}"
        if function and function.lower() not in functions:
            return f"names the function {function!r}, which is none of {', '.join(FUNCTIONS)}"
    return ""


def corrected_value(name: str, value: str) -> str | None:
    """Return the value without blanks and quotes, if NCCL takes it so."""
    text = re.sub(r"[\s'\x22]", "", value)
    return text if text and text != value and not refused_value(name, text, READ) else None


def without_value(value: str, version: Version) -> tuple[str, ...]:
    """Return the functions for which NCCL_ALGO=``value`` leaves no algorithm: this NCCL fails when one is called."""
    if not STRICT <= version <= READ or refused_value("NCCL_ALGO", value, version):
        return ()
    enabled = {function: {algorithm.lower() for algorithm in NAMES["NCCL_ALGO"]} for function in FUNCTIONS}
    for part in (piece for piece in value.split(";") if piece):
        function, names = _part(part)
        listed = {item.lower() for item in names}
        every = {algorithm.lower() for algorithm in NAMES["NCCL_ALGO"]}
        for operation in FUNCTIONS:
            if not function or function.lower() == operation.lower():
                enabled[operation] = every - listed if _excludes(part) else listed
    return tuple(operation for operation in FUNCTIONS if not enabled[operation] & _SERVED_BY[operation])


def misread_value(name: str, value: str) -> tuple[int, str | None] | None:
    """Return (the number that NCCL reads, the value that was meant if clear), if the two differ.

    None if NCCL reads what was meant, or no number.
    """
    if not value or not _NUMBERS.fullmatch(name):
        return None
    match = _LED.match(value)
    if match:
        unit = _UNIT.fullmatch(match[2])
        if unit is None:
            return None
        number = int(match[1], 16 if "x" in match[1].lower() else 10)
        return number, str(number << {"K": 10, "M": 20, "G": 30}[unit[1].upper()])
    word = value.strip().strip("'\x22").lower()
    if _SWITCH.fullmatch(name):
        return None if word in (*_OFF, "0", "") else (0, "1" if word in (*_ON, "1") else None)
    return 0, word if re.fullmatch(r"\d+", word) and word != "0" else None


def _part(text: str) -> tuple[str, list[str]]:
    """Return (the function, empty if none; the names) of one part, split as by strtok_r()."""
    words = [word for word in text.split(":") if word]
    function, names = (words[0], words[1]) if len(words) > 1 else ("", words[0] if words else "")
    return function, [part for part in names.removeprefix("^").split(",") if part]


def _excludes(text: str) -> bool:
    words = [word for word in text.split(":") if word]
    return bool(words) and words[1 if len(words) > 1 else 0].startswith("^")


# NCCL's log with NCCL_DEBUG=INFO while a group is made.
#
# Source: NCCL src/debug.cc (``host:pid:tid [device] NCCL INFO text``; a WARN has the file before its name, and comes
# after an empty line), bootstrap.cc ("Bootstrap: Using eth0:10.0.0.1<port>"; older versions have a blank before the
# colon), transport/net_socket.cc and net_ib/init.cc ("NET/IB : Using [0]mlx5_0:1/RoCE [1]... ; OOB ..."), init.cc
# ("Using network IB"), and of each channel transport/p2p.cc, shm.cc and net.cc ("0[0] -> 1[1] [send] via
# NET/IB/0/GDRDMA"). Its lines before it falls back to sockets: net_ib, misc/ibvsymbols.cc, plugin/plugin_open.cc. Read
# in versions 2.8 to 2.29.


LOGGED_VARIABLES: dict[str, str | None] = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV",
    "NCCL_DEBUG_FILE": "",
}
"""Variables that make NCCL log to stdout: a named file, also in nccl.conf, is left to the job."""
QUIET_VARIABLES: dict[str, str | None] = {**LOGGED_VARIABLES, "NCCL_DEBUG": "WARN", "NCCL_DEBUG_SUBSYS": None}
"""The same, of which the warnings alone are wanted."""
MOST = 8
"""Most warnings, notes and devices that are kept of one rank."""
SHOWN = 300
_LOG_LINE = re.compile(r"NCCL (?P<level>INFO|WARN) (?P<text>.*)")
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
"""Warning of older versions on every machine without libibverbs."""
_NOTE = re.compile(
    r"NET/IB ?: No device found|NET/Plugin ?:.*(?:cannot open|[Ff]ailed|returned)|Failed to initialize NET plugin|"
    r"NET/OFI.*(?:failed|No eligible)|ibv_\w+.*(?:failed|not found)"
)
_OWN_PLUGIN = re.compile(r"libnccl-?net\.so\b")
"""Default network plugin of NCCL, which most machines lack."""


def read_log_settings(text: str) -> NcclLog | None:
    """Return the settings in a rank's NCCL log, None if ``text`` has nothing of NCCL's."""
    version = interface = network = ""
    devices: dict[str, tuple[str, ...]] = {}
    channels: Counter[str] = Counter()
    notes: dict[str, None] = {}
    warnings: dict[str, None] = {}
    heard = False
    for line in text.splitlines():
        if parts := _VERSION.search(line):
            version, heard = version or parts[1], True
        match = _LOG_LINE.search(line)
        if match is None:
            continue
        heard, words = True, match["text"]
        if _NO_LIBRARY.search(words) or (match["level"] == "INFO" and _NOTE.search(words)):
            if not _OWN_PLUGIN.search(words):
                notes.setdefault(_fit(words))
        elif match["level"] == "WARN":
            warnings.setdefault(_fit(line[_file(line) :]))
        elif parts := _CHANNEL.search(words):
            channels[_transport(parts["way"], parts["rest"])] += 1
        elif parts := _INTERFACE.search(words):
            interface = interface or f"{parts['name']}:{parts['address']}"
        elif parts := _NETWORK.search(words):
            network = parts["name"]  # a second group may get another; the last one counts
        elif parts := _DEVICES.search(words):
            kind = "Socket" if "NET/Socket" in words else "IB"
            devices[kind] = tuple(card["name"] for card in _DEVICE.finditer(parts["list"]))
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


def _transport(transport: str, rest: str) -> str:
    """Return the transport, ``NET/IB/GDRDMA`` if the adapter reads the GPU's memory itself."""
    if transport == "direct shared memory":
        return "SHM"
    return _fit(f"{transport}/GDRDMA" if "/GDRDMA" in rest else transport)


def _file(line: str) -> int:
    """Return the start of a warning's own text: at its source file, else at NCCL's name."""
    place = re.search(r"\S+\.(?:cc|cpp|c|cu|h):\d+ (?:\(\w*\) )?NCCL WARN", line)
    return place.start() if place else line.index("NCCL WARN")


def _fit(text: str) -> str:
    return clean(encodable(text.strip()))[:SHOWN]


# InfiniBand and RoCE: the ports that NCCL takes, and the GID of each.
#
# Source: NCCL src/transport/net_ib (init.cc ``ncclIbInit``, connect.cc ``ncclIbGetGidIndex``) and utils.cc
# (``parseStringList``, ``matchIfList``): ports that are not ACTIVE are skipped silently. NCCL_IB_HCA is a list of
# prefixes of ``device[:port]``; ``^`` in front excludes them, ``=`` in front asks for exact names. Without a port NCCL
# falls back to sockets. NCCL_IB_GID_INDEX applies to RoCE alone and is taken as it is, whatever the table holds there;
# without it NCCL from 2.21 on searches a routable entry (``ncclUpdateGidIndex``), and earlier ones take entry 0.


HCA, RDMA_DISABLED, GID_INDEX = "NCCL_IB_HCA", "NCCL_IB_DISABLE", "NCCL_IB_GID_INDEX"


def rdma_switched_off(variables: Mapping[str, str]) -> bool:
    """Return whether the settings keep NCCL from InfiniBand and RoCE."""
    net = variables.get("NCCL_NET", "")
    return rdma_number(variables.get(RDMA_DISABLED, "0")) not in (0, None) or bool(net and net.upper() != "IB")


def chosen_devices(ports: Iterable[RdmaPort], variables: Mapping[str, str]) -> list[RdmaPort]:
    """Return the ports that NCCL_IB_HCA leaves, up or not."""
    text = variables.get(HCA, "")
    excluded = text.startswith("^")
    text = text[1:] if excluded else text
    exact = text.startswith("=")
    wanted = [part.partition(":") for part in (text[1:] if exact else text).split(",") if part]
    if not wanted:
        return list(ports)

    def named(rdma_port: RdmaPort) -> bool:
        for name, _, port in wanted:
            same = rdma_port.device == name if exact else rdma_port.device.startswith(name)
            if same and (rdma_number(port) or rdma_port.port) == rdma_port.port:
                return True
        return False

    return [rdma_port for rdma_port in ports if named(rdma_port) != excluded]


def gid_index(variables: Mapping[str, str]) -> int | None:
    """Return the value of NCCL_IB_GID_INDEX, None if NCCL searches by itself."""
    index = rdma_number(variables.get(GID_INDEX, ""))
    return index if index is not None and index >= 0 else None


def looked_for(gids: Iterable[Gid], variables: Mapping[str, str]) -> Gid | None:
    """Return the entry that NCCL 2.21 and later finds for a RoCE port without an index.

    It has the configured family and version, else it is entry 0. None if unknown or empty.
    """
    table = sorted(gids, key=lambda gid: gid.index)
    family = "IPv6" if variables.get("NCCL_IB_ADDR_FAMILY") == "AF_INET6" else "IPv4"
    version = variables.get("NCCL_IB_ROCE_VERSION_NUM", "2")
    if variables.get("NCCL_IB_ADDR_RANGE") or not all(gid.version for gid in table):
        return None
    taken = next((gid for gid in table if gid.index == 0), None)
    for gid in table:
        fits = _family(gid) == family
        other = (_family(taken) if taken is not None else "IPv6") != family
        routed = kind_of_address(gid.address) != "link-local"
        poor = taken is None or taken.version != gid.version or kind_of_address(taken.address) == "link-local"
        if gid.index and fits and (other or (routed and poor and gid.version == version)):
            taken = gid
    return taken


def _family(gid: Gid) -> str:
    return "IPv4" if kind_of_address(gid.address) == "IPv4" else "IPv6"


def kind_of_address(address: str) -> str:
    """Return ``IPv4``, ``IPv6`` or ``link-local``: addresses of one kind can reach each other."""
    parsed = parse_address(address)
    if parsed is None:
        return ""
    return "IPv4" if parsed.version == 4 else "link-local" if parsed.is_link_local else "IPv6"


def subnet(address: str) -> str:
    """Return the subnet prefix of an InfiniBand GID, empty if it is none."""
    parsed = parse_address(address)
    return str(IPv6Address(int(parsed) >> 64 << 64)) if isinstance(parsed, IPv6Address) else ""


def rdma_number(text: str) -> int | None:
    """Return a whole number as NCCL reads one, None if it is none."""
    try:
        return int(text)
    except ValueError:
        return None


# Topology and graph files that NCCL's reader refuses.
#
# It is no XML parser, and refuses much that is XML: a declaration (``<?xml ...?>``), a tab between elements, a line
# break within a tag, a value without quotes. Unknown elements are skipped, so a file of another kind may be read as
# nothing. Source: NCCL src/graph/xml.cc (``xmlGetNode``, ``xmlGetToken``, ``xmlLoadSub``, ``ncclTopoXmlLoadSystem``,
# ``ncclTopoXmlGraphLoadGraphs``; the version is NCCL_TOPO_XML_VERSION and NCCL_GRAPH_XML_VERSION of xml.h). Its later
# requirements on the inner elements are not checked here.


VERSION = "1"
MAX_TEXT = 255
"""Most characters of a name or a value (MAX_STR_LEN of xml.h, with its end)."""
MAX_NAMED = 80
_BLANK = re.compile(r"[ \n\r]*")
_NAME = re.compile(r"[^ >/\n\r=]*")
_ATTRIBUTE = re.compile(r" ([^ >/\n\r=]*)(?:=(?:\"([^\"]*)\"|'([^']*)')|(?=[ >/\n\r]))")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def refusal(text: str, root: str = "system") -> str:
    """Return the error of NCCL's reader with the line, empty if it reads to the end.

    ``root``: the element that it requires, ``graphs`` in a file of graphs.
    """
    place, opened = 0, list[str]()
    while True:
        place = _end(_BLANK, text, place)
        comment = _COMMENT.match(text, place)
        if comment:
            place = comment.end()
            continue
        if place == len(text):
            return f"unterminated {opened[-1]}" if opened else ""
        error, place = _element(text, place, opened, root)
        if error:
            return f"{error} (line {text.count(chr(10), 0, place) + 1})"


def _element(text: str, place: int, opened: list[str], root: str) -> tuple[str, int]:
    """Return the reason why the tag at ``place`` is refused, or the position behind it."""
    if text[place] != "<":
        return f"expecting '<', got {text[place]!r}", place
    closes = text.startswith("</", place)
    start = place + 2 if closes else place + 1
    end = _end(_NAME, text, start)
    name = text[start:end]
    if text.startswith("!--", start) or end == len(text):
        return ("unterminated comment" if end != len(text) else "unexpected end of the file"), place
    if len(name) > MAX_TEXT:
        return "a name is too long", place
    if closes:
        if text[end] != ">":
            return f"unexpected trailing {text[end]!r} in closing tag {name[:MAX_NAMED]}", place
        if opened and opened.pop() != name:
            return f"closing tag of {name[:MAX_NAMED]} where another was open", place
        return "", end + 1
    attributes: dict[str, str] = {}
    match = _ATTRIBUTE.match(text, end)
    while match:
        attributes[match[1]] = match[2] or match[3] or ""
        end = match.end()
        match = _ATTRIBUTE.match(text, end)
    single = text.startswith("/", end)
    end += single
    if not text.startswith(">", end):
        got = repr(text[end]) if end < len(text) else "the end of the file"
        return f"expected '>' in the tag {name[:MAX_NAMED]}, got {got}", place
    if not opened and name == root and attributes.get("version") != VERSION:
        version = attributes.get("version")
        return (f"version {version[:MAX_NAMED]}, {VERSION} is needed" if version else f"{root} has no version"), place
    if not single:
        opened.append(name)
    return "", end + 1


def _end(expression: re.Pattern[str], text: str, place: int) -> int:
    match = expression.match(text, place)
    return match.end() if match else place
