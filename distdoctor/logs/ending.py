"""How a log ends: with the steps of a job that works, with its end, or in the middle of starting up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from distdoctor.logs.attribution import readable, split

TAIL = 32 << 10
"""Bytes of the end that are looked at."""
LAST = 300
"""Lines of it: what is written after the last step, as the summaries of a run, is long."""
CUT = 600
"""Characters of a line that are looked at."""
PROGRESS = re.compile(
    r"\b(?:it(?:er(?:ation)?)?s?|steps?|epochs?|batch(?:es)?)\b[\s:=\[/]{0,3}\d|\bloss\b.{0,12}\d"
    r"|\d ?(?:it/s|s/it|s/step)\b|(?:tokens?|samples?|images?|frames?)(?:/s|_per_s| per second)"
    r"|\d{1,3}%\s?[|▏▎▍▌▋▊▉█━#]|\bgrad[_ ]?norm\b|throughput",
    re.I,
)
_OVER = re.compile(
    r"\btrain_runtime\b|\bexit(?:ed|s|ing)?(?: with)?(?: (?:status|code)){1,2}:? 0\b|\bexits successfully\b"
    r"|\b(?:Job)?State[:=] ?COMPLETED\b|\(SUCCEEDED\)|^\(1\) Normal termination \(return value 0\)"
    r"|^Successfully completed\.$"
    r"|\b(?:worker group|job|run|training) (?:has |was |is )?(?:successfully (?:finished|completed)"
    r"|(?:finished|completed) successfully|succeeded)\b"
    r"|\bfit\W{1,3}stopped: \W?max_(?:epochs|steps|time)=|^\W{0,8}(?:training|fine-?tuning) (?:is |has |was )?"
    r"(?:complete[d]?|finished|done)\b(?!.{0,20}\bepoch)",
    re.I,
)
"""The job is done, and no part of it, wherever in the tail it stands."""
_KNOWN = re.compile(r"\(SUCCEEDED\)|^=+ .{0,200}\d passed\b|\btraining SUCCESS\b")
"""Who says so knows how all of it went: a launcher, a harness of tests. The script around a job says all the same that
it is done, and so does the scheduler that has run the script; what one rank says, another may not have reached."""
_DONE = re.compile(
    r"\b(?:training|job|run|fine-?tuning|everything|all)\b.{0,30}\b(?<! to )"
    r"(?:complete[d]?|finished|done(?! waiting)|succe\w+|ended)\b"
    r"|^=+ (?:\d{1,7} (?:passed|skipped|deselected|xfailed|xpassed|warnings?),? )+in \d[\w.:() ]{1,40}=+$"
    r"|^(?:all )?(?:done|finished|success)(?: in [\d.]{1,12} ?\w{1,8})?[.!]?$"
    r"|\b(?:finished|completed) (?:the )?training\b(?!.{0,20}(?:\bepoch|\d))"
    r"|\bsaved? (?:the )?final (?:model|checkpoint)|\bdestroy(?:ed|ing)? (?:the )?process group"
    r"|finished successfully|exit(?:ed)?(?: with)? code:? 0\b",
    re.I,
)
"""The job is done."""
_BADLY = re.compile(
    r"\b(?:exit|return)?[ _-]?(?:code|status|rc)\b\W{0,3}-?[1-9]|\bexit(?:ed)?(?: with)?\W{0,3}[1-9]"
    r"|\b(?:state|status|result|outcome)\W{1,3}(?:fail(?:ed|ure)|error|killed|aborted|cancell?ed)\b"
    r"|\bwith (?:an? |some |[1-9]\d{0,6} )?(?:errors?|failures?|exceptions?)\b|\bunsuccessful"
    r"|\((?:failed|killed|aborted)\b"
    r"|\b[1-9]\d{0,6} (?:failed|failures?|errors?)\b|\b(?-i:FAILED|FAILURE|ABORTED|KILLED)\b",
    re.I,
)
"""That it has not ended well stands in the same line."""
_PART = re.compile(
    r"\bevaluation\b.{0,30}\b(?:complete[d]?|finished|done|succe\w+|ended)\b"
    r"|\bsaved? (?:the )?(?:model|checkpoint)|\bBest (?:accuracy|model|val)",
    re.I,
)
"""A part of it is."""
_TESTED = re.compile(rb"^Ran \d{1,7} tests? in [\d.]{1,12}s\s{1,4}OK(?: \(.{1,80}\))?\s*\Z", re.M)
"""The last words of unittest, where all was as it should be."""
CLOSE = 15
"""Lines of the end in which less clear words count."""
_BAR = re.compile(r"\b\d+/\d+(?= \[)")
"""How far a bar is; one that is drawn again as it was, as when it is closed, shows no step."""
_SUMMARY = re.compile(r"wandb: ")
"""How a line begins that tells again, after the run, how its steps went."""
RECORD = re.compile(r"(?:[\w.]{1,60}[ :|-]{1,4})?(?:INFO|WARN(?:ING)?|ERROR|CRITICAL|DEBUG)\b")
"""How a line begins that a program's logger wrote, after its time."""
_ERROR = re.compile(r"(?:\[?[\w.]{1,60}\]?[ :|-]{0,4})?\[?(?:ERROR|FATAL|CRITICAL)\b")
"""The same of one that takes it for a failure."""
_STARTING = re.compile(
    r"\binit(?:ializ\w*|ialis\w*)? (?:torch[. ])?(?:distributed|process group|parallel)|\binit_process_group\b"
    r"|rendezvous|store[_ ]based[_ ]barrier|\bMEMBER: \d+/\d+|Init START"
    r"|NCCL INFO (?:Bootstrap|NET/|NCCL version|Using network|cudaDriver|comm 0x\w+ rank \d+ n[rR]anks)"
    r"|starting (?:local )?(?:workers|worker group)|waiting for .{0,40}(?:workers?|nodes?|ranks?|clients?|peers?)"
    r"|distributed (?:init|environment)|setting (?:up|OMP_NUM_THREADS)|Using \S{1,200} as PyTorch extensions root"
    r"|spawn\w* process|entering (?:the )?barrier|Channel \d+(?:/\d+)? ?:",
    re.I,
)


_WORDS = {
    kind: tuple(word.encode() for word in words.split("|"))
    for kind, words in {
        "progress": "it |it:|it=|it[|it/|s/it|its|iter|step|epoch|batch|loss|/s|per_s|per s|%|grad|throughput",
        "end": "exit|complete|finished|done|succe|stopped:|train_runtime|return value 0",
        "starting": "init|rendezvous|barrier|member:|nccl info|starting|waiting|distributed|setting|as pytorch|spawn"
        "|channel",
        "record": "info|warn|error|critical|debug",
        "error": "error|fatal|critical",
    }.items()
}
"""Of each expression that is looked for in many lines the words of which one stands in what it finds."""


@dataclass(frozen=True)
class Ending:
    """See :class:`distdoctor.model.facts.logs.LogSource`; lines are counted from the first of the tail, from 0."""

    last: str = ""
    progress: int | None = None
    finished: int | None = None
    record: int | None = None
    over: int | None = None
    known: int | None = None
    starting: bool = False
    done: bool = False


def judge(tail: bytes) -> Ending:
    """How a log ends whose last bytes are ``tail``: looked at from its end on, until all is known."""
    last, steps, drawn, seen = "", list[int](), "", 0
    part = ahead = record = first = None
    errors: list[tuple[int, str]] = []
    tested = _TESTED.search(tail)
    done = known = tail.count(b"\n", 0, tested.start()) if tested else None
    low = tail.lower()
    open_ones = {kind: [word for word in words if word in low] for kind, words in _WORDS.items()}
    for number, piece in _pieces(tail):
        close = seen < CLOSE
        hints = open_ones if close else _hints(piece, open_ones)
        text = split(readable(piece))[1].strip() if hints or close else ""
        if len(text or piece.strip()) <= 2:
            continue
        seen += 1
        if seen > LAST or not (open_ones or close):
            break
        last = last or text
        if "progress" in hints and PROGRESS.search(text) and not (_SUMMARY.match(text) or _ERROR.match(text)):
            bar = _BAR.search(text)
            if bar is None or text[: bar.end()] != drawn:
                steps.append(number)
            drawn = text[: bar.end()] if bar else ""
        if "end" in hints and (_OVER.search(text) or (close and _DONE.search(text))) and not _BADLY.search(text):
            done = number if done is None else done
            first = first if steps else number
            known = number if known is None and _KNOWN.search(text) else known
        if part is None and close and _PART.search(text):
            part = number
        if "starting" in hints and _STARTING.search(text):
            ahead = number
        if "error" in hints and not steps and _ERROR.match(text):
            errors.append((number, text))
        if "record" in hints and RECORD.match(text):
            record = number
        for kind, found in (
            ("progress", len(steps) > 1),
            ("end", bool(steps) and done),
            ("starting", ahead),
            ("record", record),
            ("error", bool(steps)),
        ):
            if found not in (None, False):
                open_ones.pop(kind, None)
    finished = max((one for one in (done, part) if one is not None), default=None)
    starting = ahead is not None and finished is None and (not steps or ahead > steps[0])
    over = done is not None and all(one is None or one <= done for one in (steps[0] if steps else None, ahead))
    failed = next((text for number, text in reversed(errors) if known is None and number < (first or 0)), "")
    return Ending(
        (failed or last)[:300],
        steps[1] if len(steps) > 1 else None,
        finished,
        record,
        first,
        known,
        starting,
        over and not failed,
    )


def _pieces(tail: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines of ``tail``, the last one first, with their numbers; of one that was written over its last states."""
    lines = tail.split(b"\n")
    for number in range(len(lines) - 1, -1, -1):
        for piece in reversed(lines[number][-4 * CUT :].split(b"\r")[-3:]):
            yield number, piece[:CUT]


def _hints(piece: bytes, kinds: Mapping[str, Sequence[bytes]]) -> list[str]:
    """What a line may say by the words in it: most have none, and an expression costs far more than a word."""
    low = piece.lower()
    return [kind for kind, words in kinds.items() if any(word in low for word in words)]
