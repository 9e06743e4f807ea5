"""Keep what a machine with a GPU brought back, so that tests can judge it again: tests/recorded/gpu.

    python tests/gpu/record.py gpu-facts.tar.gz gpu-jobs.tar.gz

The first is of tests/gpu/facts.py, the second of tests/gpu/jobs.py. Of each check and of each look at a job the
facts are kept, of each job its logs, all with the places and the ids of that machine in other words. What each must be
judged as stands in tests/recorded/test_seen_on_gpus.py: a new one fails there until it does.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.lab.harness.recording import BOOT_ID, RECORDED, slug

FOLDER = RECORDED / "gpu"
WORDS = (
    (re.compile(r'("boot_id": ")[^"]*'), rf"\g<1>{BOOT_ID}"),
    (re.compile(r"/tmp/tmp\w+/(?:gpu-jobs|gpu-facts)/"), "/mnt/run/"),
    (re.compile(r"/tmp/tmp\w+/place/"), "/opt/"),
    (re.compile(r"(?<=\W)(?:GPU-)?[0-9a-f]{8}-[0-9a-f]{4}-(?!4000-8000)[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), None),
    (re.compile(r'("serial": ")[^"]*'), r"\g<1>"),
    (re.compile(r"(?<=\d)-fc-v\d+-gpu"), "-generic"),
)


CHECKOUT = re.compile(r"(/[\w.-]+(?:/[\w.-]+)*)/(?:tests/gpu/\w+\.py|dist/distdoctor\.pyz)")


def neutral(text: str, checkout: str) -> str:
    """The text without the places of that machine; each id of a GPU becomes another one, the same everywhere."""
    if checkout:
        text = text.replace(checkout, "/opt/distdoctor")
    for pattern, words in WORDS:
        if words is not None:
            text = pattern.sub(words, text)
            continue
        found = dict.fromkeys(one.removeprefix("GPU-") for one in pattern.findall(text))
        for number, one in enumerate(found):
            text = text.replace(one, f"{number + 1:08x}-0000-4000-8000-000000000000")
    return text


def keep(name: str, document: Any) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, separators=(",", ":"), sort_keys=True) + "\n"
    (FOLDER / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def facts(name: str, files: Sequence[Path], checkout: str) -> None:
    """The facts of these files, as one document."""
    documents = [json.loads(neutral(file.read_text(), checkout)) for file in files]
    if documents:
        keep(name, {**documents[0], "facts": [one for document in documents for one in document["facts"]]})


def logs(name: str, folder: Path, checkout: str) -> None:
    """The logs of a job: its console's, or its ranks'."""
    files = sorted([*folder.glob("console.log"), *folder.glob("rank*.log"), *folder.glob("plain-*.txt")])
    if files:
        keep(name, {"files": {file.name: neutral(file.read_text(errors="replace"), checkout) for file in files}})


def main(archives: Sequence[str]) -> int:
    """Keep all that is in these archives. Gives the exit status."""
    for archive in archives:
        with tempfile.TemporaryDirectory() as place, tarfile.open(archive) as opened:
            opened.extractall(place, filter="data")
            texts = (file.read_text(errors="replace") for file in sorted(Path(place).rglob("*.txt")))
            checkout = next((found[1] for text in texts if (found := CHECKOUT.search(text)) is not None), "")
            for file in sorted(Path(place).glob("gpu-facts/*.facts.json")):
                facts(f"check-{slug(file.name.removesuffix('.facts.json'))}", [file], checkout)
            for folder in sorted(one for one in Path(place).glob("gpu-jobs/*") if one.is_dir()):
                name = slug(folder.name)
                facts(f"hang-{name}", sorted(folder.glob("hang.facts.json")), checkout)
                facts(name, sorted(folder.glob("check-*.facts.json")), checkout)
                logs(f"logs-{name}", folder, checkout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
