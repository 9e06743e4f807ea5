"""Errors that a person is told in one line."""

from __future__ import annotations


class UsageError(Exception):
    """A command line that cannot be carried out; the text is the one line for the user."""


class PlanError(UsageError):
    """The same where it is the launch that makes no plan: every process that a launcher started says so."""
