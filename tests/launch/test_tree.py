"""Hosts that are reached over others: as if each had been called from here, whatever becomes of those on the way.

The relays are real; ``ssh`` is a script that runs what it is to run here, as the host of that name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distdoctor.launch import tree, ways
from distdoctor.launch.host_list import NamedHost
from distdoctor.launch.line import Line
from distdoctor.launch.relay import ssh_to
from distdoctor.launch.ways import Target
from distdoctor.launch.wire import packed

SSH = r"""#!/bin/bash
folder=$(dirname "$0") over=$OVER
for command in "$@"; do
  case $command in --) name=next ;; *) [ "$name" != next ] || name=$command ;; esac
done
if [ "$1" = -G ]; then
  printf 'hostname %s\nuser me\nport 22\n' "192.0.2.${3#gpu}"
  exit
fi
if [[ "$*" = *ConnectTimeout=3* && "$*" != *HostName=* ]]; then
  export OVER=$name
  echo $$ > "$folder/relay-$name"
  [ ! -e "$folder/no-relay-$name" ] || exec sleep 20
  eval "exec $command"
fi
echo "$name over ${over:-here}" >> "$folder/calls"
for broken in "$folder/down-$name" "$folder/down-$name-over-$over"; do
  [ ! -e "$broken" ] || { echo "ssh: $name: no way" >&2; exit 255; }
done
. "$folder/host"
"""
HOST = r"""
if [ -e "$folder/ends-relay-$name" ]; then  # before it says hello itself: nobody has begun
  until grep -q "gpu2 over gpu1" "$folder/calls" && grep -q "gpu3 over gpu1" "$folder/calls"; do sleep 0.1; done
  sleep 0.3
  kill -9 "$(cat "$folder/relay-gpu1")"
  sleep 0.5
fi
echo "Welcome to $name"; echo "a banner" >&2
machine=$name
for other in "$folder/is-$name" "$folder/is-$name-over-$over"; do [ ! -e "$other" ] || machine=gpu0; done
printf '@distdoctor {"hello": true, "distdoctor": "1", "machine": "%s"}\n' "$machine"
while read -r line || exit 129; do
  case $line in *'"go"'*) break ;; *'"stop"'*) exit 3 ;; esac
done
if [ -e "$folder/kills-$over" ]; then
  rm "$folder/kills-$over"
  kill -9 "$(cat "$folder/relay-$over")"
  read -r line; exit 129
fi
if [ -e "$folder/held-$name" ]; then
  while read -r line; do
    case $line in *'"stop"'*) exit 3 ;; esac
    echo '@distdoctor {"beat": true}'
  done
  exit 129
fi
echo '@distdoctor {"nothing": "here"}'
"""
RUN = """
import json, sys
from distdoctor.cli import one_place
from distdoctor.launch import fanout, ways
from distdoctor.launch.host_list import NamedHost

class Watcher:
    def hello(self, present, left): pass
    def gone(self, host, why): gone.append([host, why])
    def event(self, host, event): "note" in event and gone.append([host, event["note"]])

class Limited(fanout.FanOut):
    def ev_timer(self, timer):
        if sum(line.answered for line in self.lines) == int(sys.argv[2]):
            self._limit = 0.0
        super().ev_timer(timer)

gone, told, fanout.FanOut = [], [], Limited
one_place.GONE_SECONDS = 0.5
names = [NamedHost(f"gpu{n}") for n in range(7)]
lines, calls = one_place.carry_out(ways.by_ssh(names), [{"way": "x", "number": n} for n in range(7)], Watcher(),
    setup=None, wait=1, limit=15, tree=sys.argv[1] == "tree", told=lambda lines, calls: told.append(len(calls)))
print(json.dumps([[[call.host, call.outcome, call.status, call.said] for call in calls], gone, told]))
"""


@dataclass
class Seen:
    calls: list[list[Any]]
    gone: list[list[str]]
    told: list[int]
    ways: list[str]

    @property
    def outcomes(self) -> list[str]:
        return [call[1] for call in self.calls]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)
    (tmp_path / "host").write_text(HOST)
    return tmp_path


def run(folder: Path, *marks: str, how: str = "tree", limit_after: int = -1) -> Seen:
    """Seven hosts: gpu0 by itself, gpu2 and gpu3 over gpu1, gpu5 and gpu6 over gpu4. Of 15 seconds, the time is over as
    soon as ``limit_after`` of them have told."""
    for mark in marks:
        (folder / mark).touch()
    (folder / "calls").unlink(missing_ok=True)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-c", RUN, how, str(limit_after)],
        capture_output=True, text=True, timeout=90, env=env, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    calls, gone, told = json.loads(done.stdout)
    return Seen(calls, gone, told, sorted((folder / "calls").read_text().splitlines()))


OVER = [
    "gpu0 over here",
    "gpu1 over here",
    "gpu2 over gpu1",
    "gpu3 over gpu1",
    "gpu4 over here",
    "gpu5 over gpu4",
    "gpu6 over gpu4",
]


def test_each_host_is_told_of_as_if_it_had_been_called_from_here(folder: Path) -> None:
    over, flat = run(folder), run(folder, how="flat")
    assert over.ways == OVER and flat.ways == [f"gpu{n} over here" for n in range(7)]
    assert over.calls == flat.calls and over.outcomes == ["told"] * 7
    assert (over.gone, over.told) == (flat.gone, flat.told) == ([], [7])


def test_what_a_relay_does_not_reach_is_called_from_here(folder: Path) -> None:
    """For want of a key; one that is down for both is told of in the words that were heard here."""
    over = run(folder, "down-gpu2-over-gpu1", "down-gpu6")
    assert over.ways == sorted([*OVER, "gpu2 over here", "gpu6 over here"])
    assert over.calls == run(folder, how="flat").calls
    assert over.outcomes == ["told"] * 6 + ["unreached"] and over.gone == [["gpu6", "ssh: gpu6: no way"]]


@pytest.mark.parametrize(
    "marks",
    [("no-relay-gpu1",), ("ends-relay-gpu0",)],
    ids=["a relay that says nothing", "one that is killed before all begin"],
)
def test_where_a_relay_is_gone_all_are_told_of(folder: Path, marks: Sequence[str]) -> None:
    over = run(folder, *marks)
    assert {*over.ways} >= {"gpu2 over here", "gpu3 over here", "gpu5 over gpu4"}
    assert "gpu5 over here" not in over.ways
    assert (over.outcomes, over.gone, over.told) == (["told"] * 7, [], [7])


def test_where_one_is_lost_with_its_relay_in_the_middle_all_begin_anew_from_here(folder: Path) -> None:
    over = run(folder, "kills-gpu1")
    assert over.ways == sorted([*OVER, *(f"gpu{n} over here" for n in range(7))])
    assert (over.outcomes, over.told) == (["told"] * 7, [7])
    assert [host for host, _ in over.gone] == ["gpu1"] and "all begin anew" in over.gone[0][1]


def test_two_names_lead_to_one_host_if_they_do_so_from_here(folder: Path) -> None:
    over = run(folder, "is-gpu3-over-gpu1")
    assert over.ways == sorted([*OVER, "gpu3 over here"]) and over.outcomes == ["told"] * 7
    with pytest.raises(AssertionError, match="gpu0 and gpu3 lead to one and the same host"):
        run(folder, "is-gpu3")


def test_a_run_that_is_broken_off_is_broken_off_on_all(folder: Path) -> None:
    """At its limit, as by Ctrl-C: nothing is called again."""
    over = run(folder, "held-gpu0", "held-gpu3", limit_after=5)
    assert over.ways == OVER
    assert over.outcomes == ["stopped", "told", "told", "stopped", "told", "told", "told"]


@pytest.mark.parametrize("number", [1, 2, 3, 8, 128, 200, 1000])
def test_each_host_is_reached_by_one_way_and_the_first_from_here(number: int) -> None:
    shares = [*tree.shares(number)]
    over = [leaf for _, leaves in shares for leaf in leaves]
    assert len({*over}) == len(over) and not {*over} & {0, *(relay for relay, _ in shares)}
    assert number - len(over) + len(shares) <= 3 * number**0.5 + 1, "those that are called from here, and the relays"


def test_a_relay_speaks_for_its_own_hosts_alone() -> None:
    heard: list[tuple[int, bytes]] = []
    names = [Target(NamedHost(f"gpu{n}"), "ssh", ("ssh",)) for n in range(4)]
    lines = [Line(name, {}) for name in names]
    took = SimpleNamespace(
        begin=lambda line, worker: None,
        call_from_here=lambda lines: None,
        ev_read=lambda worker, node, sname, msg: heard.append((worker.number, msg)),
    )
    relay = tree.Relay(lines[1], {2: lines[2]}, None, took)
    relay._hosts[2] = {"name": "gpu2"}
    relay._ask()
    worker = SimpleNamespace(SNAME_STDERR="stderr")
    for number in (2, 3, 0, -1, "2", None, True, [2]):
        relay.ev_read(worker, "", "stdout", packed({"of": number, "out": "facts"}))
    assert heard == [(2, b"facts")]


def test_a_relay_calls_the_host_that_is_meant_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not whom the name means there; with its own key, and without this place's."""
    told = {"hostname": "192.0.2.7", "user": "me", "port": "2222"}
    monkeypatch.setattr(ways, "_configured", lambda name: told)
    where = ways.unfolded("gpu7")
    assert where is not None
    line = ssh_to(where, "sh -c 'true'")
    assert line[-3:] == ["--", "gpu7", "sh -c 'true'"]
    assert {"-oHostName=192.0.2.7", "-oUser=me", "-oPort=2222", "-oHostKeyAlias=[192.0.2.7]:2222"} <= {*line}
    assert "-oBatchMode=yes" in line and "-oForwardAgent=no" in line
    with pytest.raises(ValueError, match="gpu8"):
        ssh_to({**where, "address": "gpu8 -oProxyCommand=true"}, "true")


@pytest.mark.parametrize(
    "told",
    [
        {"hostname": "192.0.2.7", "user": "me", "port": "22", "proxyjump": "gateway"},
        {"hostname": "192.0.2.7", "user": "me", "port": "22", "proxycommand": "nc %h %p"},
        {"hostname": "127.0.0.1", "user": "me", "port": "22"},
        {"hostname": "fe80::1%lo", "user": "me", "port": "22"},
        {},
    ],
)
def test_what_leads_elsewhere_from_elsewhere_is_called_from_here(
    told: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "_configured", lambda name: told)
    assert ways.unfolded("gpu7") is None
