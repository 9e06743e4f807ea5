"""One node whose MASTER_ADDR is no name: torch fails on it, the check tells at once, and the printed fix cures both."""

from __future__ import annotations

import json

from tests.helpers.namespaces import lines_of

SCRIPT = """
import json, os, subprocess, sys, tempfile, time
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
with tempfile.NamedTemporaryFile("w", suffix=".conf") as names:  # there is no name server to ask
    names.write("hosts: files\\n")
    names.flush()
    subprocess.run(["mount", "--bind", names.name, "/etc/nsswitch.conf"], check=True)
torch = "import torch.distributed as d, datetime as t; d.init_process_group('gloo', timeout=t.timedelta(seconds=4))"
launch = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "nonsense", "MASTER_PORT": "29511"}
def run(*command, **changes):
    env = {**os.environ, **launch, "GLOO_SOCKET_IFNAME": "lo", **changes}
    began = time.monotonic()
    done = subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True, timeout=50)
    return done, time.monotonic() - began
check = ("-m", "distdoctor", "check", "--json", "--wait", "40")
done, seconds = run(*check)
report = json.loads(done.stdout)
print(json.dumps([done.returncode, seconds, [f["id"] for f in report["findings"] if f["because_of"] is None]]))
fix = report["findings"][0]["fixes"][0]
print(json.dumps([fix["env"], fix["commands"]]))
print(json.dumps([run("-c", torch)[0].returncode, run("-c", torch, **fix["env"])[0].returncode]))
done, seconds = run(*check, **fix["env"])
print(json.dumps([done.returncode, json.loads(done.stdout)["verdict"]]))
"""


def test_it_is_told_at_once_and_the_host_itself_is_the_master() -> None:
    found, fix, torch, again = map(json.loads, lines_of(SCRIPT, "--mount", "--net", tools=("mount", "ip")))
    status, seconds, roots = found
    assert (status, roots) == (1, ["network/master-unresolvable"])
    assert seconds < 30, "it waited for nobody"
    assert fix == [{"MASTER_ADDR": "127.0.0.1"}, []]
    assert (torch[0] != 0, torch[1]) == (True, 0)
    assert again[0] == 0 and again[1] in ("pass", "warn")
