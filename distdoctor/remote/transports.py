"""Transports to a host: ssh, srun into a running job, kubectl exec into a pod, an actor of Ray (``ray_cluster``). Each
is a local command line.

The remote command is one line of shell, the same for all: it finds distdoctor and starts ``distdoctor remote``, which
reads its order on stdin and writes its facts to stdout.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from distdoctor import own_path
from distdoctor.model.errors import UsageError
from distdoctor.model.host_calls import HostTransport

CONNECT_SECONDS = 15
"""Limit of ssh's connection. After it the connected hosts begin; a later one may still join them."""
ASK_SECONDS = 20
"""Limit for squeue or kubectl to list the hosts."""
ABSENT = 117
"""Status of the remote line if it found no distdoctor. No shell's own: 127 is also that of a login shell whose start-up
file names a missing command, which never reaches the line."""
SSH = (
    "ssh",
    # Nobody could answer a question: a login that needs a password is refused.
    "-oBatchMode=yes",
    f"-oConnectTimeout={CONNECT_SECONDS}",
    # The far end may disappear silently, as a machine that loses its power.
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3",
    "-oForwardAgent=no",
    "-oForwardX11=no",
    "-T",
)


@dataclass(frozen=True)
class HostTarget:
    """One host, and the command that connects to it."""

    host: NamedHost
    way: HostTransport
    before: tuple[str, ...]
    """Local command line, before the remote command."""
    address: str = ""
    """Address, if its name means nothing to the other hosts, as that of a pod."""
    until: str = ""
    """Last stage of a check there: its imports begin before the order has arrived."""
    gpus: int = 0
    """GPUs of the node that Ray gives to its actors; 0 with any other transport."""
    cpus: int = 0
    """The same of CPUs, as Ray counts them."""
    shares: bool = False
    """True if further actors of Ray are meant to run on its node."""

    def command(self, setup: str | None) -> list[str]:
        """Return the whole command line. ``setup``: a line of shell that runs there first."""
        line = remote_line(setup, self.until)
        if self.way == "ray":  # a worker has a folder of its own, and its Python is $0
            line = remote_line(setup, self.until, cwd="", python='"$0"')
        if self.way == "ssh":  # its words are joined, and the user's own shell reads them
            return [*self.before, f"sh -c {shlex.quote(line)}"]
        return [*self.before, "sh", "-c", line]


def remote_line(setup: str | None, until: str = "", cwd: str | None = None, python: str = "python3") -> str:
    """Return the remote line of shell: it starts the distdoctor of this machine if the host sees the same files, as on
    most clusters, else the one on its PATH, else that of its ``python``.

    ``until``: for a check up to that stage, which then starts in ``cwd`` (the folder of this machine), if it exists
    there.
    """
    own, package = sys.executable, Path(__file__).resolve().parents[1]
    # Only if it is what makes this one found: it precedes installed packages.
    needed = str(package.parent) in os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = f"PYTHONPATH={shlex.quote(str(package.parent))}${{PYTHONPATH:+:$PYTHONPATH}} " if needed else ""
    one_file, start = own_path.archive, "-m distdoctor"
    words = f"remote --until {until}" if until else "remote"
    cwd = os.getcwd() if cwd is None else cwd
    there = (f"cd {shlex.quote(cwd)} 2>/dev/null",) if until and cwd else ()
    if one_file:
        path, start = "", shlex.quote(one_file)
    here = (
        f"[ -x {shlex.quote(own)} ] && [ -e {shlex.quote(one_file or str(package / '__main__.py'))} ] && "
        f"{path}exec {shlex.quote(own)} {start} {words}"
    )
    return "; ".join(
        (
            *((setup, *there) if setup else (*there, here)),
            f"command -v distdoctor >/dev/null && exec distdoctor {words}",
            f"{python} -c 'import distdoctor' 2>/dev/null && exec {python} -m distdoctor {words}",
            f"exit {ABSENT}",
        )
    )


def by_ssh(hosts: Sequence[NamedHost]) -> tuple[HostTarget, ...]:
    """Return every host by ssh, with the user's own configuration of it."""
    return tuple(HostTarget(host, "ssh", (*SSH, "--", host.name)) for host in hosts)


def into_slurm_job(job: str) -> tuple[HostTarget, ...]:
    """Return every node of a running SLURM job, beside its steps; of a heterogeneous one those of all its components.

    Raises UsageError, with its nodes if it has ended: no step can start in such a job.
    """
    asks = ["squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%A|%i|%T|%N"]
    rows = [line.strip().split("|") for line in _output_of("--slurm-job", asks).splitlines()]
    jobs = [(number, name, state, nodes) for number, name, state, nodes in (row for row in rows if len(row) == 4)]
    running = [(number, name, nodes) for number, name, state, nodes in jobs if state == "RUNNING" and nodes]
    if len({name.partition("+")[0] for _, name, _ in running}) > 1:  # an array: 7_1, 7_2; of components: 7+0, 7+1
        raise UsageError(f"--slurm-job {job}: several jobs run, name one: {', '.join(name for _, name, _ in running)}")
    if not running:
        raise UsageError(f"--slurm-job {job}: {_not_running(jobs)}")
    # One task on each node, with the job's resources: without --overlap it would wait for the job's own steps to end.
    step = ("srun", "--overlap", "--nodes=1", "--ntasks=1", "--unbuffered", "--quiet")
    found: dict[str, HostTarget] = {}
    for number, _, nodes in running:
        for host in hosts_named(nodes):
            found.setdefault(
                host.name, HostTarget(host, "srun", (*step, f"--jobid={number}", f"--nodelist={host.name}"))
            )
    return tuple(found.values())


def _not_running(jobs: Sequence[tuple[str, str, str, str]]) -> str:
    """Return why no step can start in this job, as far as SLURM still knows it, and how to reach its nodes."""
    ended = next((one for one in jobs if one[3]), None)
    if ended is not None:
        return f"it is {ended[2]}; it ran on {ended[3]}, where ssh may still lead: --hosts {ended[3]}"
    return f"it is {jobs[0][2]}" if jobs else "no such job is running (see squeue --me)"


def into_pods(selector: str, namespace: str | None, container: str | None = None) -> tuple[HostTarget, ...]:
    """Return every running pod with these labels. Raises UsageError."""
    where = [f"--namespace={namespace}"] if namespace else []
    text = _output_of("--pods", ["kubectl", "get", "pods", *where, f"--selector={selector}", "--output=json"])
    try:
        pods = json.loads(text)["items"]
        found = [(pod["metadata"]["name"], pod["status"].get("podIP", ""), pod["status"].get("phase")) for pod in pods]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError("--pods: kubectl did not tell of pods as JSON") from None
    running = sorted((name, address) for name, address, phase in found if phase == "Running")
    if not running:
        others = f"; {len(found)} are not running yet" if found else ""
        raise UsageError(f"--pods {selector}: no pod of that selector is running{others}")
    inside = [f"--container={container}"] if container else []
    return tuple(
        HostTarget(NamedHost(name), "kubectl", ("kubectl", "exec", "--stdin", *where, *inside, name, "--"), address)
        for name, address in sorted(running, key=_of_pod)
    )


def _of_pod(pod: tuple[str, str]) -> tuple[object, ...]:
    """Sort key of pods by their ranks: the master first, then by number (worker-2 before worker-10)."""
    words = pod[0].split("-")
    return "master" not in words, [(int(word), "") if word.isdecimal() else (-1, word) for word in words]


def address_of(target: HostTarget) -> str:
    """Return the address of this host for the others: its name as ssh's configuration expands it."""
    if target.address or target.way != "ssh":
        return target.address or target.host.name
    return _configured(target.host.name).get("hostname") or target.host.name.rpartition("@")[2]


def _configured(name: str) -> dict[str, str]:
    """Return ssh's configuration of a name; empty if it gives none."""
    try:
        done = subprocess.run(["ssh", "-G", "--", name], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


def _output_of(flag: str, command: Sequence[str]) -> str:
    """Return the output of a command of the site. Raises UsageError if it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=ASK_SECONDS, check=False, env=os.environ
        )
    except FileNotFoundError:
        raise UsageError(f"{flag} needs {command[0]}, which is not on PATH here") from None
    except (OSError, subprocess.TimeoutExpired) as err:
        raise UsageError(f"{flag}: {command[0]}: {err}") from None
    if done.returncode != 0:
        last_line = (done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}").splitlines()[-1]
        raise UsageError(f"{flag}: {command[0]}: {last_line[:300]}")
    return done.stdout


# Hosts of a remote run, as people name them: ``gpu[01-16],extra7``, or a hostfile.


MOST = 10_000
"""Limit of the hosts: more are a mistyped number."""
MOST_BYTES = 4 << 20
"""Limit of a hostfile."""


@dataclass(frozen=True)
class NamedHost:
    """One host as it was named."""

    name: str
    """Name for ssh: it may have ``user@`` before it, and may be known to ~/.ssh/config alone."""
    slots: int | None = None
    """Ranks in its hostfile."""


def hosts_named(text: str) -> tuple[NamedHost, ...]:
    """Return the hosts of ``--hosts``, in the order in which they are named: the first is node 0. Raises UsageError."""
    return _distinct(
        "--hosts", (NamedHost(name) for part in _parts(text) for name in _expanded("--hosts", part) if name)
    )


def hosts_in_file(path: Path) -> tuple[NamedHost, ...]:
    """Return the hosts of a hostfile: a line each, ``HOST``, ``HOST slots=8`` (Open MPI, DeepSpeed) or ``HOST:8``
    (MPICH).

    ``#`` begins a comment; Open MPI's other options (``max_slots=``) are left out. Raises UsageError.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(MOST_BYTES)
    except OSError as err:
        raise UsageError(f"--hostfile {path}: {err.strerror}") from None
    found: list[NamedHost] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        name, _, count = words[0].partition(":") if not words[0].startswith("[") else (words[0], "", "")
        for word in words[1:]:
            key, equals, value = word.partition("=")
            if key in ("slots", "cpu") and equals:
                count = value
        if count and not re.fullmatch(r"[1-9]\d{0,4}", count):
            raise UsageError(f"--hostfile {path}, line {number}: {count!r} is no number of slots")
        found += (NamedHost(one, int(count) if count else None) for one in _expanded(f"--hostfile {path}", name))
    return _distinct(f"--hostfile {path}", found)


def _parts(text: str) -> list[str]:
    """Return the parts between the commas outside of brackets."""
    return [part.strip() for part in re.split(r",(?![^\[\]]*\])", text)]


def _expanded(flag: str, part: str) -> list[str]:
    """Return one part with its ranges expanded; ``@group`` is ClusterShell's. Raises UsageError."""
    if not part:
        return []
    if not re.search(r"[\[\]@]", part.partition("@")[2] if "@" in part[1:] else part):
        return [_checked(flag, part)]
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    user, at, hosts = part.rpartition("@") if "@" in part[1:] else ("", "", part)
    try:
        nodes = NodeSet(hosts)
        if len(nodes) > MOST:
            raise UsageError(f"{flag} {part}: {len(nodes)} hosts are more than {MOST}")
        return [_checked(flag, f"{user}{at}{name}") for name in nodes]
    except (NodeSetException, OSError) as err:
        raise UsageError(f"{flag} {part}: {' '.join(str(err).split())}") from None


def _checked(flag: str, name: str) -> str:
    """Return ``name``, if it can be one. ssh would take a leading dash for an option."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@:%\-]{0,254}", name):
        raise UsageError(f"{flag}: {name!r} is no name of a host")
    if port := re.fullmatch(r"([^:]+):(\d+)", name):
        raise UsageError(
            f"{flag}: {name} has a port in it; ssh's port of a host goes into ~/.ssh/config: `Host {port[1]}` and "
            f"below it `Port {port[2]}`"
        )
    return name


def _distinct(flag: str, hosts: Iterable[NamedHost]) -> tuple[NamedHost, ...]:
    found: dict[str, NamedHost] = {}
    for host in hosts:
        if host.name in found:
            raise UsageError(
                f"{flag} names {host.name} twice; several nodes of one host cannot be checked from one place"
            )
        found[host.name] = host
    if not found:
        raise UsageError(f"{flag} names no host")
    if len(found) > MOST:
        raise UsageError(f"{flag}: {len(found)} hosts are more than {MOST}")
    return tuple(found.values())


# Limit of open files: a connection to a host takes three, and a shell often allows 1,024 at first.


FILES_A_HOST, OWN_FILES = 3, 64
"""stdin, stdout and stderr of the command that connects to a host; further open files, also for a moment at its
start."""


def make_room(hosts: int) -> None:
    """Raise the limit of this process and its children for ``hosts`` connections. Raises UsageError if that is not
    allowed."""
    needed = FILES_A_HOST * hosts + OWN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise UsageError(
                f"{hosts} hosts at a time need {needed} open files here, and this shell may have {hard} (ulimit -Hn): "
                f"name at most {max(1, (hard - OWN_FILES) // FILES_A_HOST)} hosts"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
