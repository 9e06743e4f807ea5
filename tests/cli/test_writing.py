"""Tests of what is written: not where nothing can be, whole where it can, and no secret."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.endings import SECONDS, one_document, shell
from tests.helpers.commands import doctor, environment


class TestWriting:
    @pytest.mark.parametrize("arguments", ["diagnose {} --json", "diagnose {}", "list", "--help", "check --help"])
    def test_a_full_disk_is_no_success(self, well: Path, arguments: str) -> None:
        done = shell(f"$D {arguments.format(well)} >/dev/full")
        assert (done.returncode, done.stderr.count("\n")) == (3, 1)
        assert "cannot write to stdout: No space left on device" in done.stderr

    def test_findings_stay_findings(self, tmp_path: Path) -> None:
        done = shell("$D check --until environment --nnodes two >/dev/full")
        assert done.returncode == 2

    def test_half_a_document(self, well: Path, tmp_path: Path) -> None:
        """The disk becomes full in the middle of it."""
        done = subprocess.run(
            [sys.executable, "-m", "distdoctor", "diagnose", str(well), "--json"],
            stdout=(tmp_path / "out.json").open("w"),
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
            check=False,
        )
        assert done.returncode == 3
        assert "cannot write to stdout: File too large; what is there is not whole" in done.stderr

    def test_a_reader_that_leaves_does_not_change_the_verdict(self, well: Path) -> None:
        done = shell(f"$D diagnose {well} --json | true; exit ${{PIPESTATUS[0]}}")
        assert (done.returncode, done.stderr) == (0, "")

    def test_facts_that_cannot_be_saved_are_no_success(self, tmp_path: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "distdoctor", "check", "--until", "host", "--json", "--save", str(tmp_path)],
            capture_output=True,
            text=True,
            env=environment(),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
            check=False,
        )
        document = one_document(done.stdout)
        assert (done.returncode, document["verdict"]) == (3, "warn")
        assert [finding["check"] for finding in document["findings"]] == ["host/file-size-limit"]
        (note,) = document["notes"]
        assert re.fullmatch(
            rf"the facts could not be saved: \[Errno 27\] File too large: '{tmp_path}/[^/.]\S+\.json'", note
        )
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize("make", [lambda p: p.symlink_to("/dev/null"), lambda p: p.write_text("my notes")])
    def test_what_is_no_place_for_facts_is_a_bad_command_line(
        self, tmp_path: Path, make: Callable[[Path], Any]
    ) -> None:
        make(tmp_path / "x.json")
        done = doctor("check", "--until", "host", "--save", str(tmp_path / "x.json"))
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert done.stderr.startswith(f"distdoctor: --save {tmp_path}/x.json: it is a ")


class TestSecretsAndBytes:
    def test_a_healthy_run_with_variables_that_are_no_utf8(self, tmp_path: Path) -> None:
        env = {**environment(), "GLOO_X": "\udcff", "LOGNAME": "m\udcfe", "GLOO_SOCKET_IFNAME": "l\udcff"}
        meets = ("--master-port", "29587", "--rdzv-id", "\udcfd")  # one node that meets itself has an id of its own
        command = [sys.executable, "-m", "distdoctor", "check", "--until", "network", "--json", *meets]
        done = subprocess.run(
            [*command, "--save", str(tmp_path)], capture_output=True, text=True, env=env, timeout=SECONDS, check=False
        )
        document = one_document(done.stdout)
        assert (done.returncode, document["verdict"]) == (1, "fail"), done.stderr
        assert [finding["id"] for finding in document["findings"]] == ["gloo/interface-not-found"]
        (path,) = tmp_path.iterdir()
        facts = json.loads(path.read_text())["facts"][0]
        assert (facts["identity"]["user"], facts["plan"]["run_id"]) == ("m\\xfe", "\\xfd")
        assert facts["variables"]["GLOO_SOCKET_IFNAME"] == "l\\xff"

    def test_no_secret_is_told(self, tmp_path: Path) -> None:
        secret = "s3cr3t"
        names = ("NCCL_SITE_KEY", "GLOO_TOKEN", "TORCHELASTIC_PASSWORD", "TORCH_NCCL_X", "WANDB_API_KEY")
        env = {**environment(), **dict.fromkeys(names, secret), "MASTER_ADDR": f"me:{secret}@host"}
        command = [sys.executable, "-m", "distdoctor", "check", "--until", "network", "--nnodes", "2", "-v"]
        done = subprocess.run(
            [*command, "--wait", "1", "--save", str(tmp_path)],
            capture_output=True,
            text=True,
            env=env,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode in (1, 3) and "***@host" in done.stdout
        saved = "".join(path.read_text() for path in tmp_path.iterdir())
        assert saved and secret not in done.stdout + done.stderr + saved
        refused = doctor("check", "--master-addr", f"me:{secret}@host", "--nnodes", "2")
        assert refused.returncode == 2 and secret not in refused.stderr
