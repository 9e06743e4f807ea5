"""The files that hosts hand over, as they are kept here."""

from __future__ import annotations

import base64
import resource
import signal
import zlib
from pathlib import Path

import pytest

from distdoctor.cli.hosts import diagnose
from distdoctor.cli.hosts.diagnose import Fetched
from distdoctor.cli.hosts.progress import MOST_NOTES
from distdoctor.model.observer import Observer


def data(content: bytes) -> dict[str, str]:
    return {"data": base64.b64encode(zlib.compress(content)).decode()}


def kept(fetched: Fetched) -> dict[str, bytes]:
    fetched.close()
    return {source.name: source.path.read_bytes() for source in fetched.sources() if source.path is not None}


def test_each_file_is_told_of_with_its_host_and_one_that_they_share_once(tmp_path: Path) -> None:
    fetched = Fetched(Observer(), ["a", "b"], tmp_path)
    for host, own in (("a", 1), ("b", 2)):
        fetched.event(host, {"file": "/tmp/x.log", "seen": [3, own, 5]})
        fetched.event(host, data(b"of " + host.encode()))
        fetched.event(host, {"file": "/shared/y.log", "seen": [3, 9, 7]})
        fetched.event(host, data(b"of both"))
    assert kept(fetched) == {"a:/tmp/x.log": b"of a", "a:/shared/y.log": b"of both", "b:/tmp/x.log": b"of b"}
    assert fetched.unread == []


@pytest.mark.parametrize("name", ["/tmp/" + "n" * 300, "/tmp/a\0b", "/tmp/x.log/below"])
def test_a_name_that_no_file_can_have_here_is_said(tmp_path: Path, name: str) -> None:
    fetched = Fetched(Observer(), ["a"], tmp_path)
    for file in ("/tmp/x.log", name, "/tmp/y.log"):
        fetched.event("a", {"file": file, "seen": [1, len(file), 3]})
        fetched.event("a", data(b"said"))
    assert kept(fetched) == {"a:/tmp/x.log": b"said", "a:/tmp/y.log": b"said"}
    (why,) = fetched.unread
    assert why.startswith("a: /tmp/") and "could not be kept here" in why


def test_of_what_has_no_room_here_no_part_is_judged(tmp_path: Path) -> None:
    fetched = Fetched(Observer(), ["a"], tmp_path)
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        fetched.event("a", {"file": "/tmp/x.log", "seen": [200, 1, 1]})
        fetched.event("a", data(b"s" * 60))
        fetched.event("a", data(b"s" * 60))
        fetched.event("a", data(b"s" * 60))
        fetched.event("a", {"file": "/tmp/y.log", "seen": [1, 2, 2]})
        fetched.event("a", data(b"short"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert kept(fetched) == {"a:/tmp/y.log": b"short"}
    assert fetched.unread == ["a: /tmp/x.log: could not be kept here: File too large"]


def test_of_one_host_no_more_is_kept_than_a_host_may_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnose, "MOST_BYTES", 100)
    monkeypatch.setattr(diagnose, "MAX_FILES", 3)
    fetched = Fetched(Observer(), ["a", "b"], tmp_path)
    for host in ("a", "b"):
        for number in range(2 if host == "b" else 5):
            fetched.event(host, {"file": f"/tmp/{host}{number}.log", "seen": [number, 1, host]})
            fetched.event(host, data(b"s" * (60 if host == "a" and number == 1 else 10)))
            fetched.event(host, data(b"t" * (60 if host == "a" and number == 1 else 10)))
    for number in range(10_000):
        fetched.event("b", {"unread": f"/tmp/{number}"})
        fetched.event("b", {"note": f"note {number}"})
    assert kept(fetched).keys() == {"a:/tmp/a0.log", "b:/tmp/b0.log", "b:/tmp/b1.log"}
    assert len([why for why in fetched.unread if "more than 2 GiB of this host" in why]) == 2
    assert len([why for why in fetched.unread if "more than 3 files" in why]) == 2
    assert len(fetched.unread) == 4 + diagnose.MOST_UNREAD and len(fetched._notes) == MOST_NOTES


def test_a_file_of_which_a_part_is_missing_is_not_judged(tmp_path: Path) -> None:
    fetched = Fetched(Observer(), ["a"], tmp_path)
    fetched.event("a", {"file": "/tmp/x.log", "seen": [1, 1, 1]})
    fetched.event("a", data(b"begin\n"))
    fetched.event("a", {"data": "?"})
    fetched.event("a", data(b"end\n"))
    assert kept(fetched) == {}
    assert fetched.unread == ["a: /tmp/x.log: could not be kept here: a part of it did not come whole"]
