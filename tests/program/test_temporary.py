"""Without a folder for temporary files torchrun ends before it starts a rank, and a check must not pass."""

from __future__ import annotations

import json
import sys

from tests.helpers.namespaces import lines_of

SCRIPT = """
import json, os, subprocess, sys
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
work = "/mnt"
subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", work], check=True)
for place in ("/tmp", "/var/tmp", "/usr/tmp"):  # what lies there, such as this checkout, is still to be read
    if os.path.isdir(place):
        subprocess.run(["mount", "--rbind", place, place], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
env = {name: value for name, value in os.environ.items() if name not in ("TMPDIR", "TEMP", "TMP", "HOME")}
def run(*command, **more):
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=work, env={**env, **more}, capture_output=True, text=True, timeout=50
    )
check = ("distdoctor", "check", "--nproc-per-node", "2", "--json")
report = json.loads(run(*check, "--until", "host").stdout)
print(json.dumps([(f["id"], f["severity"], f["fixes"][0]["env"]) for f in report["findings"]]))
torchrun = ("torch.distributed.run", "--nproc-per-node", "1", "--master-port", "29511", "-m", "this")
for more in ({}, report["findings"][0]["fixes"][0]["env"]):
    done = run(*torchrun, **more)
    print(json.dumps([done.returncode, "usable temporary directory" in done.stderr]))
again = run(*check, **report["findings"][0]["fixes"][0]["env"])
print(json.dumps([again.returncode, [f["id"] for f in json.loads(again.stdout)["findings"]]]))
"""


def test_torchrun_ends_at_once_and_the_printed_folder_cures_it() -> None:
    found, before, after, again = map(json.loads, lines_of(SCRIPT, "--mount", "--net", tools=("mount", "ip")))
    assert found == [["host/temporary-folder", "fail", {"TMPDIR": "/dev/shm"}]], (sys.version, found)
    assert before == [1, True]
    assert after == [0, False]
    assert again[0] == 0 and "host/temporary-folder" not in again[1], again
