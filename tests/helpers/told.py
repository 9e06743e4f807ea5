"""An observer that keeps what it is told."""

from __future__ import annotations

from distdoctor.model.observer import Observer


class Told(Observer):
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)
