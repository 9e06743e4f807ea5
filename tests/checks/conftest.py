"""Asserts of the tables' helpers show what they compared."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.checks.row")
