"""The output formats: each a renderer, all with one signature.

A new format is a module of this package with ``render(report, style)`` and a line in FORMATS: what ``--output`` takes,
its help and what a shell completes come from there. A renderer is imported when it is used: ``--help`` is quick.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from distdoctor.model.report import Report
    from distdoctor.render.style import Style

Renderer = Callable[["Report", "Style"], str]
"""Function that returns the whole output, with a newline at its end."""


def _of(module: str) -> Renderer:
    def render(report: Report, style: Style) -> str:
        return cast(Renderer, import_module(f"distdoctor.render.{module}").render)(report, style)

    return render


FORMATS: dict[str, Renderer] = {
    name: _of(name) for name in ("text", "json", "html", "markdown", "junit", "github", "nagios", "prometheus")
}
"""By the name that ``--output`` takes, which is the renderer's module; the first is the usual one."""
USUAL = next(iter(FORMATS))
