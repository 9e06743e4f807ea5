"""Permission to take another process's descriptor: asked as torch's allocator would, and each answer."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.helpers.namespaces import ENV, ROOT
from tests.helpers.sandbox import forbid

PIDFD_GETFD = 438
ASKS = """
import asyncio, sys
from distdoctor.model.facts import Account
from distdoctor.probes.host import files
found = asyncio.run(files.probe_descriptors({sys.argv[1]: sys.argv[2]}, Account()))
print(found.allocator, repr(found.descriptors))
"""


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("expandable_segments:True", "('PYTORCH_CUDA_ALLOC_CONF', 'expandable_segments:True') 'EPERM'"),
        ("backend:native, expandable_segments: true", "'EPERM'"),
        ("expandable_segments:False", "None ''"),
        ("", "None ''"),
    ],
)
def test_it_is_asked_where_the_allocator_needs_it(value: str, said: str) -> None:
    code = f"{forbid(PIDFD_GETFD)}\n{ASKS}"
    command = [sys.executable, "-c", code, "PYTORCH_CUDA_ALLOC_CONF", value]
    done = subprocess.run(command, capture_output=True, text=True, env=ENV, cwd=ROOT, timeout=60, check=True)
    if done.stdout.startswith("skip"):
        pytest.skip("another architecture")
    assert done.stdout.strip().endswith(said)
