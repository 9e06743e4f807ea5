"""The documentation: a page of each check with its messages, no dead links, and examples that work."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from distdoctor import check_api
from distdoctor.cli.explain import write_page
from distdoctor.judge.catalog import SECTIONS, Check, load
from distdoctor.judge.engine import judge
from distdoctor.model.cluster import build
from distdoctor.render.check_page import messages, whole_page
from distdoctor.render.page import Page
from scripts import site
from tests.clusters.limits import on
from tests.facts_builder import CHECKS
from tests.helpers.namespaces import ROOT


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "pages"
    site.sources(folder)
    return folder


def without_code(text: str) -> str:
    return re.sub(r"(?ms)^```.*?^```$|^(?: {4}|\t).*?$", "", text)


def anchors(text: str) -> set[str]:
    """Those of the headings, as mkdocs makes them."""
    found = re.findall(r"(?m)^#+ (.+)$|^(.+)\n-{3,}$", without_code(text))
    titles = [re.sub(r"[^\w\s-]", "", "".join(one).lower()).strip() for one in found]
    return {re.sub(r"[-\s]+", "-", title) for title in titles}


def test_no_link_is_dead(pages: Path) -> None:
    texts = {path: path.read_text() for path in pages.rglob("*.md")}
    dead, checked = [], 0
    for path, text in texts.items():
        for to in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
            file, _, anchor = unquote(to).partition("#")
            if re.match(r"[a-z]+:", to):
                continue
            target = (path.parent / file).resolve() if file else path
            checked += 1
            if not target.exists() or (anchor and anchor not in anchors(texts.get(target, ""))):
                dead.append((path.name, to))
    assert dead == [] and checked > 500


def test_a_dead_link_would_be_seen(pages: Path) -> None:
    assert "adding-a-check" in anchors((pages / "CONTRIBUTING.md").read_text())
    assert "no-such-part" not in anchors((pages / "CONTRIBUTING.md").read_text())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_each_check_has_its_page_with_its_messages(pages: Path, check: Check) -> None:
    page = (pages / "checks" / f"{check.id}.md").read_text()
    assert all(f"`{words}`" in page for words in messages(check))
    assert f"({check.id}.md)" in (pages / "checks/index.md").read_text()
    for title in SECTIONS:
        assert f"\n{title}\n" + "-" * len(title) in page


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_on_a_terminal_of_80_columns_it_can_be_read(check: Check) -> None:
    """But for what is there to be copied: lines that are set in, and what stands between backticks."""
    page = Page(80)
    write_page(page, whole_page(check))
    long = [line for line in page.plain().splitlines() if len(line) > 80 and not line.startswith("    ")]
    assert [line for line in long if not re.match(r"(?:- )?\S*`[^`]{60,}`\S*$", line.strip())] == []
    words = re.sub(r"\s+", " ", page.plain())
    assert all(message in words for message in messages(check)), "it says what the site says"


def test_every_guide_is_in_the_menu_and_the_other_way_round(pages: Path) -> None:
    assert {path.stem for path in (pages / "guides").iterdir()} == set(site.GUIDES)
    assert {path.stem for path in (ROOT / "docs/guides").iterdir()} == set(site.GUIDES) - {"slurm"}
    assert "| `schema_version` | `1` | yes |" in (pages / "guides/scripts.md").read_text()
    assert "SCHEMA" not in (pages / "guides/scripts.md").read_text()


def test_the_index_for_language_models_has_every_page(pages: Path) -> None:
    listed = re.findall(r"\]\(([^)]+)\)", (pages / "llms.txt").read_text())
    assert all((pages / page).is_file() for page in listed) and len(set(listed)) == len(listed)
    assert {path.relative_to(pages).as_posix() for path in pages.rglob("*.md")} - set(listed) == {"CONTRIBUTING.md"}


def test_what_is_no_markdown_is_not_taken_for_it() -> None:
    assert site.escaped("NCCL_* and `NCCL_*` [x] <y>") == r"NCCL\_\* and `NCCL_*` \[x\] \<y\>"


def test_the_check_that_is_shown_works(tmp_path: Path) -> None:
    guide = (ROOT / "docs/guides/writing-a-check.md").read_text()
    code, *of_variables = re.findall(r"(?ms)^```python\n(.*?)^```", guide)
    apart = [replace(one, variables={"SITE_QUEUE": value}) for one, value in zip(on(()), ("fast", "slow"), strict=True)]
    assert len(of_variables) == 2
    for example in of_variables:
        names: dict[str, Any] = {**vars(check_api), "Iterator": Iterator}
        exec(example, names)
        (found,) = names["judge"](build(apart))
        assert "host1" in found.nodes
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "loader_files.py").write_text(code)
    (check,) = (one for one in load([tmp_path]) if one.id == "host/loader-files")
    enough, few = on((0, 1), open_files=65536), on((0, 1), open_files=1024)
    findings = judge(build((enough[0], few[1])), [check]).findings
    assert [(one.severity, one.nodes) for one in findings] == [("warn", ("host1",))]
    assert findings[0].fixes[0].commands == ("ulimit -n 65536",)
    assert judge(build(enough), [check]).findings == ()


@pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="mkdocs-material is not installed")
def test_mkdocs_has_nothing_to_say_against_it() -> None:
    done = subprocess.run([sys.executable, "scripts/site.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (site.SITE / "search/search_index.json").stat().st_size > 100_000
    assert not re.findall(r'(?:src=|<link[^>]*href=)"(?:https?:)?//', (site.SITE / "index.html").read_text())


@pytest.mark.scoreboard
def test_the_site_is_built_without_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mkdocs", reason="pip install '.[docs]'")
    monkeypatch.setattr(site, "PAGES", tmp_path / "pages")
    monkeypatch.setattr(site, "SITE", tmp_path / "site")
    monkeypatch.setattr(sys, "argv", ["site.py"])
    assert site.main() == 0
    page = (tmp_path / "site/checks/nccl/init-failed.html").read_text()
    assert "NCCL cannot form its process group" in page
    assert (tmp_path / "site/checks/nccl/init-failed.md").exists() and (tmp_path / "site/llms.txt").exists()
