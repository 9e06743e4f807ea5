"""The state of torchrun's c10d rendezvous, as its agents keep it in the endpoint's store.

elastic/rendezvous/c10d_rendezvous_backend.py: the value is base64 of a pickle of dynamic_rendezvous._RendezvousState.
Times are naive UTC until torch 2.5 and aware from 2.6 on.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, TypeVar

from distdoctor.logs.plain_pickle import MAX_BYTES, BadPickle, Made, Name, Pairs, load
from distdoctor.model.facts import AgentView, RendezvousView
from distdoctor.model.sanitize import fit

T = TypeVar("T")
NOTHING_YET = b"Y2FuaW1hZGFt"
"""What the first agent puts there before there is a state."""
MAX_VALUE = MAX_BYTES // 3 * 4
MAX_AGENTS = 20_000
_TORCH = "torch.distributed.elastic.rendezvous.dynamic_rendezvous"
_NAMES = (
    (_TORCH, "_RendezvousState"),
    (_TORCH, "_NodeDesc"),
    *(("datetime", name) for name in ("datetime", "timezone", "timedelta")),
)
_DATETIME_BYTES = 10


def decode(run_id: str, value: bytes, now: datetime) -> RendezvousView:
    """What ``value`` says; ``problem`` says where it is no such state."""
    view = RendezvousView(run_id)
    if value == NOTHING_YET:
        return view
    try:
        state = load(base64.b64decode(value, validate=True), _NAMES)
        return _view(view, _fields(state, "_RendezvousState"), now)
    except binascii.Error:
        return replace(view, problem="not base64")
    except BadPickle as err:
        return replace(view, problem=str(err))


def _view(view: RendezvousView, state: dict[str, Any], now: datetime) -> RendezvousView:
    complete = _of(bool, state.get("complete"))
    participants = _of(Pairs, state.get("participants")).items[:MAX_AGENTS]
    beats = _of(Pairs, state.get("last_heartbeats")).items[:MAX_AGENTS]
    ages = {_node(key)[:3]: (now - _moment(value)).total_seconds() for key, value in beats}

    def agent(key: Any, rank: int | None = None) -> AgentView:
        host, pid, local = _node(key)
        age = ages.get((host, pid, local))
        return AgentView(rank, host=host, pid=pid, heartbeat_age=None if age is None else round(age, 1))

    waiting = [*_of(list, state.get("wait_list")), *_of(list, state.get("redundancy_list") or [])][:MAX_AGENTS]
    return RendezvousView(
        view.run_id,
        round=_number(state.get("round")),
        complete=complete,
        closed=_of(bool, state.get("closed")),
        agents=tuple(
            sorted(
                (agent(key, _number(rank) if complete else None) for key, rank in participants),
                key=lambda one: (one.node or 0, one.host, one.pid or 0),
            )
        ),
        waiting=tuple(agent(key) for key in waiting),
    )


def _fields(value: Any, name: str) -> dict[str, Any]:
    """The attributes of an object of the class ``name``."""
    made = _of(Made, value)
    state = made.state
    if isinstance(state, list) and len(state) == 2:  # (those in __dict__, those in __slots__)
        state = state[0] if state[0] is not None else state[1]
    if made.of.name != name:
        raise BadPickle(f"a {made.of.name} where a {name} belongs")
    return {key: item for key, item in _of(Pairs, state).items if isinstance(key, str)}


def _node(value: Any) -> tuple[str, int, int]:
    fields = _fields(value, "_NodeDesc")
    return fit(_of(str, fields.get("addr"))), _number(fields.get("pid")), _number(fields.get("local_id"))


def _moment(value: Any) -> datetime:
    """A datetime: of its ten bytes (datetime.__reduce__), in UTC whatever zone it names (torch writes no other)."""
    made = _of(Made, value)
    arguments = _of(list, made.arguments)
    packed = arguments[0] if arguments else None
    if made.of != Name("datetime", "datetime") or not isinstance(packed, bytes) or len(packed) != _DATETIME_BYTES:
        raise BadPickle("a time that is none")
    month, day, hour, minute, second = packed[2:7]
    year, micro = int.from_bytes(packed[:2], "big"), int.from_bytes(packed[7:], "big")
    try:
        return datetime(year, month, day, hour, minute, second, micro, timezone.utc)
    except ValueError as err:
        raise BadPickle(f"a time that is none: {err}") from None


def _number(value: Any) -> int:
    return int(_of(int, value))


def _of(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise BadPickle(f"a {type(value).__name__} where a {kind.__name__} belongs")
    return value
