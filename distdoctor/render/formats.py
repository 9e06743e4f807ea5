"""The output formats: each a renderer, all with one signature.

A new format is a module with ``render(report, style)`` and a line in FORMATS: what ``--output`` takes, its help and
what a shell completes come from there. A renderer is imported when it is used: ``--help`` is quick.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distdoctor.model.report import Report
    from distdoctor.render.style import Style

Renderer = Callable[["Report", "Style"], str]
"""The whole of what is written to stdout, with a newline at its end."""


def _text(report: Report, style: Style) -> str:
    from distdoctor.render import text

    return text.render(report, style)


def _json(report: Report, style: Style) -> str:
    from distdoctor.render import json

    return json.render(report, style)


FORMATS: dict[str, Renderer] = {"text": _text, "json": _json}
"""By the name that ``--output`` takes; the first is the usual one."""
USUAL = next(iter(FORMATS))
