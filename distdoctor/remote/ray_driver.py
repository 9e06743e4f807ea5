"""Driver of Ray for ``--ray``: an actor on each node runs one command, whose input and output are passed on.

It is a program of its own, which imports only the standard library and Ray: it runs in any Python that has the
cluster's Ray. Arguments: the cluster's address. Its stdout: one line of JSON with the nodes, or with an error. It ends,
and its actors with it, when its stdin ends.

A local program (CALLER in ``distdoctor.remote.ray_cluster``) connects to its socket for each node. It sends one message
of JSON, with its own stdin, stdout and stderr, and gets the exit status of the command.

``distdoctor.remote.ray_groups`` sends it the bundles of placement groups, and gets their nodes. These groups are
removed at the end of stdin.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import ray
from ray.util import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

CONNECT_SECONDS = 5.0
PLACE_SECONDS = 25.0
"""Limit of placing an actor and starting its process: less than the 30 s after which a host counts as silent."""
STOP_SECONDS = 2.0
SETTLE_SECONDS = 1.0
"""Seconds in which the nodes report what is free without a removed group."""
BLOCK = 1 << 16
"""Bytes of one call: more than 100 KB would go through the object store, on further ports."""
NO_RAY = 255
TOKEN = (
    "the cluster wants a token: set RAY_AUTH_MODE=token, and put the token of its head into ~/.ray/auth_token or "
    "RAY_AUTH_TOKEN"
)
GROUPS: list[Any] = []
"""Placement groups that were created and not removed."""


class DistdoctorNode:
    """Actor that runs one command and passes its input and output on."""

    def __init__(self) -> None:
        self._output: queue.Queue[tuple[int, bytes]] = queue.Queue(64)

    def start(self, argv: list[str]) -> None:
        """Start the command; its ``$0`` is this worker's Python."""
        self._process = subprocess.Popen(
            [*argv, sys.executable],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        for number, pipe in ((1, self._process.stdout), (2, self._process.stderr)):
            threading.Thread(target=self._read, args=(number, pipe), daemon=True).start()

    def _read(self, number: int, pipe: Any) -> None:
        while data := os.read(pipe.fileno(), BLOCK):
            self._output.put((number, data))
        self._output.put((number, b""))

    def read(self) -> tuple[int, bytes]:
        """Return the next output, with the descriptor that it is for; empty bytes at the end of each of the two."""
        return self._output.get()

    def write(self, data: bytes) -> None:
        """Pass input on; empty bytes are its end."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            if data:
                self._process.stdin.write(data)
                self._process.stdin.flush()
            else:
                self._process.stdin.close()

    def status(self) -> int:
        """Wait for the end of the command, and return its status as a shell does."""
        code = self._process.wait()
        return code if code >= 0 else 128 - code

    def stop(self) -> None:
        """End the command: by the end of its input, else by force."""
        self.write(b"")
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)


def serve(connection: socket.socket) -> None:
    """Run one caller's command on its node."""
    message, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    wanted = json.loads(message)
    if "groups" in wanted:
        answer(connection, wanted)
        return
    status = NO_RAY
    try:
        status = run(wanted, descriptors, connection)
    except BaseException as err:
        with contextlib.suppress(OSError):
            os.write(descriptors[2], f"{reason(err, wanted)}\n".encode())
    for descriptor in descriptors[1:]:
        os.close(descriptor)
    with contextlib.suppress(OSError):
        connection.sendall(b"%d" % status)
        connection.close()


def run(wanted: dict[str, Any], descriptors: list[int], connection: socket.socket) -> int:
    """Run the command on its node, and return its status."""
    kind = ray.remote(num_cpus=0, num_gpus=wanted["gpus"], max_concurrency=4)(DistdoctorNode)
    actor = kind.options(scheduling_strategy=where(wanted["node"]), max_restarts=0).remote()
    try:
        ray.get(actor.start.remote(wanted["argv"]), timeout=PLACE_SECONDS)
        threading.Thread(target=pass_input, args=(actor, descriptors[0]), daemon=True).start()
        threading.Thread(target=stop_at_end, args=(actor, connection), daemon=True).start()
        running = {1, 2}
        while running:
            number, data = ray.get(actor.read.remote())
            if not data:
                running.discard(number)
            while data:
                data = data[os.write(descriptors[number], data) :]
        return int(ray.get(actor.status.remote()))
    finally:
        ray.kill(actor)


def where(place: str) -> Any:
    """Return the strategy for a node by its id, or for a bundle: ``GROUP/BUNDLE``."""
    group, slash, bundle = place.partition("/")
    if slash:
        return PlacementGroupSchedulingStrategy(GROUPS[int(group)], placement_group_bundle_index=int(bundle))
    return NodeAffinitySchedulingStrategy(place, soft=False)


def answer(connection: socket.socket, wanted: dict[str, Any]) -> None:
    """Create placement groups, and answer with one line of JSON: the nodes of their bundles, or who has the
    resources."""
    try:
        found = place(wanted)
    except BaseException as err:
        found = {"error": reason(err, {"gpus": 0})}
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(found).encode() + b"\n")
        connection.close()


def place(wanted: dict[str, Any]) -> dict[str, Any]:
    """Create the groups of bundles. If one is not placed in time, remove all, and return the state of the cluster."""
    end = time.monotonic() + PLACE_SECONDS
    try:
        for bundles in wanted["groups"]:
            GROUPS.append(placement_group(bundles, strategy=wanted["strategy"], name="distdoctor"))
        if all(group.wait(max(0.1, end - time.monotonic())) for group in GROUPS):
            tables = [placement_group_table(group)["bundles_to_node_id"] for group in GROUPS]
            return {"nodes": [[table[number] for number in sorted(table)] for table in tables]}
        return state_of_cluster()
    except BaseException:
        remove_groups()
        raise


def state_of_cluster() -> dict[str, Any]:
    """Return what is free on each node, and the other placement groups and their jobs; remove the own groups first."""
    remove_groups()
    time.sleep(SETTLE_SECONDS)
    own = {"distdoctor"}
    others = [
        {
            "id": one["placement_group_id"],
            "name": one["name"],
            "bundles": [[node, one["bundles"][number]] for number, node in one["bundles_to_node_id"].items() if node],
        }
        for one in placement_group_table().values()
        if one["state"] == "CREATED" and one["name"] not in own
    ]
    jobs = {}
    with contextlib.suppress(Exception):
        jobs = {
            one["JobID"]: f"{one.get('Entrypoint') or 'a driver'} (pid {one['DriverPid']} on {one['DriverIPAddress']})"
            for one in ray._private.state.jobs()
        }
    return {"free": ray._private.state.available_resources_per_node(), "groups": others, "jobs": jobs}


def remove_groups() -> None:
    """Remove the placement groups."""
    while GROUPS:
        with contextlib.suppress(Exception):
            remove_placement_group(GROUPS.pop())


def pass_input(actor: Any, descriptor: int) -> None:
    """Pass the caller's input on, to its end."""
    with contextlib.suppress(OSError, ray.exceptions.RayError):
        while data := os.read(descriptor, BLOCK):
            ray.get(actor.write.remote(data))
        ray.get(actor.write.remote(b""))
    os.close(descriptor)


def stop_at_end(actor: Any, connection: socket.socket) -> None:
    """End the command once its caller is gone."""
    with contextlib.suppress(OSError, ray.exceptions.RayError):
        connection.recv(1)
        ray.get(actor.stop.remote())


def reason(err: BaseException, wanted: dict[str, Any]) -> str:
    """Return one line: why no command runs there, or no longer."""
    if isinstance(err, ray.exceptions.GetTimeoutError):
        gpus = f" with {wanted['gpus']} GPUs" if wanted["gpus"] else ""
        return f"Ray started no actor{gpus} there within {PLACE_SECONDS:.0f} s{free(wanted)}"
    lines = [line.strip() for line in str(err).splitlines() if line.strip()]
    return " ".join(lines[:1] or [type(err).__name__])[:400]


def free(wanted: dict[str, Any]) -> str:
    """Return the GPUs that are free on the node, in words; empty if that is unknown or not asked."""
    with contextlib.suppress(Exception):
        left = ray._private.state.available_resources_per_node()[wanted["node"]].get("GPU", 0)
        return f": {left:g} of its GPUs are free" if wanted["gpus"] else ""
    return ""


def nodes() -> list[dict[str, Any]]:
    """Return the nodes of the cluster, this one first, the others by their addresses."""
    mine = ray.get_runtime_context().get_node_id()
    found = [
        {
            "node": one["NodeID"],
            "name": one.get("NodeManagerHostname") or one["NodeManagerAddress"],
            "address": one["NodeManagerAddress"],
            "gpus": int(one.get("Resources", {}).get("GPU", 0)),
            "cpus": int(one.get("Resources", {}).get("CPU", 0)),
            "alive": bool(one["Alive"]),
            "death": str(one.get("DeathReasonMessage") or ""),
        }
        for one in ray.nodes()
    ]
    return sorted(found, key=lambda one: (one["node"] != mine, len(one["address"]), one["address"]))


def connect(address: str) -> None:
    """Connect to the cluster. Raises OSError or ConnectionError if none answers: Ray itself tries for two minutes.

    Ray is given ``auto`` as it is: it takes this user's token for a cluster that it found itself alone.
    """
    found = address
    if address == "auto":
        from ray._private import services

        found = services.canonicalize_bootstrap_address_or_die("auto")
    host, _, port = found.rpartition(":")
    if "://" not in found:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=False)


def main() -> None:
    """Connect, print the nodes, and serve callers until stdin ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a Ctrl-C in the terminal is for distdoctor, which ends this one
    folder = tempfile.mkdtemp(prefix="distdoctor-ray-")
    threading.Thread(target=leave_at_end, args=(folder,), daemon=True).start()
    output, sys.stdout = sys.stdout, sys.stderr  # Ray prints, too
    try:
        connect(sys.argv[1])
        found: dict[str, Any] = {"ray": ray.__version__, "nodes": nodes()}
    except BaseException as err:
        found = {"error": root_text(err)}
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{folder}/socket")
    listener.listen(1024)
    print(json.dumps({**found, "socket": f"{folder}/socket"}), file=output, flush=True)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


def root_text(err: BaseException) -> str:
    """Return one line: the system's words, or those of the error that led to this one. Ray may put a whole traceback
    into its text, and the reason is its last line."""
    if isinstance(err, OSError) and err.strerror:
        return err.strerror
    while err.__cause__ or err.__context__:
        err = err.__cause__ or err.__context__  # type: ignore[assignment]
    text = str(err)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if "Traceback (most recent call last)" in text:
        lines = lines[-1:]
    return TOKEN if "InvalidAuthToken" in text else " ".join(lines)[:300] or type(err).__name__


def leave_at_end(folder: str) -> None:
    """End this program, and with it its actors, at the end of stdin."""
    while os.read(0, 1):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    threading.Timer(STOP_SECONDS, os._exit, (0,)).start()
    remove_groups()
    ray.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main()
