"""What other programs say with the same words: their variables, ports and addresses are not those of the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import judged, roots

HEAD = "Traceback (most recent call last):\n"
COLUMN = f"""{HEAD}  File "/home/u/report.py", line 9, in <module>
    df["RANK"]
  File "/opt/venv/lib/python3.11/site-packages/pandas/core/indexes/base.py", line 3812, in get_loc
    raise KeyError(key) from err
KeyError: 'RANK'
"""
ENVIRON = f"""{HEAD}  File "/home/u/train.py", line 9, in <module>
    rank = int(os.environ["RANK"])
  File "<frozen os>", line 679, in __getitem__
KeyError: 'RANK'
"""
CASTING = "ValueError: Port could not be cast to integer value as '$PORT'\n"
BROKER = f"""{HEAD}  File "/opt/venv/lib/python3.11/site-packages/redis/connection.py", line 1227, in parse_url
    if url.port:
  File "/usr/lib/python3.11/urllib/parse.py", line 182, in port
    raise ValueError(f"Port could not be cast to integer value as {{port!r}}")
{CASTING}"""
MEETING = f"""{HEAD}  File "/opt/lib/site-packages/torch/distributed/rendezvous.py", line 97, in rendezvous
    result = urlparse(url)
  File "/usr/lib/python3.11/urllib/parse.py", line 182, in port
    raise ValueError(f"Port could not be cast to integer value as {{port!r}}")
{CASTING}"""
SERVER = f"""{HEAD}  File "/home/u/serve.py", line 12, in <module>
    HTTPServer(("", 80800), Handler).serve_forever()
  File "/usr/lib/python3.11/socketserver.py", line 456, in __init__
    self.server_bind()
OverflowError: bind(): port must be 0-65535.
"""
ACCELERATE = f"""{HEAD}  File "/opt/lib/site-packages/accelerate/utils/other.py", line 330, in is_port_in_use
    return s.connect_ex(("localhost", port)) == 0
OverflowError: connect_ex(): port must be 0-65535.
"""


@pytest.mark.parametrize("text", [COLUMN, BROKER, SERVER], ids=["a column", "a broker's address", "a web server"])
def test_what_is_not_about_the_job_is_an_exception(tmp_path: Path, text: str) -> None:
    assert [check for check, _ in roots(tmp_path, text)] == ["process/exception"]


@pytest.mark.parametrize(
    ("text", "check"),
    [
        (ENVIRON, "environment/missing-variable"),
        ("KeyError: 'RANK'\n", "environment/missing-variable"),
        (MEETING, "environment/invalid-variable"),
        (CASTING, "environment/invalid-variable"),
        (ACCELERATE, "environment/invalid-variable"),
    ],
    ids=["a variable", "a variable, frames cut off", "where the job meets", "frames cut off", "before the launch"],
)
def test_what_is_about_the_job_is_known(tmp_path: Path, text: str, check: str) -> None:
    assert [one for one, _ in roots(tmp_path, text)] == [check]


def test_a_port_of_a_program_in_java_is_not_where_the_job_meets(tmp_path: Path) -> None:
    found = judged(
        tmp_path, 'Exception in thread "main" java.net.BindException: Address already in use (Bind failed)\n'
    )
    assert [one.title for one in found.findings] == ["A port of the program is in use"]


def test_who_knocks_at_a_sshd_is_no_failure(tmp_path: Path) -> None:
    knocked = "kex_exchange_identification: Connection closed by remote host\n"
    found = judged(tmp_path, f"Jan 11 03:15:44 gpu01 sshd[1011]: error: {knocked}")
    assert (found.findings, found.candidates) == ((), ())
    assert [one.check for one in judged(tmp_path, knocked).candidates] == ["launch/ssh-unreachable"]


@pytest.mark.parametrize(
    "end", ["Ran 2 tests in 1.204s\n\nOK\n", "Ran 2 tests in 1.2s\n\nOK (skipped=1)\n", "== 2 passed in 1.20s ==\n"]
)
def test_what_a_test_provoked_and_expected_is_no_failure(tmp_path: Path, end: str) -> None:
    bound = (
        "test_address_in_use (__main__.StoreTest) ... [W socket.cpp:436] [c10d] The server socket has failed to bind "
    )
    text = f"{bound}to [::]:45123 (errno: 98 - Address already in use).\nok\n"
    assert judged(tmp_path, text + end).verdict in ("pass", "warn")
    assert judged(tmp_path, text + end.replace("OK", "FAILED").replace("passed", "failed")).verdict == "fail"


EXECUTED = """Traceback (most recent call last):
  File "<string>", line 9, in <module>
  File "<string>", line 4, in solve
IndexError: list index out of range
"""


def test_a_command_that_python_was_given_has_failed(tmp_path: Path) -> None:
    """As ``python -c``: nothing stands below it, or a launcher tells of the end."""
    assert judged(tmp_path, f"checking\n{EXECUTED}").verdict == "fail"
    assert judged(tmp_path, f"{EXECUTED}srun: error: n01: task 0: Exited with exit code 1\n").verdict == "fail"


def test_what_another_program_did_not_reach_in_time_is_an_exception(tmp_path: Path) -> None:
    text = f'{HEAD}  File "/home/u/fetch.py", line 3, in <module>\n    fetch()\nRuntimeError: Connection timed out\n'
    assert [check for check, _ in roots(tmp_path, text)] == ["process/exception"]


def test_what_crashed_while_a_container_was_made_is_no_rank(tmp_path: Path) -> None:
    """pyxis hands on what the hooks of enroot have printed, where the container did not start."""
    said = "slurmstepd: error: pyxis: "
    text = (
        f"{said}container start failed with error code: 1\n"
        f"{said}    /etc/enroot/hooks.d/10-shadow.sh: line 70: 3474706 Broken pipe             yes 2> /dev/null\n"
        f"{said}         3474707 Segmentation fault      (core dumped) | pwck -R /r /etc/shadow > /dev/null 2>&1\n"
        f"{said}couldn't start container\n"
    )
    found = judged(tmp_path, text)
    assert not found.findings
    assert [candidate.check for candidate in found.candidates] == ["launch/container-not-started"]
