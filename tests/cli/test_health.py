"""``distdoctor health``, asked by a client that is made from the public protocol file."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import doctor, environment

grpc = pytest.importorskip("grpc", reason="pip install '.[grpc]'")
pytest.importorskip("grpc_tools")

PROTO = """
syntax = "proto3";
package nvhcd;
service HealthCheckService { rpc RunHealthCheck(HealthCheckRequest) returns (HealthCheckResponse); }
message HealthCheckRequest { repeated string args = 1; }
message HealthCheckResponse { bool success = 1; int32 exit_code = 2; string output = 3; string error = 4; }
"""
"""The interface in nvidia_resiliency_ext/shared_utils/proto/nvhcd.proto."""


@pytest.fixture(scope="module")
def protocol(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the messages and the stub that grpcio-tools makes of PROTO."""
    folder = tmp_path_factory.mktemp("proto")
    (folder / "distdoctor_test_nvhcd.proto").write_text(PROTO)
    sys.path.insert(0, str(folder))
    try:
        return grpc.protos_and_services("distdoctor_test_nvhcd.proto")
    finally:
        sys.path.remove(str(folder))


@pytest.fixture
def asked(protocol: Any, tmp_path: Path) -> Iterator[Any]:
    """Return a function that starts the server and asks it; afterwards the server is stopped and has left nothing."""
    path, started = tmp_path / "health.sock", list[subprocess.Popen[str]]()

    def ask(*words: str, **variables: str) -> Any:
        command = [sys.executable, "-m", "distdoctor", "health", str(path), *words]
        env = environment(**variables)
        started.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        assert started[0].stdout is not None and str(path) in started[0].stdout.readline()
        assert path.stat().st_mode & 0o777 == 0o666
        messages, services = protocol
        with grpc.insecure_channel(f"unix://{path}") as channel:
            stub = services.HealthCheckServiceStub(channel)
            request = messages.HealthCheckRequest(args=["--no-slurm", "; touch x"])
            first, second = (stub.RunHealthCheck(request, timeout=60) for _ in range(2))
        assert first == second
        return first, json.loads(first.output)

    yield ask
    for process in started:
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=30)
        assert process.returncode == 128 + signal.SIGTERM and "Traceback" not in stderr, stderr
    assert not path.exists()


def test_a_healthy_node(asked: Any) -> None:
    response, output = asked()
    assert (response.success, response.exit_code, output["fail_count"], output["failed_checks"]) == (True, 0, 0, [])


def test_a_node_that_would_fail_a_job(asked: Any) -> None:
    """Its interface for gloo is missing."""
    response, output = asked("--every", "1h", GLOO_SOCKET_IFNAME="nosuch0")
    assert not response.success and response.exit_code == 1
    assert output["fail_count"] == len(output["failed_checks"]) >= 1 and output["failed_checks"][0] in response.error


def test_the_socket_is_nobody_elses(tmp_path: Path) -> None:
    path = tmp_path / "health.sock"
    path.write_text("a file")
    assert "exists and is no socket" in doctor("health", str(path)).stderr and path.read_text() == "a file"
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        done = doctor("health", str(path))
        assert done.returncode == 2 and "another process answers there" in done.stderr
    assert os.path.exists(path)
    assert "there is no folder" in doctor("health", str(tmp_path / "no/health.sock")).stderr
