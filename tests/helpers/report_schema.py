"""Every report that the tests see is held against the schema that ``distdoctor schema`` prints."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from typing import Any

from distdoctor.render import json as json_renderer
from distdoctor.render.schema import schema


def strict() -> dict[str, Any]:
    """The schema of what this version itself writes: each field is there, and no other."""
    whole = schema()
    for part in (whole, *whole["definitions"].values()):
        part["required"] = list(part["properties"])
        part["additionalProperties"] = False
    return whole


def validator(of: dict[str, Any]) -> Callable[[Any], Any]:
    """Raises ValueError (fastjsonschema's own) of what is not so; without that library it takes everything."""
    if importlib.util.find_spec("fastjsonschema") is None:  # an environment made before it was among the tools
        return lambda document: document
    import fastjsonschema

    compiled: Callable[[Any], Any] = fastjsonschema.compile(of)
    return compiled


_compare = validator(strict())
_document = json_renderer.document


def valid(document: Any) -> Any:
    """The document, which is as this version writes it."""
    try:
        return _compare(document)
    except ValueError as err:
        raise AssertionError(f"not as `distdoctor schema` says: {err}") from None


def report_in(text: str | bytes) -> Any:
    """The report that a program printed. Raises ValueError where that is no JSON."""
    return valid(json.loads(text))


def watch() -> None:
    """From now on each report that this process makes into JSON is held against it, too."""
    json_renderer.document = lambda report: _checked(_document(report))


def _checked(document: dict[str, Any]) -> dict[str, Any]:
    valid(json.loads(json.dumps(json_renderer.plain(document))))
    return document
