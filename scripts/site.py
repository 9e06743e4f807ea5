"""The documentation as a static site: the README, the guides and a page of each check, searchable.

python scripts/site.py             build/site, of mkdocs-material (pip install '.[docs]')
python scripts/site.py --sources   only the Markdown that it is made of, in build/pages
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from distdoctor.judge.catalog import Check, load  # noqa: E402
from distdoctor.model.stages import LOG_STAGES, STAGES  # noqa: E402
from distdoctor.render.check_page import messages, whole_page  # noqa: E402
from distdoctor.render.schema import schema  # noqa: E402

PAGES, SITE = ROOT / "build/pages", ROOT / "build/site"
MENU: dict[str, dict[str, str]] = {
    "Getting started": {"getting-started": "Install and first check", "reports": "Reading a report"},
    "Launchers": {
        "launchers": "All launchers",
        "torchrun": "torchrun",
        "slurm": "SLURM",
        "mpi": "MPI",
        "ssh": "Remote runs over ssh",
        "kubernetes": "Kubernetes",
        "containers": "Containers",
        "accelerate": "accelerate",
        "deepspeed": "DeepSpeed",
        "ray": "Ray",
        "vllm": "vLLM and SGLang",
        "script": "In a Python script",
    },
    "Using it": {
        "before": "Before a job",
        "during": "While it hangs",
        "after": "After it died",
        "long-runs": "Long runs",
        "ci": "CI and prologs",
        "scripts": "Exit statuses and JSON",
    },
    "Background": {
        "verdicts": "How verdicts are made",
        "trust": "Security",
        "comparison": "Comparison with other tools",
        "questions": "Questions",
        "writing-a-check": "Writing a check",
    },
}
"""The files of the guides and their titles, by the sections of the menu; that of SLURM lies beside its scripts."""
GUIDES = {name: title for section in MENU.values() for name, title in section.items()}
MOVED = {
    "docs/slurm/README.md": "guides/slurm.md",
    "docs/slurm/": "slurm/",
    "docs/kubernetes/": "kubernetes/",
    "docs/guides/": "guides/",
    "docs/validation.md": "validation.md",
}
"""Path in the repository -> path on the site."""
FEATURES = ("navigation.indexes", "navigation.top", "search.suggest", "search.highlight", "content.code.copy")
LLMS = (
    "Finds the node, link or setting that keeps a PyTorch distributed job from running: `distdoctor check` before the "
    "job, `hang` while it hangs, `diagnose` on the logs of a dead one. `-o json` has a stable schema; `distdoctor mcp` "
    "offers the commands as tools. Each page here is Markdown; the page of the site has the same name with .html."
)
EXTRA = """
[data-md-color-scheme] { --md-text-font: system-ui; --md-code-font: ui-monospace; }
.md-search-result .md-tags { display: none; }
.md-grid { max-width: 78rem; }
.md-typeset table:not([class]) code { word-break: normal; }
@media (max-width: 44em) {
  .md-typeset pre > code { white-space: pre-wrap; overflow-wrap: anywhere; padding-right: 2.5rem; }
  .md-typeset table:not([class]) :is(th, td) { min-width: 4rem; padding: .5em .6em; }
  .md-typeset table:not([class]) code { overflow-wrap: anywhere; }
}
"""


def sources(folder: Path) -> None:
    """Write all that the site is made of."""
    shutil.rmtree(folder, ignore_errors=True)
    checks = load()
    for name, source in (("index", "README"), ("CONTRIBUTING", "CONTRIBUTING"), ("CHANGELOG", "CHANGELOG")):
        put(folder / f"{name}.md", moved((ROOT / f"{source}.md").read_text()))
    for place in ("recording.svg", "slurm", "kubernetes"):
        copy(ROOT / "docs" / place, folder / ("docs" if place == "recording.svg" else ".") / place)
    copy(ROOT / "docs/validation.md", folder / "validation.md")
    put(folder / "LICENSE.txt", (ROOT / "LICENSE").read_text())
    for guide in GUIDES:
        own = ROOT / "docs/guides" / f"{guide}.md"
        text = own.read_text() if own.exists() else (ROOT / "docs" / guide / "README.md").read_text()
        text = text if own.exists() else re.sub(r"\]\((?!http)([\w.-]+)\)", rf"](../{guide}/\1)", text)
        text = text.replace("](../../", "](../").replace("](../slurm/README.md)", "](slurm.md)")
        put(folder / "guides" / f"{guide}.md", text.replace("\nSCHEMA\n", f"\n{fields()}\n"))
    put(folder / "checks/index.md", overview(checks))
    known = {check.id for check in checks}
    for check in checks:
        put(folder / "checks" / f"{check.id}.md", check_page(check, known))
    put(folder / "llms.txt", llms(checks))
    put(folder / "extra.css", EXTRA)
    put(folder.parent / "mkdocs.yml", json.dumps(configuration(folder, checks), indent=1))


def llms(checks: Iterable[Check]) -> str:
    """Return the site's index for language models (llmstxt.org): each page as Markdown, with what is in it."""
    lines = ["# distdoctor", "", f"> {LLMS}", "", "- [README](index.md): install, use, exit statuses"]
    for section, guides in MENU.items():
        lines += ["", f"## {section}", "", *(f"- [{title}](guides/{name}.md)" for name, title in guides.items())]
    lines += ["", "## Checks", "", "- [All checks](checks/index.md)"]
    lines += [f"- [{check.id}](checks/{check.id}.md): {check.title}" for check in checks]
    return "\n".join(
        [*lines, "", "## Optional", "", "- [Validation](validation.md)", "- [Changelog](CHANGELOG.md)", ""]
    )


def check_page(check: Check, known: Iterable[str]) -> str:
    """A check's page in Markdown; the ids that it names are links."""
    title, _, rest = whole_page(check).partition("\n")
    names = "|".join(sorted(map(re.escape, known), key=len, reverse=True))
    blocks = []
    for block in re.split(r"\n\s*\n", rest.strip()):
        if not block.startswith("    "):
            block = escaped(block)
            block = re.sub(rf"(?<![\w/`-])({names})(?![\w/-])", lambda found: link(found[1], check.id), block)
        blocks.append(block)
    # What stands there weighs more in a search than a title: who looks for a message is to find this page first.
    tags = "".join(f"- {json.dumps(words)}\n" for words in messages(check))
    meta = f"---\ntags:\n{tags}---\n" if tags else ""
    head = f"{meta}# {escaped(title)}\n\n`{check.id}` · {check.severity}\n\n"
    return head + "\n\n".join(blocks) + f"\n\nOn a terminal: `distdoctor explain {check.id}`\n"


def link(to: str, source: str) -> str:
    """To the page of a check from that of another."""
    return f"`{to}`" if to == source else f"[{to}](../{to}.md)"


def escaped(text: str) -> str:
    """Escape Markdown's characters outside of code; headings and lists stay."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_<>\[\]|#])", r"\\\1", part) for part in parts)


def overview(checks: Iterable[Check]) -> str:
    """All checks, by stage."""
    told = [
        "# All checks\n\nWhat can be found, by the stage that finds it. A search for an error message finds its page."
    ]
    for stage in (*STAGES, *LOG_STAGES):
        own = [check for check in checks if check.stage == stage]
        if own:
            told += [f"\n## {stage}\n\n| check | severity | what is wrong |\n|---|---|---|"]
            told += [f"| [{one.id}]({one.id}.md) | {one.severity} | {escaped(one.title)} |" for one in own]
    return "\n".join(told) + "\n"


def fields() -> str:
    """The fields of the JSON document, from its schema."""
    whole = schema()
    told = []
    for name, part in (("The document", whole), *whole["definitions"].items()):
        told += [f"## {name}\n\n{part['description']}\n\n| field | type | always | meaning |\n|---|---|---|---|"]
        for field, what in part["properties"].items():
            always = "yes" if field in part["required"] else ""
            told.append(f"| `{field}` | {kind(what)} | {always} | {escaped(what['description'])} |")
        told.append("")
    return "\n".join(told)


def kind(what: dict[str, Any]) -> str:
    """A field's type in words."""
    if "$ref" in what:
        return str(what["$ref"].rpartition("/")[2])
    if "anyOf" in what:
        return " or ".join(kind(one) for one in what["anyOf"])
    if "enum" in what:
        return ", ".join(f"`{one}`" for one in what["enum"])
    if "const" in what:
        return f"`{what['const']}`"
    return f"list of {kind(what['items'])}" if what["type"] == "array" else str(what["type"])


def moved(text: str) -> str:
    """Markdown of the repository with its links as the site has them."""
    for old, new in MOVED.items():
        text = text.replace(f"]({old}", f"]({new}")
    return text.replace("](LICENSE)", "](LICENSE.txt)")


def configuration(folder: Path, checks: Iterable[Check]) -> dict[str, Any]:
    """Return mkdocs' configuration; JSON is YAML, too."""
    by_stage: dict[str, list[Any]] = {}
    for check in checks:
        by_stage.setdefault(check.stage, []).append({check.id.partition("/")[2]: f"checks/{check.id}.md"})
    return {
        "site_name": "distdoctor",
        "site_url": "",
        "use_directory_urls": False,
        "docs_dir": str(folder),
        "site_dir": str(SITE),
        "theme": {
            "name": "material",
            "font": False,
            "features": FEATURES,
            "palette": [
                {"media": f"(prefers-color-scheme: {mode})", "scheme": scheme, "primary": "indigo"}
                for mode, scheme in (("light", "default"), ("dark", "slate"))
            ],
        },
        "extra_css": ["extra.css"],
        # Words of messages are found by their parts: addresses, names with underscores, exit codes.
        "plugins": [{"search": {"separator": r"[\s\-,:!=\[\]()\"'`/_]+|\.(?!\d)"}}],
        "markdown_extensions": ["tables", "toc", "md_in_html", "pymdownx.superfences", "pymdownx.highlight"],
        "validation": {"links": {"not_found": "warn", "anchors": "warn", "unrecognized_links": "warn"}},
        "nav": [
            {"distdoctor": "index.md"},
            *(
                {section: [{title: f"guides/{name}.md"} for name, title in guides.items()]}
                for section, guides in MENU.items()
            ),
            {"Checks": ["checks/index.md", *({stage: pages} for stage, pages in by_stage.items())]},
            {"Validation": "validation.md"},
            {"Contributing": "CONTRIBUTING.md"},
            {"Changelog": "CHANGELOG.md"},
        ],
    }


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("README.md"))
    else:
        shutil.copy(source, target)


def main() -> int:
    sources(PAGES)
    if "--sources" in sys.argv:
        return 0
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", str(PAGES.parent / "mkdocs.yml")]
    status = subprocess.run(command, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False).returncode
    if status == 0:
        for page in PAGES.rglob("*.md"):  # beside each page its Markdown
            copy(page, SITE / page.relative_to(PAGES))
        sys.stdout.write(f"{SITE / 'index.html'}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
