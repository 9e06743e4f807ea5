"""Which expressions of a check are safe on hostile input: none that can take more than quadratic time."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

try:
    parser: Any = import_module("re._parser")  # from Python 3.11
    constants: Any = import_module("re._constants")
except ImportError:
    parser, constants = import_module("sre_parse"), import_module("sre_constants")

MANY = 64
"""A repetition of so much or less is not counted as one."""


def hazard(pattern: str) -> str:
    """What is wrong with ``pattern``, empty where nothing is: an expression that does not compile, or a long
    repetition within a long repetition."""
    try:
        re.compile(pattern)
        tree = parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as err:
        return f"is no expression: {err}"
    return "repeats what repeats: it can take for ever" if _nested(tree, 0) else ""


def _nested(tree: Any, depth: int) -> bool:
    for operation, argument in tree:
        if operation in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            _, most, inner = argument
            many = most == constants.MAXREPEAT or most > MANY
            if (many and depth) or _nested(inner, depth + many):
                return True
        elif operation == constants.SUBPATTERN:
            if _nested(argument[-1], depth):
                return True
        elif operation == constants.BRANCH:
            if any(_nested(branch, depth) for branch in argument[1]):
                return True
        elif operation in (constants.ASSERT, constants.ASSERT_NOT) and _nested(argument[1], depth):
            return True
    return False
