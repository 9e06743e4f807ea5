"""In which collective each rank lost the others, or waited for them in vain, by the tracebacks of all of them.

Ranks that call the same collectives in the same order do so in the same one. Two exceptions: who is the root of a
broadcast, or gives its part of a reduce, is ahead of those that still wait for another in it, and who comes late finds
the others gone. So calls with a root count only where every rank waited in vain.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from distdoctor.logs.exits import LOST
from distdoctor.logs.rank_list import rank_list
from distdoctor.model.facts.logs import Match

_IN = re.compile(
    r"/distributed_c10d\.py:\d{1,7} in (?P<call>\w{1,60})$"
    r"|/autograd/(?:graph|__init__)\.py:\d{1,7} in (?P<engine>_engine_run_backward|backward)$"
)
_FRAME = re.compile(r'File "(?P<folder>[^"\n]{0,400}?)(?P<file>[^/"\n]{1,100})", line (?P<line>\d{1,7}), in ')
_ALL = ("all_reduce", "barrier", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor")
"""None of them ends anywhere before all ranks have called it."""
_BACKWARD = "all_reduce in backward"
"""What DistributedDataParallel does with the gradients."""
_ROOTED = ("broadcast", "reduce", "gather", "scatter")


def call_of(frame: str, frames: str) -> dict[str, str]:
    """Which ``collective`` a traceback ends in whose innermost frame is ``frame``, and where the program has called it
    (``called_at``); empty for none."""
    found = _IN.search(frame.replace("\\", "/"))
    call = "" if found is None else _BACKWARD if found["engine"] else found["call"]
    if call not in (*_ALL, *_ROOTED, _BACKWARD):
        return {}
    own = [match for match in _FRAME.finditer(frames.replace("\\", "/")) if "/torch/" not in match["folder"]]
    return {"collective": call, "called_at": f" ({own[-1]['file']}:{own[-1]['line']})" if own else ""}


def compared(matches: Iterable[Match], ranks: Mapping[int, str]) -> list[str]:
    """Who called something else than the others, where of all ``ranks`` (each with its host) it is known what they
    called; else of whom nothing is known while all others wait in one."""
    calls: dict[int, str] = {}
    told: dict[str, str] = {}
    waited = set()
    for match in matches:
        rank, lost = match.who.rank, LOST.search(match.text)
        if rank is not None and lost is not None and "collective" in match.values:
            call = calls[rank] = match.values["collective"]  # of the last try
            told[call] = f"{call}{match.values.get('called_at', '')}"
            waited |= set() if lost["gone"] else {rank}
    if not waited or not calls.keys() <= {*ranks}:
        return []
    (usual, most), *others = Counter(calls.values()).most_common()
    silent = sorted({*ranks} - calls.keys())
    if silent:
        waiting = f"calls: {rank_list(sorted(calls))} wait in {told[usual]}"
        alike = not others and len(silent) < len(calls)
        return [f"{waiting}; of {rank_list(silent)}{_on(silent, ranks)} nothing is here"] if alike else []
    if len(others) != 1 or (waited != calls.keys() and not {*calls.values()} <= {*_ALL, _BACKWARD}):
        return []
    rare, few = others[0]
    apart, rest = (sorted(rank for rank, call in calls.items() if call == kind) for kind in (rare, usual))
    if few == most:
        which = f"{rank_list(apart)} called {told[rare]}, {rank_list(rest)} {told[usual]}"
        return [f"calls: {rank_list(sorted(calls))} differ: {which}"]
    return [f"calls: {rank_list(apart)}{_on(apart, ranks)} called {told[rare]}, the others {told[usual]}"]


def _on(those: Iterable[int], ranks: Mapping[int, str]) -> str:
    """The host of those ranks, where it is one."""
    hosts = {ranks[rank] for rank in those}
    return f" on {next(iter(hosts))}" if len(hosts) == 1 and "" not in hosts else ""
