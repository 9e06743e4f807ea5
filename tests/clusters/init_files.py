"""Clusters that meet by file://."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import InitFile
from tests.checks.row import Facts
from tests.facts_builder import healthy, with_host, with_identity, with_plan

NFS = InitFile("/shared/init", False, device=40, filesystem="nfs4")

TMP = InitFile("/tmp/init", False, device=7, filesystem="ext4")


def init_files(*files: InitFile, kernel: str | None = None) -> Facts:
    facts = []
    for one, file in zip(healthy(len(files)), files, strict=True):
        one = with_host(with_plan(one, init_method=f"file://{file.path}"), init_file=file)
        facts.append(with_identity(one, boot_id=kernel) if kernel else one)
    return tuple(facts)


STALE = replace(NFS, exists=True, size=2400, age=9000.0, inode=11)
