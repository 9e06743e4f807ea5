"""Python tracebacks in logs: the exception's own line, its frames, and the stacks that py-spy dumped."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

from distdoctor.logs.attribution import mentioned, readable, split, within
from distdoctor.model.facts.logs import LineOrigin

TRIGGERS = (
    "Error: ",
    "Exception: ",
    "Error:\n",
    "Error\n",
    "Exception\n",
    "Error:\r",
    "Error\r",
    "Exception:\n",
    "Interrupt\n",
    "Exited: ",
    "Empty\n",
    "StopIteration",
    "OutOfMemory: ",
    "OutOfResources: ",
    "Timeout: ",
    "Expired: ",
    "Invalid: ",
    "NotFound: ",
    "Unavailable: ",
    "Refused: ",
    "Failure: ",
)
"""Text in an exception's own line, whatever its type."""
_LINE = re.compile(
    r"(?!(?:org|com|javax?|scala|akka|kotlin)\.|LustreError: \d)"  # Java's errors; a file system's, in the kernel's log
    r"(?P<type>(?:[A-Za-z_]\w{0,80}\.){0,8}"
    r"(?:[A-Z_]\w{0,80}(?:Error|Exception|Interrupt|Exited|Empty|Iteration|OutOfMemory)|Exception(?=$|: \S)))"
    r"(?:\([\w. ]{0,80}\))?(?:: ?(?P<text>.*))?$"
)
_DOTTED = re.compile(
    r"(?!(?:org|com|javax?|scala|akka|kotlin)\.)(?P<type>(?:[A-Za-z_]\w{0,80}\.){1,8}(?=[A-Z])\w{0,80}"
    r"(?:OutOfResources|Timeout|Expired|Invalid|NotFound|Unavailable|Refused|Failure)): (?P<text>.*)$"
)
"""Names that do not end like an exception's; they count only with their module."""
_ANY = re.compile(
    r"(?!(?:org|com|javax?|scala|akka|kotlin)\.)(?P<type>(?:[A-Za-z_]\w{0,80}\.){1,8}[A-Z]\w{0,80}|Error"
    r"|[A-Z]\w{0,60}Warning(?=: ))(?:: (?P<text>.*))?$"
)
"""Any name, at the end of a traceback; a name without a module may be a word of the next line.

Python can be told to raise its warnings; a warning has its file before it.
"""
_QUOTED = re.compile(
    r"(?:\"message\": \"|ErrorMessage \"|(?=[\w.]{1,80}Error: Caught ))"
    r"(?P<type>[A-Za-z_][\w.]{0,160}(?:Error|Exception)): (?P<text>[^\"]{0,400})"
)
"""Quoted exception in torchelastic's error files, SageMaker and benchmark harnesses."""
_FRAME = re.compile(r'File "(?P<file>[^"]{1,400})", line (?P<line>\d{1,7})(?:, in (?P<name>[\w.<>]{1,120})|\s*$)')
"""Frame; that of a line which Python cannot parse names no function."""
_RICH = re.compile(r"(?P<file>[\w./-]{2,300}\.py):(?P<line>\d{1,7}) in (?P<name>[\w.<>]{1,120})")
_SOURCE = re.compile(
    r"\s*(?:[│❱>] ?\s*)*(?:\d{1,6} │.*|File \"[^\"]{1,400}\", line \d.*"
    r"|(?:(?:raise|return|assert|except)\b|logger?\.\w+\(|warnings\.warn\(|print\() ?[\w(\"'].*)$"
)
"""Frame of a traceback, or a quoted source line: such text was not reported."""
_ABOVE = re.compile(r"File \"[^\n]{1,400}(?:\n[^\n]{0,400}){0,3}\Z")
"""Frame, with its source line and the marks below it, at the end of the text above a line."""
_SPAWNED = re.compile(rb"-- Process (\d{1,4}) terminated with the following error:")
_WARNED = re.compile(r"(?:[\w.]{1,60}[ :|-]{1,4})?(?:WARN(?:ING)?|ERROR|CRITICAL)\b")
_ANSWER = re.compile(rb"\"(?:POST|PUT) /[^\s\"]{1,200} HTTP/1\.\d\" 4(?:00|13|22)\b")
"""Line of uvicorn about a request that the server found wrong."""
_TRACKER = re.compile(r"/multiprocessing/(?:resource|semaphore)_tracker\.py:\d+ in main$")
"""Python's clean-up process, which reports the resources that it could not find, and goes on (main() in
Lib/multiprocessing/resource_tracker.py)."""
_PASTED = re.compile(r"\) .{0,200}\b[A-Z]\w{0,60}(?:Error|Exception): ")
"""Lines that were pasted as one: the exception's own line behind the source line of a frame."""
_OTHERS = re.compile(
    r"[/\\](?:site|dist)-packages[/\\]|[/\\]python3\.\d{1,2}[/\\]|^<| in \w{0,40}(?i:retry|retries|backoff)\w{0,40}$"
    r"|[/\\]torchinductor_\w"
)
"""Frame of a library, of Python itself, of code that torch.compile wrote, or of a helper that calls the program's own
code again."""
_BEGIN = ("<module>", "_run_module_as_main", "_bootstrap", "_bootstrap_inner", "_wrap", "_worker_loop")
"""First frames of uncaught tracebacks: of a script, a module, a process, a thread, a loader's worker."""
_OF_SCRIPTS = ("<module>", "_run_module_as_main")
_BY_HYDRA = "Error executing job with overrides"
"""Message of Hydra, which omits its own frames from a fatal traceback (run_and_report() in
hydra/_internal/utils.py)."""
_BY_TORCH = re.compile(rb"\[rank\d{1,6}\]: ?Traceback")
"""Rank that torch writes before an uncaught traceback (its sys.excepthook, in
torch/distributed/distributed_c10d.py)."""
_RULE = re.compile(r"-{50,}$")
_TEST = re.compile(r"FAIL(?: \[[\d.]{1,12}s\])?: \w{1,120} \(")
"""Announcement of a failed assertion by unittest."""
BACK = 6000
"""Bytes before an exception that are searched for its frames."""
HEAD = "Traceback (most recent call last)"
IGNORED = "Exception ignored "
"""Beginning of Python's line above the traceback of an ignored error: in a destructor, or in an atexit function. Since
3.14 it names what Python did, such as "while calling deallocator" (calls of PyErr_FormatUnraisable())."""
MESSAGE = 6
"""Lines below an exception's own that are searched for its text."""
FRAMES = 120
"""Lines after the head of a traceback that are searched for its end."""


def exception(text: str) -> tuple[str, str] | None:
    """Return type and text of the exception whose own line is ``text``; None for any other line."""
    own = text.strip().removeprefix("E   ")
    match = _LINE.match(own) or _DOTTED.match(own) or _QUOTED.search(text)
    if match is None:
        return None
    return match["type"], (match["text"] or "").strip()


def following_text(block: bytes, start: int) -> str:
    """Return the text below the exception's line at ``start``, if its text begins on the next one, as one line.

    rich breaks before a long first word, and messages may have several lines.
    """
    first, *lines = block[start : start + BACK].splitlines()[:MESSAGE]
    speaker, message = split(readable(first[:400]))[0], list[str]()
    for raw in lines:
        who, line = split(readable(raw))
        if (who.rank, who.local_rank, who.host) != (speaker.rank, speaker.local_rank, speaker.host):
            continue
        if HEAD in line or is_source(line) or (message and not line.strip()):
            break
        message += [line.strip()] if line.strip() else []
    return " ".join(message)[:500]


def is_answered(block: bytes, start: int, writer: LineOrigin) -> bool:
    """Return whether the process that wrote the line at ``start`` then answers a request with a client's error.

    A server goes on after it. ``writer``: speaker of the record that the line belongs to."""
    below = block[start : start + BACK]
    answer = _ANSWER.search(below)
    if answer is None:
        return False
    lines = (below[:400].partition(b"\n")[0], below[below.rfind(b"\n", 0, answer.start()) + 1 : answer.end()])
    raising, server = (split(readable(line))[0] for line in lines)
    return replace(within(raising, writer), time=None) == replace(server, time=None)


def odd_end(block: bytes, start: int) -> tuple[int, str, str, str] | None:
    """Return offset, line, type and text of the exception at the end of a traceback, if :func:`exception` does not know
    its name.

    The traceback begins at ``start``. Lines of other ranks between its own are skipped.
    """
    first, *lines = block[start : start + BACK].splitlines(keepends=True)[:FRAMES]
    speaker, end, framed = split(readable(first[:400]))[0], start + len(first), False
    for raw in lines:
        at, end = end, end + len(raw)
        who, line = split(readable(raw))
        if (who.rank, who.local_rank, who.host) != (speaker.rank, speaker.local_rank, speaker.host):
            continue
        if line[:1].isspace():
            framed = framed or bool(_FRAME.search(line))
            continue
        found = _ANY.match(line) if framed and raw.endswith((b"\n", b"\r")) and exception(line) is None else None
        return (at, line, found["type"], (found["text"] or "").strip()) if found else None
    return None


_NOBODY = LineOrigin()


@dataclass
class Before:
    """Context above the line of an exception."""

    traced: bool = False
    """True if there is a traceback."""
    frame: str = ""
    """Innermost frame."""
    own_frame: str = ""
    """Innermost frame of the user's own code, if that is another one."""
    direct: bool = False
    """True if the program names another exception as its cause (``raise ... from``)."""
    chained: bool = False
    """True if it was raised while another exception was handled."""
    logged: bool = False
    """True if a program's logger wrote it, with a warning or an error of its own."""
    ignored: bool = False
    """True if Python reports it as ignored."""
    tested: bool = False
    """True if it is a failed assertion of unittest."""
    caught: bool = False
    """True if the program caught it: the traceback begins in one of its functions."""
    writer: LineOrigin = _NOBODY
    """Speaker of the record that the traceback belongs to: a logger names it once, in the first line."""
    whole: bool = False
    """True if the traceback begins where a script does and no logger of the program wrote it, so it was probably
    uncaught."""

    def take_head(self, who: LineOrigin, line: str, by_torch: bool, outermost: str) -> None:
        """Take the head of the traceback. ``by_torch``: torch reports it as uncaught; ``outermost``: first function."""
        self.traced, self.writer = True, who
        self.caught = line.startswith(HEAD) and outermost not in ("", *_BEGIN) and not by_torch
        self.whole = by_torch or outermost in _OF_SCRIPTS

    def take_above(self, who: LineOrigin, line: str) -> None:
        """Take the line above the head, which says how the exception came to be written."""
        self.direct = "The above exception was the direct" in line
        self.chained = self.direct or "During handling of the above" in line
        self.logged = bool(_WARNED.match(line))
        if self.logged:
            self.writer = within(self.writer, mentioned(who, line))
        self.ignored = line.startswith(IGNORED)
        self.tested = bool(_TEST.match(line))
        self.caught = self.caught and not line.startswith(_BY_HYDRA)


def before(block: bytes, start: int) -> Before:
    """Return the context above the exception's line that begins at ``start``, reading upwards from it."""
    found, outermost = Before(), ""
    for raw in reversed(block[max(start - BACK, 0) : start].splitlines()[-90:]):
        who, line = split(readable(raw))
        if (match := _FRAME.search(line) or _RICH.search(line)) is not None:
            place = f"{match['file']}:{match['line']} in {match['name'] or '<module>'}"
            found.frame = found.frame or place
            if not found.own_frame and not _OTHERS.search(f"{match['file']} in {match['name']}"):
                found.own_frame = place
            outermost = outermost if found.traced else match["name"] or ""
        if line.startswith("Original Traceback") and HEAD in line:
            found.traced, found.writer, found.chained = True, who, True
            break  # torch/_utils.py: the text of a wrapped error ends with the reason
        if HEAD in line:
            found.take_head(who, line, _BY_TORCH.search(raw) is not None, outermost)
        elif found.traced and line.strip() and not _RULE.match(line):
            found.take_above(who, line)
            break
    found.traced = found.traced or bool(found.frame)
    found.ignored = found.ignored or bool(_TRACKER.search(found.frame))
    found.whole = found.whole and not (found.logged or found.chained)
    return found


def is_ignored(block: bytes, start: int) -> bool:
    """Return whether Python reports the traceback as ignored whose head or frame begins at ``start``."""
    first = max(start - BACK, 0)
    head = block.rfind(HEAD.encode(), first, start + block[start : start + BACK].find(b"\n") + 1)
    above = block[first : block.rfind(b"\n", first, max(head, first)) + 1].rstrip()
    return head >= 0 and split(readable(above[above.rfind(b"\n") + 1 :]))[1].startswith(IGNORED)


def frames(block: bytes, start: int) -> str:
    """Return the traceback above the exception's line at ``start``, or the part of it that is there."""
    before = block[max(start - BACK, 0) : start]
    return readable(before[max(before.rfind(b"Traceback (most recent call last)"), 0) :])


def fits(frames: str, stack: str, unframed: bool) -> bool:
    """Return whether the frames contain ``stack``; with ``unframed`` also if no frame stands right above the line."""
    return bool(re.search(stack, frames)) or (unframed and not _ABOVE.search(frames))


def spawned(block: bytes, start: int) -> int | None:
    """Return which process of torch.multiprocessing.spawn raised the exception on that line, as its parent reports."""
    if block.find(b"-- Process ", max(start - BACK, 0), start) < 0:
        return None
    numbers = _SPAWNED.findall(block[max(start - BACK, 0) : start])
    return int(numbers[-1]) if numbers else None


def is_source(text: str) -> bool:
    """Return whether a line is source code, as tracebacks quote it."""
    return bool(_SOURCE.match(text[:1000])) and not _PASTED.search(text[:800])


# Stacks of a job's ranks: ranks that are at another place than most. They are from ``py-spy dump``, one file each or
# concatenated, or from the debug server of torch 2.10 and later (dump_dir of torch.distributed.debug), which writes
# those of all ranks to one file, by py-spy or by faulthandler.


MAX_STACK_BYTES = 1 << 20
STACK_HEAD = re.compile(rb"\s{0,80}Process \d{1,9}: [^\n]{0,8000}\nPython v\d")
"""Beginning of such a file (py-spy's dump.rs)."""
_SECTION = r"=== Rank (?P<rank>\d{1,6}): \S{1,300} ===\n"
"""Line above the stack of each rank in a file of the debug server (dump() in torch/distributed/debug/_debug_handlers.py
of 2.13)."""
BY_SERVER = re.compile(rf"(?:PARTIAL DATA: .{{1,80}}\n(?:  Rank .{{0,300}}\n){{1,64}}\n)?{_SECTION}".encode())
"""Beginning of such a file."""
LOADER = "_worker_loop ("
"""Frame of a DataLoader worker, which has the command line of its rank."""
_PROCESS = re.compile(r"^Process (?P<pid>\d{1,9}): (?P<command>.{0,8000})\nPython v\d", re.M)
_LOCAL_RANK = re.compile(r" --local[-_]rank[= ]\d{1,6}(?!\d)")
FEWEST = 3
"""Fewest ranks among which most can be at one place."""
_RANK = re.compile(r"rank[._-]?(\d{1,6})(?!\d)")
_THREAD = re.compile(r'Thread \S{1,40} \([\w+]{1,40}\)(?:: "(?P<name>[^"]{0,200})")?')
_FAULT_FRAME = re.compile(r'  File "(?P<file>[^"]{1,400})", line (?P<line>\d{1,7}) in (?P<function>.{1,200})')
_STACK_FRAME = re.compile(r" {4}(?P<function>\S.{0,200}) \((?P<file>[^()]{1,400}):(?P<line>\d{1,7})\)\s*")


def begins_with_stack(head: bytes, named: bool) -> bool:
    """Return whether a file that begins with ``head`` is the debug server's or py-spy's; if ``named`` so, also behind a
    few words."""
    return (
        BY_SERVER.match(head) is not None or (STACK_HEAD.search(head) if named else STACK_HEAD.match(head)) is not None
    )


class Stacks:
    """Place of each rank in the program when its stack was taken."""

    def __init__(self) -> None:
        self._places: dict[int, str] = {}
        self._commands: dict[str, dict[int, str]] = {}
        """By command line within a file, the places of processes without a known rank, by pid."""

    def take(self, name: str, data: bytes) -> None:
        """Take a file: the stack of the rank in its name, or of processes with one command line."""
        rank, text = _RANK.search(name.rpartition("/")[2]), data.decode(errors="replace")
        if BY_SERVER.match(data):  # each file is a look of its own at all ranks
            _, *each = re.split(_SECTION, text)
            self._places = {
                int(rank): place for rank, own in zip(each[::2], each[1::2], strict=True) if (place := _place(own))
            }
            return
        if rank is not None:
            if place := _place(text):
                self._places[int(rank[1])] = place
            return
        heads = [*_PROCESS.finditer(text)]
        for head, end in zip(heads, [*(after.start() for after in heads[1:]), len(text)], strict=True):
            own = text[head.end() : end]
            if LOADER not in own and (place := _place(own)):
                command = f"{name}\n{_LOCAL_RANK.sub('', head['command'])}"
                self._commands.setdefault(command, {})[int(head["pid"])] = place

    def compared(self) -> list[str]:
        """Return lines about ranks that are at another place than more than half of them."""
        alike = [("rank", "ranks", self._places), *(("process", "processes", one) for one in self._commands.values())]
        return [line for one, several, places in alike if (line := _apart(one, several, places))]


def _apart(one: str, several: str, places: dict[int, str]) -> str:
    counts = Counter(places.values())
    if len(places) < FEWEST or len(counts) < 2:
        return ""
    (usual, count), *_ = counts.most_common()
    if count * 2 <= len(places):
        return ""
    apart = {number: place for number, place in sorted(places.items()) if place != usual}
    where = " and in ".join(dict.fromkeys(apart.values()))
    numbers = ", ".join(map(str, apart))
    return f"stacks: {several if len(apart) > 1 else one} {numbers} in {where}, the {count} others in {usual}"


def _place(text: str) -> str:
    """Return the innermost line of the first process's main thread; faulthandler names none, but shows it last."""
    main, place = False, ""
    for line in text.splitlines():
        if thread := _THREAD.match(line):
            main = thread["name"] in (None, "MainThread")
        elif main and (frame := _STACK_FRAME.fullmatch(line)):
            return f"{frame['function']} ({frame['file']}:{frame['line']})"
        elif line.endswith(" (most recent call first):"):
            place = ""
        elif not place and (frame := _FAULT_FRAME.fullmatch(line)):
            place = f"{frame['function']} ({frame['file']}:{frame['line']})"
    return place
