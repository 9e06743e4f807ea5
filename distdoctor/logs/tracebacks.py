"""Python's own account of an error: the line of the exception, and where it was raised."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from distdoctor.logs.attribution import readable, split

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
"""What the own line of an exception holds, whatever its type."""
_LINE = re.compile(
    r"(?!(?:org|com|javax?|scala|akka|kotlin)\.|LustreError: \d)"  # Java's; a file system's, in the kernel's log
    r"(?P<type>(?:[A-Za-z_]\w{0,80}\.){0,8}"
    r"(?:[A-Z_]\w{0,80}(?:Error|Exception|Interrupt|Exited|Empty|Iteration|OutOfMemory)|Exception(?=$|: \S)))"
    r"(?:\([\w. ]{0,80}\))?(?:: ?(?P<text>.*))?$"
)
_DOTTED = re.compile(
    r"(?!(?:org|com|javax?|scala|akka|kotlin)\.)(?P<type>(?:[A-Za-z_]\w{0,80}\.){1,8}(?=[A-Z])\w{0,80}"
    r"(?:OutOfResources|Timeout|Expired|Invalid|NotFound|Unavailable|Refused|Failure)): (?P<text>.*)$"
)
"""Of names that do not end as those of exceptions do, only with the module they are from."""
_ANY = re.compile(
    r"(?!(?:org|com|javax?|scala|akka|kotlin)\.)(?P<type>(?:[A-Za-z_]\w{0,80}\.){1,8}[A-Z]\w{0,80}|Error"
    r"|[A-Z]\w{0,60}Warning(?=: ))(?:: (?P<text>.*))?$"
)
"""Of any name, where it stands at the end of a traceback; one without a module may be a word of the next line. Python
can be told to raise what it would warn of; a warning has its file before it."""
_QUOTED = re.compile(
    r"(?:\"message\": \"|ErrorMessage \"|(?=[\w.]{1,80}Error: Caught ))"
    r"(?P<type>[A-Za-z_][\w.]{0,160}(?:Error|Exception)): (?P<text>[^\"]{0,400})"
)
"""As torchelastic's error files, SageMaker and benchmark harnesses quote it."""
_FRAME = re.compile(r'File "(?P<file>[^"]{1,400})", line (?P<line>\d{1,7}), in (?P<name>[\w.<>]{1,120})')
_RICH = re.compile(r"(?P<file>[\w./-]{2,300}\.py):(?P<line>\d{1,7}) in (?P<name>[\w.<>]{1,120})")
_SOURCE = re.compile(
    r"\s*(?:[│❱>] ?\s*)*(?:\d{1,6} │.*|File \"[^\"]{1,400}\", line \d.*"
    r"|(?:(?:raise|return|assert|except)\b|logger?\.\w+\(|warnings\.warn\(|print\() ?[\w(\"'].*)$"
)
"""A frame of a traceback, or a line of the program that it quotes: what stands there was not said, but might be."""
_ABOVE = re.compile(r"File \"[^\n]{1,400}(?:\n[^\n]{0,400}){0,3}\Z")
"""A frame, with the line of source and the marks below it, at the end of what stands before a line."""
_SPAWNED = re.compile(rb"-- Process (\d{1,4}) terminated with the following error:")
_WARNED = re.compile(r"(?:[\w.]{1,60}[ :|-]{1,4})?(?:WARN(?:ING)?|ERROR|CRITICAL)\b")
_TRACKER = re.compile(r"/multiprocessing/(?:resource|semaphore)_tracker\.py:\d+ in main$")
"""Python's process that tidies up after the others tells what it could not find, and goes on (main() in
Lib/multiprocessing/resource_tracker.py)."""
_PASTED = re.compile(r"\) .{0,200}\b[A-Z]\w{0,60}(?:Error|Exception): ")
"""Lines that were pasted as one: after what a frame quotes, the own line of the exception."""
_BEGIN = ("<module>", "_run_module_as_main", "_bootstrap", "_bootstrap_inner", "_wrap", "_worker_loop")
"""Where the tracebacks begin of what nobody catches: of a script, a module, a process, a thread, a loader's worker."""
_OF_SCRIPTS = ("<module>", "_run_module_as_main")
_BY_HYDRA = "Error executing job with overrides"
"""Hydra leaves its own frames out of what ends a job (run_and_report() in hydra/_internal/utils.py)."""
_BY_TORCH = re.compile(rb"\[rank\d{1,6}\]: ?Traceback")
"""Before what nobody caught torch writes the rank (its sys.excepthook, in torch/distributed/distributed_c10d.py)."""
_RULE = re.compile(r"-{50,}$")
_TEST = re.compile(r"FAIL(?: \[[\d.]{1,12}s\])?: \w{1,120} \(")
"""How unittest announces what a test asserted."""
BACK = 6000
"""Bytes before an exception in which its frames are looked for."""
HEAD = "Traceback (most recent call last)"
IGNORED = "Exception ignored in"
"""What Python says above a traceback of what it went on after: of a destructor, of what atexit was to call."""
MESSAGE = 6
"""Lines below an exception's own in which its text is looked for."""
FRAMES = 120
"""Lines after the head of a traceback in which its end is looked for."""


def exception(text: str) -> tuple[str, str] | None:
    """The type and the text of the exception whose own line ``text`` is; None for any other line."""
    own = text.strip().removeprefix("E   ")
    match = _LINE.match(own) or _DOTTED.match(own) or _QUOTED.search(text)
    if match is None:
        return None
    return match["type"], (match["text"] or "").strip()


def goes_on(block: bytes, start: int) -> str:
    """Return what stands below the line of an exception that begins at ``start``, where its text begins on the next
    one: as rich puts it where the first word is long, and as messages of several lines are. In one line."""
    first, *lines = block[start : start + BACK].splitlines()[:MESSAGE]
    speaker, said = split(readable(first[:400]))[0], list[str]()
    for raw in lines:
        who, line = split(readable(raw))
        if (who.rank, who.local_rank, who.host) != (speaker.rank, speaker.local_rank, speaker.host):
            continue
        if HEAD in line or is_source(line) or (said and not line.strip()):
            break
        said += [line.strip()] if line.strip() else []
    return " ".join(said)[:500]


def odd_end(block: bytes, start: int) -> tuple[int, str, str, str] | None:
    """Of a traceback that begins at ``start`` and ends with an exception whose name is none that :func:`exception`
    knows: where its line begins, the line, the type and the text. Lines of other ranks between its own are passed over.
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


@dataclass(frozen=True)
class Before:
    """What stands before the line of an exception."""

    traced: bool = False
    """Whether there is a traceback."""
    frame: str = ""
    """Its innermost frame."""
    chained: bool = False
    """Whether it was raised while another one was handled."""
    logged: bool = False
    """Whether a program's logger wrote it, with a warning or an error of its own."""
    ignored: bool = False
    """Whether Python says that it went on."""
    tested: bool = False
    """Whether it is what a test asserted, by unittest's account."""
    caught: bool = False
    """Whether the program has caught it: the traceback begins in one of its functions."""
    executed: bool = False
    """Whether all of its frames are of a text that a program has executed, and has not read from a file."""
    whole: bool = False
    """Whether the traceback begins where a script does, and no logger of the program wrote it: most often nobody has
    caught that."""


def before(block: bytes, start: int) -> Before:
    """Return what stands before the line of an exception that begins at ``start``."""
    raws = block[max(start - BACK, 0) : start].splitlines()[-90:]
    lines = [split(readable(raw))[1] for raw in raws]
    frame, traced, chained, logged, ignored, tested = "", False, False, False, False, False
    outermost, caught, whole, executed = "", False, False, True
    for line, raw in zip(reversed(lines), reversed(raws), strict=True):
        match = _FRAME.search(line) or _RICH.search(line)
        if match and not frame:
            frame = f"{match['file']}:{match['line']} in {match['name']}"
        if match and not traced:
            outermost = match["name"]
            executed = executed and match["file"] == "<string>"
        if HEAD in line:
            traced = True
            if line.startswith("Original Traceback"):  # torch/_utils.py: what it wraps ends with the reason
                chained = True
                break
            by_torch = _BY_TORCH.search(raw) is not None
            caught = line.startswith(HEAD) and outermost not in ("", *_BEGIN) and not by_torch
            whole = by_torch or outermost in _OF_SCRIPTS
        elif traced and line.strip() and not _RULE.match(line):
            chained = "During handling of the above" in line or "The above exception was the direct" in line
            logged = bool(_WARNED.match(line))
            ignored = line.startswith(IGNORED)
            tested = bool(_TEST.match(line))
            caught = caught and not line.startswith(_BY_HYDRA)
            break
    ignored = ignored or bool(_TRACKER.search(frame))
    executed = executed and traced and bool(frame)
    whole = whole and not (logged or chained or executed)
    return Before(traced or bool(frame), frame, chained, logged, ignored, tested, caught, executed, whole)


def is_ignored(block: bytes, start: int) -> bool:
    """Return whether Python says that it went on after what the traceback tells whose head or frame begins at
    ``start``."""
    first = max(start - BACK, 0)
    head = block.rfind(HEAD.encode(), first, start + block[start : start + BACK].find(b"\n") + 1)
    above = block[first : block.rfind(b"\n", first, max(head, first)) + 1].rstrip()
    return head >= 0 and split(readable(above[above.rfind(b"\n") + 1 :]))[1].startswith(IGNORED)


def frames(block: bytes, start: int) -> str:
    """The traceback before the line of an exception that begins at ``start``; what there is of it where it is cut."""
    before = block[max(start - BACK, 0) : start]
    return readable(before[max(before.rfind(b"Traceback (most recent call last)"), 0) :])


def fits(frames: str, stack: str, unframed: bool) -> bool:
    """Return whether the frames before a line hold ``stack``; ``unframed``: or none of them stands right above it."""
    return bool(re.search(stack, frames)) or (unframed and not _ABOVE.search(frames))


def spawned(block: bytes, start: int) -> int | None:
    """Return which of the processes of torch.multiprocessing.spawn raised the exception on that line, as its parent
    tells."""
    if block.find(b"-- Process ", max(start - BACK, 0), start) < 0:
        return None
    told = _SPAWNED.findall(block[max(start - BACK, 0) : start])
    return int(told[-1]) if told else None


def is_source(text: str) -> bool:
    """Return whether a line is a program's text, as tracebacks quote it."""
    return bool(_SOURCE.match(text[:1000])) and not _PASTED.search(text[:800])


# What ``py-spy dump`` wrote of the ranks of a job, a file each or one after the other: which of them stand elsewhere
# than most.


MAX_STACK_BYTES = 1 << 20
STACK_HEAD = re.compile(rb"\s{0,80}Process \d{1,9}: [^\n]{0,8000}\nPython v\d")
"""How such a file begins (py-spy's dump.rs)."""
LOADER = "_worker_loop ("
"""A frame of a worker of a DataLoader, whose command line is that of its rank."""
_PROCESS = re.compile(r"^Process (?P<pid>\d{1,9}): (?P<command>.{0,8000})\nPython v\d", re.M)
_LOCAL_RANK = re.compile(r" --local[-_]rank[= ]\d{1,6}(?!\d)")
FEWEST = 3
"""Ranks of which most can stand at one place."""
_RANK = re.compile(r"rank[._-]?(\d{1,6})(?!\d)")
_THREAD = re.compile(r'Thread \S{1,40} \([\w+]{1,40}\)(?:: "(?P<name>[^"]{0,200})")?')
_STACK_FRAME = re.compile(r" {4}(?P<function>\S.{0,200}) \((?P<file>[^()]{1,400}):(?P<line>\d{1,7})\)\s*")


def begins_with_stack(head: bytes, named: bool) -> bool:
    """Return whether a file that begins with ``head`` is py-spy's; where it is ``named`` so, also behind a few
    words."""
    return (STACK_HEAD.search(head) if named else STACK_HEAD.match(head)) is not None


class Stacks:
    """Where the ranks were, each when it was looked at."""

    def __init__(self) -> None:
        self._places: dict[int, str] = {}
        self._commands: dict[str, dict[int, str]] = {}
        """The places of processes of which no rank is known, by pid, for each command line of a file."""

    def take(self, name: str, data: bytes) -> None:
        """The file of this path: of the rank that its name says, or of processes that were started alike."""
        rank, text = _RANK.search(name.rpartition("/")[2]), data.decode(errors="replace")
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
        """Lines about those that are elsewhere than more than half of the ranks, where there are such."""
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
    """The innermost line of the main thread of the first process."""
    main = False
    for line in text.splitlines():
        if thread := _THREAD.match(line):
            main = thread["name"] in (None, "MainThread")
        elif main and (frame := _STACK_FRAME.fullmatch(line)):
            return f"{frame['function']} ({frame['file']}:{frame['line']})"
    return ""
