"""NCCL's rules, held against what real NCCLs of eight versions picked and read (tests/gpu/nccl_seen.py asked them)."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distdoctor.knowledge import nccl
from distdoctor.knowledge.nccl import predict, version
from distdoctor.model.facts import Interface
from distdoctor.probes.gpu import nccl as gpu_nccl

SEEN = json.loads((Path(__file__).parents[1] / "recorded/nccl.json").read_text())
VERSIONS = [one for versions, _ in SEEN["files"][0]["read"] for one in versions]
READ = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_NET")


def said() -> Iterator[tuple[str, tuple[Interface, ...], dict[str, str], str, str]]:
    """Host, its interfaces, the settings, a version, and what an NCCL of it said there."""
    for host, found in SEEN["hosts"].items():
        interfaces = tuple(Interface(name, tuple(has), up=up) for name, up, has in found["interfaces"])
        for row in found["rows"]:
            for versions, lines in row["said"]:
                for one in versions:
                    yield host, interfaces, row["env"], one, "\n".join(f"host:1:1 [0] {line}" for line in lines)


def test_the_interface_is_the_one_that_nccl_took() -> None:
    wrong, count = [], 0
    for host, interfaces, env, of, text in said():
        log = nccl.read_log_settings(text)
        assert log is not None
        assert bool(log.interface) != any("no socket interface found" in line for line in log.warnings)
        chosen = predict(env, interfaces, version(of))
        told = f"{chosen.interface}:{chosen.address}" if chosen.address else ""
        count += 1
        if told != log.interface.partition("%")[0]:
            wrong.append((host, env, of, log.interface, told))
    assert (wrong, count) == ([], 71 * len(VERSIONS))


@pytest.mark.parametrize("case", SEEN["files"], ids=lambda case: case["name"])
def test_the_files_give_what_nccl_read(case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwuid", lambda number: SimpleNamespace(pw_dir=str(tmp_path / "root")))
    for path, text in case["files"].items():
        there = tmp_path / path[1:]
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_bytes(text.encode())
    named = {name: f"{tmp_path}{text}" if text.startswith("/") else text for name, text in case["env"].items()}
    env = {"HOME": os.fspath(tmp_path / "root"), **named}
    for versions, read in case["read"]:
        for one in versions:
            found = gpu_nccl.settings_in_files(env, str(tmp_path / "etc/nccl.conf"), version(one))
            values = {**{name: value for name, (value, _) in found.items()}, **env}
            assert {name: values[name] for name in ("NCCL_ALGO", "NCCL_PROTO", "NCCL_NET") if name in values} == read, (
                one
            )
