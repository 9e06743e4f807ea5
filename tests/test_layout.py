"""The map of the house: packages on floors, imports only downward, no circle, few complex functions."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "distdoctor"
FLOORS = (
    {"model"},
    {"knowledge", "plan"},
    {"judge", "remote"},
    {"check_api", "probes", "render", "logs"},
    {"store", "mesh", "ranks"},
    {"session", "hang", "job"},
    {"cli"},
)
"""From the ground up. A module may import from its own package and from the floors below; packages of one floor know
nothing of each other. What lies flat in distdoctor/ (streams, signals, sys.path) may be imported by all."""
PUBLIC = {"job.api"}
"""Modules that the package itself re-exports."""
FLAT = {"__init__", "__main__", "interrupts", "own_path", "streams"}


def floor_of(package: str) -> int:
    return next(number for number, packages in enumerate(FLOORS) if package in packages)


def imports(path: Path) -> set[str]:
    """The modules of distdoctor that a file imports, also below its functions, as ``package.module``."""
    found = set()
    for item in ast.walk(ast.parse(path.read_text())):
        if isinstance(item, ast.ImportFrom) and item.module and item.module.partition(".")[0] == "distdoctor":
            module = item.module.partition(".")[2]
            for alias in item.names:
                whole = f"{module}.{alias.name}".strip(".")
                found.add(whole if (PACKAGE / f"{whole.replace('.', '/')}.py").exists() else module)
        elif isinstance(item, ast.Import):
            assert not any(alias.name.startswith("distdoctor.") for alias in item.names), path
    return found - {""}


def modules() -> dict[str, Path]:
    names = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in names.items()}


def test_few_modules_lie_flat() -> None:
    assert {path.stem for path in PACKAGE.glob("*.py")} == FLAT


def test_every_package_has_its_floor() -> None:
    assert {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")} - {
        f"{name}.py" for name in FLAT
    } == set().union(*FLOORS)


def test_exceptions_from_the_limit_of_complexity_only_shrink() -> None:
    """Ruff's C901 allows 15 branches; what is excused below is to be simplified, not copied."""
    folders = ("distdoctor", "checks", "tests", "scripts", "benchmarks")
    mark = "noqa: " + "C901"
    marked = [path for name in folders for path in ROOT.glob(f"{name}/**/*.py") if mark in path.read_text()]
    assert len(marked) <= 2


def test_imports_go_down() -> None:
    for name, path in modules().items():
        package, dot, _ = name.partition(".")
        if not dot and path.name != "__init__.py":
            continue
        for other in imports(path):
            target, inside, _ = other.partition(".")
            if target == package or (not inside and target in FLAT) or (name == "__init__" and other in PUBLIC):
                continue
            assert floor_of(target) < floor_of(package), f"{path} imports {other}"
            assert target != "check_api", f"{path} imports {other}, which is for checks alone"


def test_no_circle() -> None:
    graph = {name: imports(path) for name, path in modules().items()}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"a circle: {' -> '.join((*above, name))}"
        if name not in done:
            for other in sorted(graph.get(name, ())):
                if other != name:
                    visit(other, (*above, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())


def test_a_run_of_check_is_built_on_few_floors() -> None:
    """The longest chain of imports within session/."""
    graph = {name: imports(path) for name, path in modules().items() if name.partition(".")[0] == "session"}

    def height(name: str) -> int:
        return 1 + max((height(other) for other in graph[name] & graph.keys() if other != name), default=0)

    assert max(map(height, graph)) <= 8
