from __future__ import annotations

import json
import subprocess
import sys

RUN = """
import json
from distdoctor.launch.fanout import FanOut
from distdoctor.launch.host_list import NamedHost
from distdoctor.launch.ways import Target
ends = Target(NamedHost("gpu01"), "srun", ("sh", "-c", "exec 0<&-; echo no such name >&2; sleep 0.5; exit 255"))
one = FanOut([ends], [{}], None, lambda: bool(one.lines[0].said), setup=None, hello=20, limit=30)
(call,) = one.run()
print(json.dumps([call.outcome, call.status, call.said]))
"""


def test_what_is_told_to_a_host_whose_line_is_broken_is_no_message_of_a_library() -> None:
    """As ssh of an unknown name, which reads no more and has not ended yet. (In a process of its own: pytest takes what
    libraries log.)"""
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == ["stopped", 255, ["no such name"]]
    assert done.stderr == ""
