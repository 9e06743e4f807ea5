"""Subject of a log line, which counts more than its writer: the line's own values, torchrun's table, the parent of a
spawn."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from distdoctor.logs import attribution, ras, tracebacks
from distdoctor.logs.attribution import within
from distdoctor.logs.dialects import OWN_WORDS
from distdoctor.logs.dialects.torchrun import TABLE_CODE, TABLE_HOST, TABLE_RANK, TABLE_ROOT, TABLE_TIME
from distdoctor.model.facts.logs import LineOrigin

_EXIT = re.compile(r"exit ?code")
_ENDED = re.compile(r"exit ?code *[:=]? *-15\b")
"""Exit code of ranks that torchrun ended after another one failed."""
_OWN = ("localhost", "localhost.localdomain")
"""Names by which a host without another address calls itself."""
ROW = 700
"""Bytes before the exit code of a row of torchrun's table in which its rank and host stand."""
TOLD = 12_000
"""Most bytes of a row's error, including its traceback."""
_ERROR_HEADS = (b"traceback : Traceback", b"  msg:")
"""Text in a row before the error from the rank's error file."""
_HYDRA = re.compile(r"= +(?:RANK (\d{1,6}) )?PID \d{1,9} RUNNING AT (?:[\w.-]{1,64}@)?(\S{1,253})")
"""First line of a report about a process by the mpiexec of MPICH and Intel MPI; the next lines say how it ended."""
_STALLED = re.compile(
    rb"[^\n]{0,80}?(?:(?<!\d)(\d{1,6})!?: ?\[[^\n]*|/job:\w{1,40}/replica:\d{1,6}/task:(\d{1,6})\r?$)\n?", re.M
)
"""Line of Horovod's stall inspector (horovod/common/stall_inspector.cc): a rank, and the tensors that it has not sent;
or of XLA's coordination service (coordination_service.cc), about a task of JAX."""
STALLED = 64
"""Most ranks of it that are read."""
_SECTION, _SECTION_END = b"----------Begin global rank ", b"----------End global rank "
"""Marks of Composer's launcher around a rank's output (composer/cli/launcher.py)."""
_POD = re.compile(rb"^Name: {1,20}([a-z0-9][a-z0-9.-]{0,252})\r?$", re.M)
"""Beginning of a pod's description (kubectl describe)."""
_POD_IN_YAML = re.compile(rb"^ {2,6}name: ([a-z0-9][a-z0-9.-]{0,252})\r?\n {2,6}namespace: ", re.M)
"""The same in kubectl get -o yaml, whose metadata are in alphabetical order."""
_EVENT = re.compile(
    r"\s*(?:\S{1,63} +)?(?:\d{1,4}[smhdy]\S{0,8}(?: \(x\d{1,6} over \S{1,12}\))?|<\w+>) +(?:Normal|Warning) +\w{1,60} +"
    r"pod/(?P<pod>[\w.-]{1,253}) "
)
"""Row of kubectl get events about a pod, also with --all-namespaces."""
_RESTARTED = re.compile(
    rb"State: +Terminated\s{1,40}Reason: +Completed\s{1,40}Exit Code: +0\s(?:(?!\n\S).){0,400}"
    rb"Last State: +Terminated\s{1,40}(?:Reason: +\S{1,40}\s{1,40})?\Z",
    re.S,
)
"""Text there above the reason of an ended container that was restarted and ended well."""
ACCOUNT = 64 << 10
"""Bytes before a line that are searched for the beginning of such a description."""
_LOCAL = re.compile(r"(?<!--)\blocal[-_]rank[ =:]{1,2}(?P<number>\d{1,4})\b")
"""Local rank, but not in a command line: launchers that name a failed process print the command that they started last
(``cmd`` in sigkill_handler() of deepspeed/launcher/launch.py, as in torch/distributed/launch.py before 1.9)."""


def about(
    who: LineOrigin, text: str, values: Mapping[str, str], context: bytes, at: int
) -> tuple[LineOrigin, dict[str, str]]:
    """Return the subject of the line ``text``, which ``who`` wrote at ``at`` of ``context``, and marks of the line.

    Marks from torchrun's table: ``row`` for a rank that failed itself, ``first`` for the first failed one, ``row_time``
    for the time at which torchrun saw it end. Others: ``when`` of a boot, the ``ranks`` that the lines below name, and
    ``restarted`` for a container that did well after a restart.
    """
    local = _LOCAL.search(text)
    who, marks = _in_table(of_values(who, values), text, local is None, context, at)
    if "booted" in values and (when := attribution.of_syslog(context, at)) is not None:
        marks["when"] = str(when)
    if text.endswith(("issing ranks:", "talled ranks:", "ask names:", "heartbeats):")):
        marks["ranks"] = _stalled(context, context.find(b"\n", at) + 1)
    if " operation counts" in text or "Missing communicator data" in text:
        behind = ras.named_below(context, at)
        marks |= {"ranks": ", ".join(str(one.rank) for one in behind)} if behind else {}
        who = replace(who, host=behind[0].host, pid=behind[0].pid) if len(behind) == 1 else who
    if text.lstrip().startswith(("Reason: ", "Exit Code: ")) and _RESTARTED.search(context, max(at - ROW, 0), at):
        marks["restarted"] = "yes"
    who = _on_host(who, text, context, at)
    if who.rank is None and who.local_rank is None:
        who = replace(who, rank=_of_section(context, at))
    if who.rank is None and who.local_rank is None:
        who = replace(who, local_rank=int(local["number"]) if local else tracebacks.spawned(context, at))
    if marks:
        return who, marks
    task = _of_ray_task(context, at)
    who = replace(who, pid=task.pid, host=task.host or who.host) if task.pid is not None else who
    return within(who, _owner_of_row_error(context, at)), marks


NEXT = 1500
"""Bytes below a line that are searched for its library's own words."""


def own_words(text: str, context: bytes, at: int) -> dict[str, str]:
    """Return what a library says of its error beside the line ``text``, which only refers to it.

    ``said``: its first line below the line, else its last one above; ``library``: its name. ``advice``: its remedy.
    """
    for own in OWN_WORDS:
        failed, above, below, advice = own.patterns
        if not failed.search(text):
            continue
        said = below.search(context, at, at + NEXT)
        before = None if said else deque(above.finditer(context, max(at - ACCOUNT, 0), at), maxlen=1)
        texts = {"said": before[0] if before else said, "advice": advice.search(context, at, at + NEXT)}
        found = {name: attribution.split(attribution.readable(one[1]))[1] for name, one in texts.items() if one}
        return {**found, "library": own.library} if "said" in found else found
    return {}


_TASK_HEAD = re.compile(rb"ray::[^\n]{1,300}?\(pid=(\d{1,9})(?:, ip=([\w.:-]{1,64}))?[^\n]*\n")
_FRAME_LINE = re.compile(rb"(?:[^\n]{0,120}?\] )?(?:\([^\n)]{1,200}\) )?\s[^\n]*\n")
"""Line of a traceback, behind the prefixes of an engine."""


def _of_ray_task(context: bytes, at: int) -> LineOrigin:
    """Return the process and host of the task whose traceback, which ends at ``at``, Ray wraps."""
    start = context.rfind(b"ray::", max(at - tracebacks.BACK, 0), at)
    head = _TASK_HEAD.match(context, start) if start >= 0 else None
    if head is None:
        return LineOrigin()
    place = head.end()
    while place < at and (line := _FRAME_LINE.match(context, place)) is not None:
        place = line.end()
    if place != at or context.find(b'File "', head.end(), at) < 0:
        return LineOrigin()
    return LineOrigin(pid=int(head[1]), host=head[2].decode() if head[2] else None)


def rank_of_key(who: LineOrigin, peers: str) -> tuple[int, ...]:
    """Return the rank that did not write the last two parts of a key of gloo's in the store.

    rendezvous/context.cc waited for ``PEER/SELF`` before each pair's address had one key with all, and torch puts the
    number of the device before that: ``DEVICE/PEER``. Which of the two it is, only the rank that waited tells.
    """
    first, _, last = peers.partition("/")
    if who.rank is None:
        return ()
    return (int(first) if int(last) == who.rank else int(last),)


_NATIVE = re.compile(
    rb"[^\n]{0,200}?(?:@ {1,8}0x[0-9a-f]{4,16}(?: {1,12}(?:\d{1,9}|\(unknown\)))? {1,8}"
    rb"|#\d{1,3} {1,3}(?:0x[0-9a-f]{4,16} in )?"
    rb"|frame #\d{1,3}: )(?P<name>[A-Za-z_][\w:<>~]{2,120})"
)
"""Frame of a native stack, of absl or glog, of gdb and ROCm, and of torch."""
FRAMES = 12
"""Lines below the report of a crash that are searched for a frame with a name."""


def crash_frame(context: bytes, at: int) -> str:
    """Return the function in which a native crash happened that is reported at ``at``; empty if no frame names one."""
    place = context.find(b"\n", at) + 1
    for _ in range(FRAMES if place else 0):
        if (frame := _NATIVE.match(context, place)) is not None:
            return frame["name"].decode()
        place = context.find(b"\n", place) + 1
        if not place:
            break
    return ""


def of_values(who: LineOrigin, values: Mapping[str, str]) -> LineOrigin:
    """Return ``who`` with the rank and host among the line's values."""
    rank, local = values.get("rank", ""), values.get("local_rank", "")
    return replace(
        who,
        rank=int(rank) if rank.isdecimal() else who.rank,
        local_rank=int(local) if local.isdecimal() else who.local_rank,
        host=values.get("host") or values.get("pod") or who.host,
    )


def _in_table(who: LineOrigin, text: str, is_row: bool, context: bytes, at: int) -> tuple[LineOrigin, dict[str, str]]:
    """Return ``who`` with rank and host of the row of torchrun's table in which the line stands, and the row's marks.

    ``is_row``: False if the line names a local rank itself, as no row does.
    """
    marks: dict[str, str] = {}
    has_code = is_row and "xit" in text and _EXIT.search(text) is not None
    row = _of_row(context, at) if has_code or "traceback : Signal " in text else None
    if row is not None:
        who = _as_row(row, who)
        marks.update(_row_time(context, at))
    if has_code:
        before = context[max(at - ROW, 0) : at]
        if row is not None and not _ENDED.search(text):
            marks["row"] = "yes"
        if before.rfind(TABLE_ROOT) > before.rfind(TABLE_CODE):
            marks["first"] = "yes"
    return who, marks


def _on_host(who: LineOrigin, text: str, context: bytes, at: int) -> LineOrigin:
    """Return ``who`` with the host or pod that mpiexec or kubectl names for the line, if it has none."""
    if who.host is not None:
        return who
    if text.startswith("= "):
        who = within(_of_hydra(context, at), who)
    for label, head in (("Reason: ", _POD), ("reason: ", _POD_IN_YAML)):
        if who.host is None and text.lstrip().startswith(label):
            pods = head.findall(context, max(at - ACCOUNT, 0), at)
            who = replace(who, host=pods[-1].decode() if pods else None)
    if who.host is None and (event := _EVENT.match(text)) is not None:
        who = replace(who, host=event["pod"])
    return who


def _as_row(row: LineOrigin, who: LineOrigin) -> LineOrigin:
    """Return the process that a row names which ``who`` wrote."""
    return within(replace(row, host=None) if row.host in _OWN and who.host else row, who)


def _of_row(context: bytes, at: int) -> LineOrigin | None:
    """Return the process of the row of torchrun's table that goes on at ``at``."""
    row = context[max(at - ROW, 0) : at].decode("utf-8", "replace")
    ranks, hosts = TABLE_RANK.findall(row), TABLE_HOST.findall(row)
    if not ranks:
        return None
    return LineOrigin(int(ranks[-1][0]), int(ranks[-1][1]), hosts[-1] if hosts else None)


def _row_time(context: bytes, at: int) -> dict[str, str]:
    """Return the time at which torchrun saw the process of the row that goes on at ``at`` end."""
    times = TABLE_TIME.findall(context[max(at - ROW, 0) : at].decode("utf-8", "replace"))
    return {"row_time": times[-1]} if times else {}


def _of_hydra(context: bytes, at: int) -> LineOrigin:
    """Return the process that mpiexec reports at ``at``."""
    reports = _HYDRA.findall(context[max(at - ROW, 0) : at].decode("utf-8", "replace"))
    return (
        LineOrigin(int(reports[-1][0]) if reports[-1][0] else None, None, reports[-1][1]) if reports else LineOrigin()
    )


def _of_section(context: bytes, at: int) -> int | None:
    """Return the rank whose output Composer's launcher prints at ``at``."""
    low = max(at - ACCOUNT, 0)
    begin = context.rfind(_SECTION, low, at)
    if begin < 0 or context.rfind(_SECTION_END, low, at) > begin:
        return None
    number = context[begin + len(_SECTION) : begin + len(_SECTION) + 7].split(b" ")[0]
    return int(number) if number.isdigit() else None


def _stalled(context: bytes, at: int) -> str:
    """Return the ranks at the beginning of the lines from ``at`` on."""
    ranks: list[str] = []
    while at and len(ranks) < STALLED and (line := _STALLED.match(context, at)) is not None:
        ranks.append((line[1] or line[2]).decode())
        at = line.end()
    return ", ".join(ranks)


def _owner_of_row_error(context: bytes, at: int) -> LineOrigin:
    """Return the process whose error file a row of torchrun's table quotes at ``at``; nobody if none does."""
    low = max(at - TOLD, 0)
    start = max(context.rfind(mark, low, at) for mark in _ERROR_HEADS)
    if start < 0 or context.find(TABLE_CODE, start, at) >= 0 or context.find(b"\n====", start, at) >= 0:
        return LineOrigin()
    return _of_row(context, start) or LineOrigin()
