"""The folder for temporary files, and what a umask makes of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from distdoctor.probes.host import files


def test_a_umask_that_keeps_the_user_out_of_its_own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a user other than root, whom no such right binds."""
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o1777)
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    monkeypatch.setenv("TMPDIR", str(place))
    root = os.geteuid() == 0
    if root:
        try:
            os.seteuid(65534)
        except OSError as err:
            pytest.skip(f"nobody else to be here: {err}")  # a user namespace that has one user
    before = os.umask(0o777)
    try:
        monkeypatch.setattr(tempfile, "tempdir", None)
        closed = files.probe_temporary()
        os.umask(0o077)
        usual = files.probe_temporary()
    finally:
        os.umask(before)
        if root:
            os.seteuid(0)
    assert (closed.path, closed.umask) == (None, "0777") and "Permission denied" in closed.error
    assert (usual.path, usual.umask) == (str(place), "") and list(place.iterdir()) == []
