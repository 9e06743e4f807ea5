"""gpud, asked over HTTPS on the loopback: a server in its place answers as its sources say."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from distdoctor.model.facts import GpudState
from distdoctor.probes.gpu.driver import probe_gpud
from tests.helpers.servers import unused_port

REASON = "XID 94 (Contained memory error) detected on GPU PCI:0000:9b:00"
XID = {
    "time": "2026-01-01T00:00:00Z",
    "component": "accelerator-nvidia-error-xid",
    "name": "error_xid",
    "health": "Unhealthy",
    "reason": REASON,
    "suggested_actions": {"description": "", "repair_actions": ["REBOOT_SYSTEM"]},
}
STATES = [
    {"component": "accelerator-nvidia-error-xid", "states": [XID]},
    {"component": "accelerator-nvidia-ecc", "states": [{"health": "Healthy", "reason": "ok"}]},
    {"component": "accelerator-nvidia-nccl", "states": None},
    {"component": "disk", "states": [{"health": "Unhealthy", "reason": "full"}]},
]


@contextmanager
def answering(folder: Path, text: str) -> Iterator[int]:
    """The port of a server that gives this text, behind a certificate that it made itself."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    files = [folder / "key.pem", folder / "cert.pem"]
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-subj", "/O=test", "-days", "2", "-keyout", str(files[0]), "-out", str(files[1])]
    subprocess.run(made, check=True, capture_output=True)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/v1/states" else 404)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files[1], files[0])
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_what_is_wrong_with_gpus_is_told(tmp_path: Path) -> None:
    with answering(tmp_path, json.dumps(STATES)) as port:
        assert probe_gpud(port) == (GpudState("error-xid", "Unhealthy", REASON, ("REBOOT_SYSTEM",)),)


def test_what_is_none_of_its_answers(tmp_path: Path) -> None:
    with answering(tmp_path, '{"code": 1}') as port:
        assert probe_gpud(port) is None


def test_nobody_answers() -> None:
    assert probe_gpud(unused_port()) is None
