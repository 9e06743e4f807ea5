"""The tables of all checks' test files, for tests of what holds for every row and every look-alike."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from distdoctor.judge.engine import OF_CALLS
from tests.checks.row import LookAlike, Row

HERE = Path(__file__).parent


def file_of(check: str) -> Path:
    """The test file of this check."""
    stage, _, name = check.partition("/")
    return HERE / stage / f"test_{name.replace('-', '_')}.py"


def module_of(path: Path) -> ModuleType:
    """Return the imported test file of a check. Raises TypeError for one without tables."""
    module = import_module(f"tests.checks.{path.parent.name}.{path.stem}")
    if not all(hasattr(module, name) for name in ("CHECK", "ROWS", "LOOK_ALIKES")):
        raise TypeError(
            f"{path}: a test file of a check has CHECK, ROWS and LOOK_ALIKES; one of log lines: tests/logs/"
        )
    return module


MODULES: dict[str, ModuleType] = {
    module.CHECK: module
    for path in sorted(HERE.glob("*/test_*.py"))
    if path.parent.name not in OF_CALLS
    for module in (module_of(path),)
}
"""Check -> its test file."""

ROWS: list[tuple[str, Row]] = [(check, row) for check, module in MODULES.items() for row in module.ROWS]
LOOK_ALIKES: list[tuple[str, LookAlike]] = [(c, one) for c, module in MODULES.items() for one in module.LOOK_ALIKES]
