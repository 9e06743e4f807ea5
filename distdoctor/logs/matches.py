"""The lines that are known: the same from the same speaker in one file is one."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import replace

from distdoctor.logs.places import Places
from distdoctor.model.facts.logs import Match
from distdoctor.model.sanitize import clean, encodable

MOST = 20_000
"""Different lines that are kept."""
SHOWN = 400
"""Characters of a line that are kept."""


class Matches:
    """Those of all files."""

    def __init__(self, order: int = 0) -> None:
        self.order = order
        self._known: dict[tuple[object, ...], Match] = {}

    def keep(self, match: Match) -> None:
        self.order += 1
        text = clean(encodable(match.text.strip()))[:SHOWN]
        who = match.who
        kind = re.sub(r"\d+|0x[0-9a-f]+", "0", text)[:160]
        key = (
            match.check,
            match.shows,
            match.exception,
            replace(who, pid=None, time=None),
            kind,
            match.ranks,
            match.source,
            match.values.get("try"),
            match.values.get("after"),
            match.values.get("pid"),
            match.values.get("well"),
            match.values.get("launched"),
        )
        known = self._known.get(key)
        if known is not None:
            # One line may show the same in two ways.
            again = known.values.get("last_line", str(known.line)) != str(match.line)
            values = {**known.values, "last_line": str(match.line)}
            self._known[key] = replace(known, count=known.count + again, values=values)
        elif len(self._known) < MOST:
            values = {name: clean(encodable(value))[:SHOWN] for name, value in match.values.items()}
            self._known[key] = replace(match, text=text, values=values, order=self.order)

    def all(self, places: Mapping[str, Places]) -> tuple[Match, ...]:
        """Each with the rank and the host that its file tells by its other lines.

        In a file labelled by tasks these are ranks, unless a line of one says that it is from another rank.
        """
        labelled = [match for match in self._known.values() if match.who.task is not None]
        launchers = {match.source for match in labelled if match.who.rank not in (None, match.who.task)}
        launchers |= {source for source, place in places.items() if place.agents}
        told = (_task_as_rank(match, launchers) for match in self._known.values())
        return tuple(places[match.source].of(match) if match.source in places else match for match in told)


def _task_as_rank(match: Match, launchers: Container[str]) -> Match:
    who = match.who
    if who.task is None or match.source in launchers or who.rank is not None or who.local_rank is not None:
        return match
    return replace(match, who=replace(who, rank=who.task))
