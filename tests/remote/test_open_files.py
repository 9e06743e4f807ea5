from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from distdoctor.remote.transports import make_room
from tests.helpers.namespaces import ENV

START = """
import resource, sys
from distdoctor.remote.transports import make_room
soft, hard, hosts = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
try:
    make_room(hosts)
except Exception as err:
    print(err)
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "hosts", "told"),
    [
        (100, 1000, 12, "(100, 1000)"),
        (100, 1000, 200, "(664, 1000)"),
        (100, 130, 200, "name at most 22 hosts\n(100, 130)"),
    ],
)
def test_as_many_as_the_hosts_need(soft: int, hard: int, hosts: int, told: str) -> None:
    command = [sys.executable, "-c", START, str(soft), str(hard), str(hosts)]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip().endswith(told)


def test_a_limit_that_suffices_stays() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    make_room(1)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
