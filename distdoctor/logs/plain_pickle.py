"""Safe reader of pickles: nothing is imported, called or hashed, and only plain containers come out.

Python's own unpickler is safe for harmless data only: class names can be refused, but a few hundred bytes of nested
tuples keep it busy forever once one of them is a key. Here no operation costs more than its own bytes.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_BYTES = 1024 * 1024
MAX_OPERATIONS = 200_000
"""Most operations, enough for six thousand nodes; each may make an object of a hundred bytes."""


MOST_EXPANDED = 25_000_000
"""Most values that a full walk would meet, counting each reference.

torch's dumps refer to one stack from each call that it made: fifty thousand calls a hundred frames deep have about
twenty million.
"""


class BadPickle(Exception):
    """Pickle that is not plain data; the text gives the reason."""


@dataclass(slots=True)
class Pairs:
    """Dictionary as the pairs that it was made of."""

    items: list[tuple[Any, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Name:
    """Class name that is not looked up."""

    module: str
    name: str


@dataclass(slots=True)
class Made:
    """Object that would have been constructed: its class, arguments and state."""

    of: Name
    arguments: Any
    state: Any = None


class _Mark:
    """Start of a container's items on the stack."""


def load(data: bytes, names: Iterable[tuple[str, str]]) -> Any:
    """Return the content of a pickle: None, booleans, numbers, texts, bytes, lists (also for tuples and sets), and the
    classes above.

    ``names``: the only classes that may occur. Raises BadPickle.
    """
    if len(data) > MAX_BYTES:
        raise BadPickle(f"{len(data)} bytes are more than is read")
    return _run(_Machine(frozenset(names)), data, _ACTIONS, MAX_OPERATIONS)


def load_plain(data: bytes, most: int) -> Any:
    """Return the content of a pickle without classes, of any size, with at most ``most`` operations.

    Dictionaries are returned as such; their keys are plain scalars. Raises BadPickle.
    """
    return _run(_Plain(most), data, _PLAIN_ACTIONS, most)


def _run(machine: _Machine, data: bytes, actions: Mapping[str, _Action], most: int) -> Any:
    stream = io.BytesIO(data)
    try:
        for _ in range(most):
            code = stream.read(1)
            if code == b".":
                return _bounded(machine.stack.pop(), MOST_EXPANDED)
            opcode = _OPCODES.get(code.decode("latin-1"))
            name = opcode.name if opcode else repr(code)
            action = actions.get(name)
            if opcode is None or action is None:
                raise BadPickle(f"{name} in it, which is not read")
            action(machine, opcode.arg.reader(stream) if opcode.arg else None)
        raise BadPickle(f"more than {most} operations")
    except BadPickle:
        raise
    except Exception as err:
        raise BadPickle(f"not a whole pickle: {type(err).__name__}") from None


def _bounded(value: Any, most: int) -> Any:
    """Return ``value`` if a full walk meets at most ``most`` values. Raises BadPickle.

    A few hundred bytes of lists that refer to each other can stand for more values than any memory holds.
    """
    sizes: dict[int, int] = {}
    """By container, the number of values in it; 0 while it is being counted."""
    stack = [(value, False)]
    while stack:
        one, seen = stack.pop()
        inner = _inner(one)
        if inner is None:
            continue
        if seen:
            size = 1 + sum(sizes.get(id(each), 1) for each in inner)
            if size > most:
                raise BadPickle(f"its references stand for more than {most} values")
            sizes[id(one)] = size
        elif id(one) not in sizes:
            sizes[id(one)] = 0
            stack.append((one, True))
            stack.extend((each, False) for each in inner if type(each) in _CONTAINERS and each)
        elif sizes[id(one)] == 0:
            raise BadPickle("a container that holds itself")
    return value


def _inner(value: Any) -> list[Any] | None:
    """Return the values directly in a container, None for anything else."""
    if type(value) is list:
        return value
    if type(value) is dict:
        return list(value.values())
    if type(value) is Pairs:
        return [each for pair in value.items for each in pair]
    return [value.arguments, value.state] if type(value) is Made else None


_OPCODES = {opcode.code: opcode for opcode in pickletools.opcodes}


class _Machine:
    """Stack and memo of one pickle."""

    def __init__(self, names: frozenset[tuple[str, str]]) -> None:
        self.names = names
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def since_mark(self) -> list[Any]:
        items: list[Any] = []
        while (item := self.stack.pop()) is not _Mark:
            items.append(item)
        return items[::-1]

    def top(self, kind: type) -> Any:
        if type(self.stack[-1]) is not kind:
            raise BadPickle("items for what holds none")
        return self.stack[-1]

    def take(self, number: int) -> list[Any]:
        if len(self.stack) < number:
            raise BadPickle("a pickle that takes what is not there")
        taken = self.stack[-number:]
        del self.stack[-number:]
        return taken

    def extend(self, items: list[Any]) -> None:
        self.top(list).extend(items)

    def new_dict(self) -> object:
        return Pairs()

    def set_items(self, items: list[Any]) -> None:
        self.top(Pairs).items.extend(zip(items[::2], items[1::2], strict=True))

    def name(self, module: Any, name: Any) -> None:
        if (module, name) not in self.names:
            raise BadPickle(f"{str(module)[:60]}.{str(name)[:60]} in it, which is not looked up")
        self.push(Name(module, name))

    def make(self, of: Any, arguments: Any) -> None:
        if type(of) is not Name:
            raise BadPickle("a call of what is no class")
        self.push(Made(of, arguments))

    def build(self, state: Any) -> None:
        self.top(Made).state = state


class _Plain(_Machine):
    """Machine that makes real dictionaries: the cost of hashing a key is known by its type."""

    def __init__(self, most: int) -> None:
        super().__init__(frozenset())
        self.most = most

    def new_dict(self) -> object:
        return {}

    def set_items(self, items: list[Any]) -> None:
        keys = items[::2]
        if not _KEYS.issuperset(map(type, keys)):
            raise BadPickle("a key that holds others")
        self.top(dict).update(zip(keys, items[1::2], strict=True))

    def put(self, place: int) -> None:
        if place > self.most:
            raise BadPickle("a place in its memo that none needs")
        self.memo[place] = self.stack[-1]

    def make_dict(self, items: list[Any]) -> None:
        self.push({})
        self.set_items(items)


_CONTAINERS = frozenset([list, dict, Pairs, Made])
_KEYS = frozenset([type(None), bool, int, float, str, bytes])
_Action = Callable[[Any, Any], object]
_ACTIONS: dict[str, _Action] = {
    **dict.fromkeys(("PROTO", "FRAME"), lambda machine, value: None),
    **dict.fromkeys(
        ("BININT", "BININT1", "BININT2", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE", "SHORT_BINBYTES", "BINBYTES"),
        _Machine.push,
    ),
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "MARK": lambda machine, _: machine.push(_Mark),
    **dict.fromkeys(("EMPTY_LIST", "EMPTY_TUPLE", "EMPTY_SET"), lambda machine, _: machine.push([])),
    "EMPTY_DICT": lambda machine, _: machine.push(machine.new_dict()),
    "TUPLE": lambda machine, _: machine.push(machine.since_mark()),
    "TUPLE1": lambda machine, _: machine.push(machine.take(1)),
    "TUPLE2": lambda machine, _: machine.push(machine.take(2)),
    "TUPLE3": lambda machine, _: machine.push(machine.take(3)),
    "APPEND": lambda machine, _: machine.extend(machine.take(1)),
    **dict.fromkeys(("APPENDS", "ADDITEMS"), lambda machine, _: machine.extend(machine.since_mark())),
    "SETITEM": lambda machine, _: machine.set_items(machine.take(2)),
    "SETITEMS": lambda machine, _: machine.set_items(machine.since_mark()),
    "MEMOIZE": lambda machine, _: machine.memo.__setitem__(len(machine.memo), machine.stack[-1]),
    "BINPUT": lambda machine, value: machine.memo.__setitem__(value, machine.stack[-1]),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), lambda machine, value: machine.push(machine.memo[value])),
    "STACK_GLOBAL": lambda machine, _: machine.name(*machine.take(2)),
    "GLOBAL": lambda machine, value: machine.name(*value.split(" ", 1)),
    **dict.fromkeys(("NEWOBJ", "REDUCE"), lambda machine, _: machine.make(*machine.take(2))),
    "BUILD": lambda machine, _: machine.build(machine.stack.pop()),
}
"""Actions by opcode name.

There is no LONG, which can have any length, and no opcode that stores at a place of its own choice beyond 255.
"""
_OF_CLASSES = ("STACK_GLOBAL", "GLOBAL", "NEWOBJ", "REDUCE", "BUILD")
_PLAIN_ACTIONS: dict[str, _Action] = {
    **{name: action for name, action in _ACTIONS.items() if name not in _OF_CLASSES},
    **dict.fromkeys(
        ("INT", "LONG", "LONG1", "FLOAT", "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE8"),
        _Machine.push,
    ),
    "DICT": lambda machine, _: machine.make_dict(machine.since_mark()),
    "LIST": _ACTIONS["TUPLE"],
    "POP": lambda machine, _: machine.stack.pop(),
    "POP_MARK": lambda machine, _: machine.since_mark(),
    "DUP": lambda machine, _: machine.push(machine.stack[-1]),
    **dict.fromkeys(("PUT", "LONG_BINPUT"), _Plain.put),
    "GET": _ACTIONS["BINGET"],
}
"""Actions of all protocols that make plain data: torch writes protocol 2, and a rewritten dump may use any."""
