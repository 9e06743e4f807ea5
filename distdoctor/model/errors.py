"""Errors that are reported in one line."""

from __future__ import annotations


class UsageError(Exception):
    """Command line that cannot be carried out; the text is the one line for the user."""


class PlanError(UsageError):
    """Launch that makes no plan: every process that a launcher started reports it."""
