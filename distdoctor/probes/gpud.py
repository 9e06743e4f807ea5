"""What gpud finds wrong with this host, where it runs here: it watches GPUs and their links, and keeps what it saw.

Its interface is HTTPS on port 15132 with a certificate that it makes itself, open to each process of the host; GET
/v1/states gives the state of each of its components (leptonai/gpud: pkg/config/default.go, pkg/server/server.go and
handlers_components.go, api/v1/types.go). Asked on the loopback alone. Blocking; run it with a time limit.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

from distdoctor.model.facts import GpudState
from distdoctor.model.sanitize import clean, encodable

HOST, PORT, PATH = "127.0.0.1", 15132, "/v1/states"
SECONDS = 2.0
MAX_BYTES = 1 << 20
MOST, SHOWN = 16, 200
OF_GPUS = "accelerator-nvidia-"


def probe(port: int = PORT) -> tuple[GpudState, ...] | None:
    """The states that are not healthy, of the components that are about GPUs; None where no gpud answers."""
    try:
        socket.create_connection((HOST, port), SECONDS / 4).close()
    except OSError:
        return None
    try:
        states = json.loads(_asked(port))
        return tuple(_unhealthy(states))[:MOST]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None  # something else has that port


def _asked(port: int) -> bytes:
    import http.client  # with what it needs they are slow to load, and few hosts have a gpud
    import ssl

    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(HOST, port, timeout=SECONDS, context=trusting)
    try:
        connection.request("GET", PATH)
        return connection.getresponse().read(MAX_BYTES)
    except http.client.HTTPException as err:
        raise OSError(str(err)) from None
    finally:
        connection.close()


def _unhealthy(components: Any) -> Iterator[GpudState]:
    for one in components:
        name = one["component"]
        for state in one.get("states") or () if name.startswith(OF_GPUS) else ():
            if state.get("health") in ("Unhealthy", "Degraded"):
                actions = (state.get("suggested_actions") or {}).get("repair_actions") or ()
                yield GpudState(
                    _fit(name.removeprefix(OF_GPUS)),
                    state["health"],
                    _fit(state.get("reason") or state.get("error") or ""),
                    tuple(map(_fit, actions)),
                )


def _fit(text: str) -> str:
    return clean(encodable(text))[:SHOWN]
