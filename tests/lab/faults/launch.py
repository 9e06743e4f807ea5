"""Faults of the start: flags, variables, who is started, when, as whom and from which folder."""

from __future__ import annotations

import sys
from shlex import join

from distdoctor.model.launch_settings import LAUNCH_VARIABLES
from tests.lab.faults import inside
from tests.lab.harness.host import NOBODY_UID, PRIVATE, ROOT, SHARED
from tests.lab.harness.launch import PORT, Fault, Launch

INIT_FILE = f"file://{SHARED}/init"
"""An init method on a file system that all hosts share."""
STANDIN = ROOT / "tests/helpers/standin_cuda"
"""Of GPUs, for a torch that is a CPU build."""


def variable(name: str, value: str | None, *hosts: int) -> Fault:
    """The variable is ``value`` (None: not set) on the named hosts."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            for start in launch.on(index):
                start.env[name] = value

    return inject


def flag(name: str, value: str | None, *hosts: int) -> Fault:
    """The launch line has ``name value`` (None: not at all) on the named hosts."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            for start in launch.on(index):
                start.flags[name] = value

    return inject


def not_started(*hosts: int) -> Fault:
    """Nobody starts anything on the named hosts."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            for start in launch.on(index):
                start.started = False

    return inject


def by_accelerate(processes: int) -> Fault:
    """accelerate launch takes torchrun's place on every host, told of so many processes; to torch, each has 2 GPUs."""

    def inject(launch: Launch) -> None:
        for start in launch.starts:
            counts = {"num_processes": processes, "num_machines": len(launch.starts), "machine_rank": start.node_rank}
            reached = {"main_process_ip": launch.cluster[0].name, "main_process_port": PORT}
            flags = [f"--{name}={value}" for name, value in (counts | reached).items()]
            told = join([sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", *flags])
            start.flags = {}
            start.env |= {"PYTHONPATH": f"{STANDIN}:{ROOT}", "STANDIN_GPUS": "2", "STANDIN_NODE": start.host.name}
            start.before = (f'shift 3; set -- {told} "$@"',)

    return inject


def late(seconds: float, *hosts: int) -> Fault:
    """The named hosts start later than the others."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            for start in launch.on(index):
                start.delay = seconds

    return inject


def as_user(*hosts: int) -> Fault:
    """On the named hosts, the job is started by a user other than root."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            launch.cluster[index].open_to_users()
            for start in launch.on(index):
                start.uid = NOBODY_UID

    return inject


def in_working_folder(name: str, text: str, *hosts: int) -> Fault:
    """On the named hosts, the job is started in a folder with such a file."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            folder = f"{PRIVATE}/lab/job"
            launch.cluster[index].anchor.path(folder).mkdir(mode=0o755)
            launch.cluster[index].anchor.path(f"{folder}/{name}").write_text(text)
            for start in launch.on(index):
                start.before += (f"cd {folder}",)

    return inject


def working_folder_deleted(*hosts: int) -> Fault:
    """On the named hosts, the folder that the job is started in has been deleted."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            for start in launch.on(index):
                start.before += (f"mkdir {PRIVATE}/lab/gone; cd {PRIVATE}/lab/gone; rmdir {PRIVATE}/lab/gone",)

    return inject


def start_all(launch: Launch) -> None:
    """Start what was not started."""
    for start in launch.starts:
        start.started = True


def existing_folder(launch: Launch) -> None:
    """Start the job from a folder that is there."""
    for start in launch.starts:
        start.before = ()


def c10d(*ids: str) -> Fault:
    """Every host has torchrun's c10d rendezvous in its launch line, host i with the i-th id."""

    def inject(launch: Launch) -> None:
        for start in launch.starts:
            endpoint = f"{launch.master or launch.cluster[0].name}:29400"
            start.flags |= {"--node-rank": None, "--master-addr": None, "--rdzv-backend": "c10d"}
            start.flags |= {"--rdzv-endpoint": endpoint, "--rdzv-id": ids[start.host.index]}

    return inject


def c10d_on(on: int, port: int = PORT) -> Fault:
    """Host ``on`` alone is started with torchrun's c10d rendezvous, at this port of the master."""

    def inject(launch: Launch) -> None:
        for start in launch.on(on):
            start.flags |= {"--node-rank": None, "--master-addr": None, "--rdzv-backend": "c10d"}
            start.flags |= {"--rdzv-endpoint": f"{launch.master or launch.cluster[0].name}:{port}"}

    return inject


def by_hand(on: int) -> Fault:
    """Host ``on`` is started as one rank, with the variables of one and without the flags of the others."""

    def inject(launch: Launch) -> None:
        master = launch.master or launch.cluster[0].name
        values = (str(on), str(len(launch.cluster)), master, str(PORT))
        for start in launch.on(on):
            start.flags = {}
            start.env |= dict(zip(LAUNCH_VARIABLES, values, strict=True))

    return inject


def shell(line: str, *hosts: int) -> Fault:
    """The shell that starts the job on the named hosts runs ``line`` first."""

    def inject(launch: Launch) -> None:
        for index in hosts:
            for start in launch.on(index):
                start.before += (line,)

    return inject


def shared_file(text: str) -> Fault:
    """The file of :data:`INIT_FILE` is there already, with this text in it."""
    return inside(0, f"printf %s '{text}' > {SHARED}/init")


def one_node(launch: Launch) -> None:
    """The launch line of one node alone: nothing but the number of ranks."""
    for start in launch.starts:
        start.flags = {"--nproc-per-node": str(launch.nproc)}


def pods_alone(launch: Launch) -> None:
    """Every host is a pod that an operator has numbered, and in each a job of one node is started."""
    for start in launch.starts:
        for name in ("--nnodes", "--node-rank", "--master-addr"):
            start.flags[name] = None
        start.env |= {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "RANK": str(start.node_rank), "MASTER_PORT": str(PORT)}
        start.env |= {"WORLD_SIZE": str(len(launch.cluster)), "MASTER_ADDR": launch.cluster[0].name}
