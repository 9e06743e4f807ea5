"""How a log ends: with the steps of a job that works, with its end, or in the middle of starting up."""

from __future__ import annotations

import re
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
    r"|\b(?:Job)?State[:=] ?COMPLETED\b|\(SUCCEEDED\)"
    r"|\b(?:worker group|job|run|training) (?:has |was |is )?(?:successfully (?:finished|completed)"
    r"|(?:finished|completed) successfully|succeeded)\b"
    r"|\bfit\W{1,3}stopped: \W?max_(?:epochs|steps|time)=|^\W{0,8}(?:training|fine-?tuning) (?:is |has |was )?"
    r"(?:complete[d]?|finished|done)\b(?!.{0,20}\bepoch)",
    re.I,
)
"""The job is done, and no part of it, wherever in the tail it stands."""
_DONE = re.compile(
    r"\b(?:training|job|run|fine-?tuning|everything|all)\b.{0,30}\b(?<! to )"
    r"(?:complete[d]?|finished|done(?! waiting)|succe\w+|ended)\b"
    r"|^(?:all )?(?:done|finished|success)[.!]?$|\bsaved? (?:the )?final (?:model|checkpoint)"
    r"|\bdestroy(?:ed|ing)? (?:the )?process group|finished successfully|exit(?:ed)?(?: with)? code:? 0\b",
    re.I,
)
"""The job is done."""
_PART = re.compile(
    r"\bevaluation\b.{0,30}\b(?:complete[d]?|finished|done|succe\w+|ended)\b"
    r"|\bsaved? (?:the )?(?:model|checkpoint)|\bBest (?:accuracy|model|val)",
    re.I,
)
"""A part of it is."""
CLOSE = 15
"""Lines of the end in which less clear words count."""
_SUMMARY = re.compile(r"wandb: ")
"""How a line begins that tells again, after the run, how its steps went."""
RECORD = re.compile(r"(?:[\w.]{1,60}[ :|-]{1,4})?(?:INFO|WARN(?:ING)?|ERROR|CRITICAL|DEBUG)\b")
"""How a line begins that a program's logger wrote, after its time."""
_STARTING = re.compile(
    r"\binit(?:ializ\w*|ialis\w*)? (?:torch[. ])?(?:distributed|process group|parallel)|\binit_process_group\b"
    r"|rendezvous|store[_ ]based[_ ]barrier|\bMEMBER: \d+/\d+|Init START"
    r"|NCCL INFO (?:Bootstrap|NET/|NCCL version|Using network|cudaDriver|comm 0x\w+ rank \d+ n[rR]anks)"
    r"|starting (?:local )?(?:workers|worker group)|waiting for .{0,40}(?:workers?|nodes?|ranks?|clients?|peers?)"
    r"|distributed (?:init|environment)|setting (?:up|OMP_NUM_THREADS)|Using \S{1,200} as PyTorch extensions root"
    r"|spawn\w* process|entering (?:the )?barrier|Channel \d+(?:/\d+)? ?:",
    re.I,
)


@dataclass(frozen=True)
class Ending:
    """See :class:`distdoctor.model.facts.logs.LogSource`; lines are counted from the first of the tail, from 0."""

    last: str = ""
    progress: int | None = None
    finished: int | None = None
    record: int | None = None
    starting: bool = False
    done: bool = False


def judge(tail: bytes) -> Ending:
    """How a log ends whose last bytes are ``tail``."""
    texts: list[tuple[int, str]] = []
    for number, raw in enumerate(tail.split(b"\n")):
        for piece in raw[-4 * CUT :].split(b"\r")[-3:]:
            text = split(readable(piece[:CUT]))[1].strip()
            if len(text) > 2:
                texts.append((number, text))
    texts = texts[-LAST:]
    if not texts:
        return Ending()
    said = [number for number, text in texts if _OVER.search(text)]
    steps = [number for number, text in texts if PROGRESS.search(text) and not _SUMMARY.match(text)]
    done = sorted({*said, *(number for number, text in texts[-CLOSE:] if _DONE.search(text))})
    ends = sorted({*done, *(number for number, text in texts[-CLOSE:] if _PART.search(text))})
    ahead = [number for number, text in texts if _STARTING.search(text)]
    progress = steps[-2] if len(steps) > 1 else None
    finished = ends[-1] if ends else None
    starting = bool(ahead) and finished is None and (not steps or ahead[-1] > steps[-1])
    record = next((number for number, text in reversed(texts) if RECORD.match(text)), None)
    over = bool(done) and all(not after or after[-1] <= done[-1] for after in (steps, ahead))
    return Ending(texts[-1][1][:300], progress, finished, record, starting, over)
