from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import json
from distdoctor.remote.fanout import FanOut
from distdoctor.remote.transports import NamedHost
from distdoctor.remote.transports import HostTarget
ends = HostTarget(NamedHost("gpu01"), "srun", ("sh", "-c", "exec 0<&-; echo no such name >&2; sleep 0.5; exit 255"))
one = FanOut([ends], [{}], None, lambda: bool(one.lines[0].said), setup=None, hello=20, limit=30)
(call,) = one.run()
print(json.dumps([call.outcome, call.status, call.said]))
"""


MANY = """
import json, time
from distdoctor.remote import fanout
from distdoctor.remote.transports import NamedHost
from distdoctor.remote.transports import HostTarget

class Watcher:
    def hello(self, present, left): pass
    def gone(self, host, why): pass
    def event(self, host, event): pass

fanout.AT_ONCE = 2
script = '''sleep 0.3; echo \'@distdoctor {"hello": true}\'
while read line; do case "$line" in *go*) break;; esac; done
echo \'@distdoctor {"nothing": "here"}\'; sleep 1'''
targets = [HostTarget(NamedHost(f"gpu{n}"), "kubectl", ("sh", "-c", script)) for n in range(5)]
told = []
many = fanout.FanOut(targets, [{"way": "x"}] * 5, Watcher(), lambda: False, setup=None, hello=20, limit=30,
    on_results=lambda lines, calls: told.append((time.monotonic(), [call.outcome for call in calls])))
many.run()
((at, outcomes),) = told
print(json.dumps([outcomes, time.monotonic() - at, [line.began for line in many.lines]]))
"""


BUSY = """
import json, sys
from distdoctor.remote import fanout
from distdoctor.remote.transports import NamedHost
from distdoctor.remote.transports import HostTarget

class Watcher:
    def hello(self, present, left): pass
    def gone(self, host, why): pass
    def event(self, host, event): pass

fanout.AGAIN_SECONDS = 0.2
script = '''echo x >> $0
if [ "$(wc -l < $0)" -le $1 ]; then echo "kex_exchange_identification: Connection closed" >&2; exit 255; fi
echo '@distdoctor {"hello": true}'
while read line; do case "$line" in *go*) break;; esac; done
echo '@distdoctor {"nothing": "here"}' '''
targets = [
    HostTarget(NamedHost(name), "ssh", ("sh", "-c", script, f"{sys.argv[1]}/{name}", str(turned_away)))
    for name, turned_away in (("gpu0", 1), ("gpu1", 2), ("gpu2", 9))
]
busy = fanout.FanOut(targets, [{"way": "x"}] * 3, Watcher(), lambda: False, setup=None, hello=20, limit=30)
print(json.dumps([[call.outcome, call.status, call.said] for call in busy.run()]))
"""


ENDLESS = """
import json
from distdoctor.remote import fanout, connection
from distdoctor.remote.transports import NamedHost
from distdoctor.remote.transports import HostTarget

class Watcher:
    def hello(self, present, left): pass
    def gone(self, host, why): pass
    def event(self, host, event): pass

kept = []
class Seen(fanout.FanOut):
    def ev_read(self, worker, node, sname, msg):
        kept.append(len(msg))
        super().ev_read(worker, node, sname, msg)

connection.MOST_LINE = 1 << 20
script = '''head -c 5000000 /dev/zero | tee /dev/stderr; echo
echo '@distdoctor {"hello": true}'
while read line; do case "$line" in *go*) break;; esac; done
echo '@distdoctor {"nothing": "here"}' '''
target = HostTarget(NamedHost("gpu0"), "kubectl", ("sh", "-c", script))
(call,) = Seen([target], [{"way": "x"}], Watcher(), lambda: False, setup=None, hello=20, limit=30).run()
print(json.dumps([call.outcome, max(kept)]))
"""


WITHOUT = """
import json
from distdoctor.remote import fanout
from distdoctor.remote.transports import NamedHost
from distdoctor.remote.transports import HostTarget

told = []
class Watcher:
    def hello(self, present, left): pass
    def gone(self, host, why): told.append(why[why.find("nosuchshell"):] if "nosuchshell" in why else why)
    def event(self, host, event): pass

scripts = ["exit 117", 'echo "No such command \\'remote\\'." >&2; exit 2', "echo no logins; exit 1"]
ways = ["ssh", "ssh", "ssh"]
for way in ("ssh", "kubectl"):  # a start-up file of the login shell that hands over to one that is gone
    scripts.append("exec nosuchshell -l")
    ways.append(way)
targets = [HostTarget(NamedHost(f"gpu{n}"), ways[n], ("sh", "-c", script)) for n, script in enumerate(scripts)]
calls = fanout.FanOut(targets, [{"way": "x"}] * 5, Watcher(), lambda: False, setup=None, hello=20, limit=30).run()
print(json.dumps([[call.outcome for call in calls], sorted(told)]))
"""


SLOW_HERE = """
import json, time
from distdoctor.remote import fanout
from distdoctor.remote.transports import NamedHost
from distdoctor.remote.transports import HostTarget

class Watcher:
    def hello(self, present, left): pass
    def gone(self, host, why): pass
    def event(self, host, event): pass

fanout.BEAT_SECONDS = 0.2
script = '''echo '@distdoctor {"hello": true}'
end=$((SECONDS + 4))
while [ $SECONDS -lt $end ]; do read -t 2 line || exit 129; done
echo '@distdoctor {"nothing": "here"}' '''
done = []
def meanwhile():
    time.sleep(5)
    done.append(True)
run = fanout.FanOut([HostTarget(NamedHost("gpu0"), "kubectl", ("bash", "-c", script))], [{"way": "x"}], Watcher(),
    lambda: False, setup=None, hello=20, limit=30, meanwhile=meanwhile, on_results=lambda *_: done.append("told"))
print(json.dumps([[call.outcome for call in run.run()], done]))
"""


STALLED = """
import json, time
from distdoctor.remote import fanout
from distdoctor.remote.transports import NamedHost
from distdoctor.remote.transports import HostTarget

class Watcher:
    def hello(self, present, left): pass
    def gone(self, host, why): pass
    def event(self, host, event): time.sleep(8 if "note" in event else 0)

fanout.SILENT_SECONDS = 5.0
script = '''echo '@distdoctor {"hello": true}'
while read line; do case "$line" in *go*) break;; esac; done
[ "$0" = quiet ] || echo '@distdoctor {"note": "hold this place up"}'
for turn in $(seq 20); do echo '@distdoctor {"beat": true}'; sleep 0.5; done
echo '@distdoctor {"nothing": "here"}' '''
targets = [HostTarget(NamedHost(name), "kubectl", ("sh", "-c", script, name)) for name in ("gpu0", "quiet")]
run = fanout.FanOut(targets, [{"way": "x"}] * 2, Watcher(), lambda: False, setup=None, hello=40, limit=60)
print(json.dumps([call.outcome for call in run.run()]))
"""


TWICE = """
import json, sys
from distdoctor.remote import fanout
from distdoctor.remote.transports import NamedHost
from distdoctor.remote.transports import HostTarget

class Watcher:
    def hello(self, present, left): pass
    def gone(self, host, why): pass
    def event(self, host, event): pass

script = '''printf '@distdoctor {"hello": true, "machine": "%s"}\\\\n' "$0"
while read line; do case "$line" in *go*) echo '@distdoctor {"nothing": "here"}'; exit;; *stop*) exit;; esac; done'''
names = [NamedHost(name) for name in ("gpu0", "gpu1", "alias")]
targets = [HostTarget(name, "kubectl", ("sh", "-c", script, one)) for name, one in zip(names, sys.argv[1:])]
told = []
run = fanout.FanOut(targets, [{"way": "x"}] * 3, Watcher(), lambda: False, setup=None, hello=20, limit=30,
    on_results=lambda lines, calls: told.append(len(calls)))
run.run()
print(json.dumps([run.twice, told, any(line.answered for line in run.lines)]))
"""


@pytest.mark.parametrize(
    ("machines", "twice"), [(("a", "b", "a"), True), (("a", "b", "c"), False), (("", "", ""), False)]
)
def test_two_names_of_one_machine_are_told_before_anything_is_begun(machines: tuple[str, ...], twice: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWICE, *machines], capture_output=True, text=True, timeout=60, check=True
    )
    found, told, answered = json.loads(done.stdout)
    assert (sorted(found or ()), told, answered) == ((["alias", "gpu0"], [], False) if twice else ([], [3], True))


def test_hosts_hear_of_this_place_however_long_it_takes_to_get_ready() -> None:
    """It took 10 s once to load the checks beside other work, and each host took its line for dead."""
    done = subprocess.run([sys.executable, "-c", SLOW_HERE], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == [["told"], [True, "told"]]


def test_a_place_that_is_held_up_takes_no_host_for_silent() -> None:
    """One that gets no processor, or is stopped for a moment (Ctrl-Z): what they said meanwhile is still to be read."""
    done = subprocess.run([sys.executable, "-c", STALLED], capture_output=True, text=True, timeout=90, check=True)
    assert json.loads(done.stdout) == ["told", "told"]


def test_a_host_without_distdoctor_or_where_it_fails_is_told_in_words() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == [
        ["absent", "failed", "failed", "failed", "failed"],
        [
            "No such command 'remote'.",
            "no logins",
            "nosuchshell: not found",
            "nosuchshell: not found",
            "there is no distdoctor",
        ],
    ]


def test_of_a_line_without_an_end_little_is_kept() -> None:
    """As a profile prints that says too much; what comes after it is heard."""
    done = subprocess.run([sys.executable, "-c", ENDLESS], capture_output=True, text=True, timeout=60, check=True)
    outcome, longest = json.loads(done.stdout)
    assert outcome == "told" and longest <= (1 << 20) + (1 << 16)


def test_a_host_that_takes_no_further_login_just_then_is_called_again(tmp_path: Path) -> None:
    """As sshd turns some away at random where many log in at once, all of them by one host on the way."""
    command = [sys.executable, "-c", BUSY, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    told, again, never = json.loads(done.stdout)
    assert told[0] == again[0] == "told"
    assert never == ["unreached", 255, ["kex_exchange_identification: Connection closed"]]
    assert [len((tmp_path / name).read_text().split()) for name in ("gpu0", "gpu1", "gpu2")] == [2, 3, 3]


def test_of_many_hosts_some_log_in_at_a_time_and_it_is_told_before_they_end() -> None:
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, timeout=60, check=True)
    outcomes, ended_after, began = json.loads(done.stdout)
    assert outcomes == ["told"] * 5
    assert ended_after > 0.5  # they sleep for a second when they have told
    assert began[1] - began[0] < began[2] - began[1] and began[2] - began[0] >= 0.3
    assert began[4] - began[0] >= 0.55  # two logged in, then two, then the last


def test_what_is_told_to_a_host_whose_line_is_broken_is_no_message_of_a_library() -> None:
    """As ssh of an unknown name, which reads no more and has not ended yet. (In a process of its own: pytest takes what
    libraries log.)"""
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == ["stopped", 255, ["no such name"]]
    assert done.stderr == ""
