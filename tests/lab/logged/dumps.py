"""Flight-recorder dumps of real gloo jobs: runs them on loopback and keeps what each rank wrote."""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.helpers.servers import unused_port
from tests.lab.harness.host import clean_environment
from tests.lab.harness.recording import RECORDED, recorded
from tests.lab.logged.recorder import PLACES

DUMPS = RECORDED / "dumps"
SCENARIOS = (
    "missing", "never any", "in a group", "another operation", "another order", "another size", "another type",
    "behind", "other shapes", "healthy",
)  # fmt: skip
"""What the ranks do: see collectives.py."""
WORLD = 3


def record(scenario: str) -> None:
    """Run the job of this scenario and keep its dumps. Raises RuntimeError where two ranks wrote none."""
    script = Path(__file__).parent / "collectives.py"
    with tempfile.TemporaryDirectory() as folder:
        own = {"WORLD_SIZE": str(WORLD), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unused_port())}
        own |= {"GLOO_SOCKET_IFNAME": "lo", "TMPDIR": folder}
        command = [sys.executable, str(script), scenario, folder]
        ranks = [
            subprocess.Popen(
                command, env={**clean_environment(), **own, "RANK": str(rank)}, stderr=subprocess.DEVNULL, cwd="/"
            )
            for rank in range(WORLD)
        ]
        for rank in ranks:
            try:
                rank.wait(timeout=120)
            finally:
                rank.kill()
        files = {path.name: _neutral(path.read_bytes()) for path in sorted(Path(folder).iterdir()) if path.is_file()}
    if len(files) < 2 * (WORLD - 1):  # gloo can end the process of a rank that is sent more than it asked for
        raise RuntimeError(f"{scenario}: only {sorted(files)}")
    kept = {name: base64.b64encode(data).decode() for name, data in files.items() if data}
    DUMPS.mkdir(parents=True, exist_ok=True)
    recorded(DUMPS, scenario).write_bytes(gzip.compress(json.dumps(kept, indent=0).encode(), mtime=0))


def read(scenario: str) -> dict[str, bytes]:
    """The recorded dumps of a scenario, by file name."""
    kept = json.loads(gzip.decompress(recorded(DUMPS, scenario).read_bytes()))
    return {name: base64.b64decode(data) for name, data in kept.items()}


def _neutral(data: bytes) -> bytes:
    """A dump without this machine's folders; other texts as long, so that a pickle stays whole."""
    for place, other in sorted(PLACES.items(), key=lambda pair: -len(pair[0])):
        if len(place) > len(other):
            data = data.replace(place.encode(), other.ljust(len(place), "_").encode())
    return data


if __name__ == "__main__":
    for one in SCENARIOS if len(sys.argv) == 1 else sys.argv[1:]:
        record(one)
        sys.stdout.write(f"{one}: {os.path.getsize(recorded(DUMPS, one))} bytes\n")
