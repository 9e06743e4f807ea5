"""Saving facts: the whole file or none, and nothing else touched."""

from __future__ import annotations

import os
import resource
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from distdoctor.model.facts import FactsFile, NodeFacts, decode, files
from tests.facts_builder import node


def read(path: Path) -> NodeFacts:
    return decode(path.read_bytes(), FactsFile).facts[0]


def rank(number: int) -> NodeFacts:
    facts = node()
    return replace(facts, plan=replace(facts.plan, started="rank", rank=number, local_rank=number))


def test_what_is_saved_is_what_is_read(tmp_path: Path) -> None:
    files.write(tmp_path / "facts.json", node(), True)
    assert read(tmp_path / "facts.json") == node()
    assert os.listdir(tmp_path) == ["facts.json"]


def test_each_node_has_a_file_of_its_own_in_a_folder(tmp_path: Path) -> None:
    for number in (0, 1):
        files.write(tmp_path, node("same", number), True)
    assert sorted(os.listdir(tmp_path)) == ["same-node0.json", "same-node1.json"]


def test_hosts_of_one_name_that_never_met_keep_files_of_their_own(tmp_path: Path) -> None:
    for netns in ("4026531840", "4026532111"):
        one = node("localhost", 0, netns=netns)
        files.write(tmp_path, replace(one, node_rank=None, plan=replace(one.plan, node_rank=None)), True)
    assert len(os.listdir(tmp_path)) == 2


def test_a_node_that_was_started_twice_keeps_both_files(tmp_path: Path) -> None:
    """The second one came to the meeting when all places were taken: what the first one saw is not to be lost."""
    first, twin = node(declared=True), node(declared=True, pid=77)
    assert twin.meeting is not None
    files.write(tmp_path, first, True)
    files.write(tmp_path, replace(twin, node_rank=None, meeting=replace(twin.meeting, hosted=False)), True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["host0-node0-pid77.json", "host0-node0.json"]


def test_each_rank_has_a_file_of_its_own_in_a_folder_and_beside_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for number in (0, 1, 2):
        files.write(tmp_path / "folder", rank(number), number == 0)
        files.write(tmp_path / "facts.json", rank(number), number == 0)
    assert sorted(os.listdir(tmp_path / "folder")) == [f"host0-rank{number}.json" for number in (0, 1, 2)]
    assert sorted(os.listdir(tmp_path)) == ["facts-rank1.json", "facts-rank2.json", "facts.json", "folder"]


def test_an_earlier_file_is_replaced_at_once(tmp_path: Path) -> None:
    """A reader that looks all the time never sees half a file."""
    path = tmp_path / "facts.json"
    files.write(path, node(), True)
    stop, seen = threading.Event(), []

    def look() -> None:
        while not stop.is_set():
            seen.append(read(path).identity.pid)

    reader = threading.Thread(target=look)
    reader.start()
    for pid in range(1, 101):
        files.write(path, node(pid=pid), True)
    stop.set()
    reader.join()
    assert seen and seen == sorted(seen, key=lambda pid: pid if pid <= 100 else 0)
    assert read(path).identity.pid == 100


def test_where_the_disk_is_full_the_earlier_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    files.write(path, node(), True)
    before = path.read_bytes()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
    try:
        with pytest.raises(OSError):
            files.write(path, node("other"), True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["facts.json"]


def test_no_folder_no_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"No such file or directory: '.*/none/facts\.json'"):
        files.write(tmp_path / "none" / "facts.json", node(), True)
    assert os.listdir(tmp_path) == []


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    """As root, replacing /dev/stdout would break the machine."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    files.write(pipe, node(), True)
    reader.join(10)
    assert decode(got[0], FactsFile).facts == (node(),)
    assert pipe.is_fifo() and os.listdir(tmp_path) == ["pipe"]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """Whoever may write to the folder may have put it there."""
    for target in (tmp_path / "facts.json", tmp_path / "none.json"):
        link = tmp_path / "link.json"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        with pytest.raises(OSError, match=r"link\.json is a symbolic link"):
            files.write(link, node(), True)
        assert link.is_symlink() and os.listdir(tmp_path) == ["link.json"]


def test_a_link_in_a_folder_is_not_followed_either(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("keep")
    (tmp_path / "host0-node0.json").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="is a symbolic link"):
        files.write(tmp_path, node(), True)
    assert (tmp_path / "target").read_text() == "keep"


@pytest.mark.parametrize("content", ["my notes", "{}", '{"facts": []}', "[]", '{"loss": 0.1}'])
def test_a_file_that_is_not_facts_is_left_as_it_is(tmp_path: Path, content: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(content)
    with pytest.raises(OSError, match="not facts"):
        files.write(path, node(), True)
    assert path.read_text() == content


def test_an_empty_file_is_filled(tmp_path: Path) -> None:
    """As mktemp makes it."""
    path = tmp_path / "facts.json"
    path.touch()
    files.write(path, node(), True)
    assert read(path) == node()


def test_only_the_user_reads_what_is_saved(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        for place in (tmp_path / "facts.json", tmp_path):
            files.write(place, node(), True)
            files.write(place, node(), True)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_the_facts_of_another_host_are_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    files.write(path, node("host0"), True)
    with pytest.raises(OSError, match="has the facts of host0"):
        files.write(path, node("host1"), True)
    files.write(path, node("host0"), True)
