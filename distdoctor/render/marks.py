"""The marks before a line, and the colours, by severity, status and verdict."""

from __future__ import annotations

MARKS = {"pass": "✓", "warn": "!", "fail": "✗", "skip": "-", "error": "✗", "info": "i"}
ASCII_MARKS = {"pass": "ok", "warn": "!!", "fail": "XX", "skip": "--", "error": "XX", "info": "i "}
STYLES = {
    "pass": "green",
    "warn": "yellow",
    "fail": "bold red",
    "skip": "dim",
    "error": "bold red",
    "info": "cyan",
    "incomplete": "bold yellow",
}
