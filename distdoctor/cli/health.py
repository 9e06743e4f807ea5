"""``distdoctor health``: this node's health for a launcher that asks a gRPC service on a Unix socket.

The protocol is that of nvhcd, which NVIDIA's resiliency extension calls before each rendezvous
(nvidia_resiliency_ext/shared_utils/proto/nvhcd.proto; the contract stands in its docs/source/fault_tolerance/
usage_guide.rst): a node is healthy if ``success`` is set and ``output`` is JSON with a ``fail_count`` of 0.
"""

from __future__ import annotations

import json
import os
import stat
import threading
import time
from collections.abc import Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from distdoctor import streams
from distdoctor.cli.bounded import NoAnswer, document
from distdoctor.cli.checks import known_ids, load_checks
from distdoctor.interrupts import Interrupted
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import STANDALONE
from distdoctor.render.exit_status import FINDINGS, OK

PACKAGE, SERVICE, METHOD = "nvhcd", "HealthCheckService", "RunHealthCheck"
REQUEST = (("args", "string", "repeated"),)
RESPONSE = (
    ("success", "bool", "optional"),
    ("exit_code", "int32", "optional"),
    ("output", "string", "optional"),
    ("error", "string", "optional"),
)
"""Fields of the two messages; their numbers count from 1."""
SECONDS = 50.0
"""Limit of one check; the launcher waits 60 s (health_check.py, request_timeout_sec)."""
CHECK = ("check", "--json", "-q", STANDALONE.flag, "--until", "network", "--no-try-fixes", "--timeout", "20")
USED_BY_JOBS = "gpu/busy"
"""The check of GPUs that other processes use: the job itself does, and so do its neighbours on the node."""
MODE = 0o666
"""Mode of the socket: jobs of any user may ask; a request carries nothing that the check uses."""


def serve_health(path: Path, every: float, ignore: Sequence[str]) -> int:
    """Answer requests until a signal ends this process. Raises UsageError, Interrupted."""
    known_ids(ignore, load_checks(()))
    health = Health(every, [USED_BY_JOBS, *ignore])
    _make_room(path)
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((handler(health),))
    try:
        if not server.add_insecure_port(f"unix:{path.absolute()}"):
            raise RuntimeError("the port is 0")
    except RuntimeError as err:
        raise UsageError(f"{path}: cannot listen there: {err}") from None
    server.start()
    os.chmod(path, MODE)
    streams.write(f"distdoctor: answers health requests on {path}; stop it with Ctrl-C\n")
    try:
        while server.wait_for_termination(3600):
            pass
    except (Interrupted, KeyboardInterrupt):
        server.stop(0).wait()
        path.unlink(missing_ok=True)
        raise
    return OK


def _make_room(path: Path) -> None:
    """Remove a socket that nobody listens on. Raises UsageError if anything else is there."""
    import socket

    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise UsageError(f"{path}: exists and is no socket")
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(path))
        raise UsageError(f"{path}: another process answers there")
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise UsageError(f"{path}: there is no folder {path.parent}") from None
    except ConnectionRefusedError:
        path.unlink()
    except OSError as err:
        raise UsageError(f"{path}: {err.strerror}") from None


class Health:
    """This node's health, checked once for all who ask within ``every`` seconds."""

    def __init__(self, every: float, ignore: Sequence[str]) -> None:
        self._words = (*CHECK, *(f"--ignore={check}" for check in ignore))
        self._every = every
        self._lock = threading.Lock()
        self._answer: dict[str, Any] = {}
        self._until = 0.0

    def answer(self) -> dict[str, Any]:
        """Return the fields of a response."""
        with self._lock:  # who asks meanwhile gets the same answer
            if time.monotonic() >= self._until:
                self._answer = self._check()
                self._until = time.monotonic() + self._every
            return self._answer

    def _check(self) -> dict[str, Any]:
        try:
            report = document(*self._words, seconds=SECONDS)
        except NoAnswer as err:  # unknown is not unhealthy
            output = {"fail_count": 0, "failed_checks": [], "verdict": "incomplete"}
            return {"success": True, "exit_code": OK, "output": json.dumps(output), "error": str(err)}
        failed = [
            finding for finding in report["findings"] if finding["severity"] == "fail" and finding["because_of"] is None
        ]
        causes = [f"{finding['check']}: {finding['summary']}" for finding in failed]
        output = {"fail_count": len(failed), "failed_checks": causes, "verdict": report["verdict"]}
        status = FINDINGS if failed else OK
        return {"success": not failed, "exit_code": status, "output": json.dumps(output), "error": "; ".join(causes)}


def handler(health: Health) -> grpc.GenericRpcHandler:
    """Return the service. Arguments of a request are not used: the check is the same for everybody."""
    request, response = messages()
    method = grpc.unary_unary_rpc_method_handler(
        lambda _request, _context: response(**health.answer()),
        request_deserializer=request.FromString,
        response_serializer=response.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(f"{PACKAGE}.{SERVICE}", {METHOD: method})


def messages() -> tuple[Any, Any]:
    """Return the classes of request and response."""
    file = descriptor_pb2.FileDescriptorProto(name="nvhcd.proto", package=PACKAGE, syntax="proto3")
    names = ("HealthCheckRequest", "HealthCheckResponse")
    for name, fields in zip(names, (REQUEST, RESPONSE), strict=True):
        message = file.message_type.add(name=name)
        for number, (field, kind, label) in enumerate(fields, 1):
            types = descriptor_pb2.FieldDescriptorProto
            message.field.add(
                name=field,
                number=number,
                type=types.Type.Value(f"TYPE_{kind.upper()}"),
                label=types.Label.Value(f"LABEL_{label.upper()}"),
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    classes = [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in names]
    return classes[0], classes[1]
