"""The README's picture docs/recording.svg, and the sample report as text in docs/guides/reports.md.

    python scripts/picture.py          both: check, hang and diagnose in turn, from docs/report.json and recorded runs
    python scripts/picture.py --run    make docs/report.json anew first: a real check of two hosts in the lab (root)

The report is that of two hosts whose own names mean 127.0.1.1 in /etc/hosts.
"""

from __future__ import annotations

import json
import re
import sys
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from rich.console import Console  # noqa: E402
from rich.terminal_theme import MONOKAI  # noqa: E402
from rich.text import Text  # noqa: E402

from distdoctor.cli.diagnose import judged  # noqa: E402
from distdoctor.cli.options import LogFlags  # noqa: E402
from distdoctor.judge.catalog import load  # noqa: E402
from distdoctor.logs.reading.reader import Source  # noqa: E402
from distdoctor.model.facts import decode  # noqa: E402
from distdoctor.model.report import Report  # noqa: E402
from distdoctor.render.style import Style  # noqa: E402
from distdoctor.render.text import render  # noqa: E402

RECORDING = ROOT / "docs/recording.svg"
RECORDED = {
    "distdoctor hang": "recorded/gpu/hang-barrier.json.gz",
    "distdoctor diagnose train.log": "logs/reports/barrier/rank-missing/cosyvoice-monitored-barrier-rank-2.log",
}
"""Commands of the recording after the check, each with facts or a log of a real run below tests."""
SECONDS = 7
"""How long the recording shows a screen."""
DOCUMENT, GUIDE = (ROOT / "docs" / name for name in ("report.json", "guides/reports.md"))
COMMAND = "distdoctor check --nnodes 2 --nproc-per-node 2 --master-addr host0"
WIDTH = 110
FONTS = "DejaVu Sans Mono, Menlo, Consolas, monospace"


def sample() -> Report:
    """The report in docs/report.json."""
    return decode(DOCUMENT.read_bytes(), Report)


def recording() -> str:
    """The screens of check, hang and diagnose as one SVG that shows them in turn."""
    checks, reports = load(), {COMMAND: sample()}
    for command, file in RECORDED.items():
        path = ROOT / "tests" / file
        source = Source(command.split()[-1], path)
        reports[command], _ = judged([path], checks, (), LogFlags(), whole=False, sources=[source])
    screens = [
        drawn(report, command, f"screen{number}").replace(
            'class="rich-terminal"', f'class="rich-terminal turn" style="animation-delay: {number * SECONDS}s"', 1
        )
        for number, (command, report) in enumerate(reports.items())
    ]
    sizes = [re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', screen) for screen in screens]
    width, height = (max(float(size[axis]) for size in sizes if size) for axis in (1, 2))
    sized = [
        re.sub(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', r'\g<0> width="\1" height="\2"', one, count=1) for one in screens
    ]
    share = 100 / len(screens)
    style = (
        f".turn {{ opacity: 0; animation: turn {SECONDS * len(screens)}s step-end infinite; }}\n"
        f"@keyframes turn {{ 0% {{ opacity: 1; }} {share:.2f}% {{ opacity: 0; }} }}\n"
        "@media (prefers-reduced-motion) { .turn { animation: none; } .turn:first-of-type { opacity: 1; } }"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">\n<style>\n{style}\n</style>\n'
    return head + "".join(sized) + "</svg>\n"


def drawn(report: Report, command: str, name: str) -> str:
    """The report as a terminal of WIDTH columns shows it, as SVG; the fonts are the reader's own."""
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True, color_system="standard")
    console.print(Text(f"$ {command}"), soft_wrap=True)
    # Lines to paste are never wrapped; a window that is as narrow as WIDTH folds them.
    console.print(Text.from_ansi(render(report, Style(width=WIDTH, colour=True))))
    svg = console.export_svg(title="host0", theme=MONOKAI, unique_id=name)
    svg = re.sub(r"\s*@font-face \{.*?\}\n", "\n", svg, flags=re.DOTALL)
    svg = svg.replace("font-family: Fira Code, monospace", f"font-family: {FONTS}")
    return "".join(f"{line.rstrip()}\n" for line in svg.splitlines())


def block() -> str:
    """Return the command and the report as a block of code in Markdown."""
    text = f"$ {COMMAND}\n{render(sample())}"
    return "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines())


def run() -> str:
    """The JSON of a real check in the lab."""
    from tests.lab.cases import ALL_CASES
    from tests.lab.harness.cluster import Cluster
    from tests.lab.harness.launch import Launch
    from tests.lab.harness.runner import run as start_all

    case = next(case for case in ALL_CASES if case.name == "127.0.1.1 on both")
    with Cluster(case.hosts, subnets=case.subnets, interface=case.interface) as cluster:
        launch = Launch(cluster, "unset", case.nproc)
        case.fault(launch)
        report = start_all(launch).ended[0].report
    return json.dumps(report, indent=1) + "\n"


def main() -> None:
    """Make what is asked for."""
    if sys.argv[1:] == ["--run"]:
        DOCUMENT.parent.mkdir(exist_ok=True)
        DOCUMENT.write_text(run())
    RECORDING.write_text(recording())
    before, _, _ = GUIDE.read_text().partition("    $ ")  # the sample is the end of the guide
    GUIDE.write_text(before + block())


if __name__ == "__main__":
    main()
