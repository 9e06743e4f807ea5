"""Ranks, hosts and kinds of files by their names: a job's log files together, and files that are no logs of a job.

SLURM's ``--output %x-%j-%N-%t.out`` and torchrun's log folders of several nodes are recognized by all names together: a
single name does not distinguish a host from any other word.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from distdoctor.model.facts.logs import LineOrigin

_TASK = re.compile(
    r"(?P<folder>.*/|)(?P<job>[^/]*?(?<!\d)\d{2,12})[._-](?P<host>(?=[A-Za-z_.-]{1,62}\d)(?!(?:rank|task|proc|local|std|out|err|log|try|"
    r"attempt|restart|step|part)(?:[._-]?\d|[._-]|$))[A-Za-z](?:[\w-]|\.(?=\w+[._-])){0,62}?)"
    r"(?:[._-](?P<task>\d{1,6}))?(?P<stream>[._-](?:std)?(?:out|err)|)(?:\.(?:out|err|log|txt))?(?:\.(?:gz|zst|xz|bz2))?",
    re.S,
)
"""Job name and number, host, task number."""
_STEP = re.compile(r"(?P<job>.*(?<!\d)\d{2,12})_(?P<task>\d{1,5})(?P<end>\.(?:out|err|log))", re.S)
"""File of a task by srun (``--output slurm-%j_%t.out``) beside the job's log; a job of an array has none."""
_STREAMS = re.compile(
    r"(?P<job>(?:.*/)?(?:[^/]{0,200}(?<!\d)(?<!run)(?<!exp)(?<!try)(?<!epoch)(?<!trial)(?<!fold)(?<!seed)(?<!eval)[._-])?)"
    r"(?P<task>\d{1,5})[._-](?:std)?(?P<stream>out|err)(?:\.(?:log|txt))?",
    re.S,
)
"""The same with a file for each stream (``--output job.%t.out --error job.%t.err``)."""
_ON_HOST = re.compile(
    r"(?P<job>.*/|)(?P<host>[A-Za-z][A-Za-z_-]{0,40}\d{1,6}(?:[a-z]\d{1,4}){0,4})[._-](?P<task>\d{1,6})"
    r"(?P<end>[._-](?:std)?(?:out|err)|)(?:\.(?:out|err|log|txt))?",
    re.S,
)
"""Host and task without a job (``%N.%t.log``)."""
_RUN = re.compile(
    r"(?:.*/|)(?!(?:run|exp|try|attempt|restart|logs?|out|job|tmp|torchelastic)[^/]{0,20}/)(?P<host>[A-Za-z][\w.-]{0,62})"
    r"/[^/]+/attempt_\d{1,6}/\d{1,6}/[^/]+",
    re.S,
)
"""Folder per node, with torchrun's --log-dir and a folder for its run in it."""


def natural_sort_key(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts 2 before 10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,9})", name)]


_RESTART = re.compile(r"(?:^|/)attempt_[1-9]\d{0,5}/\d{1,6}/std(?:out|err)\.log")
"""File of a rank that torchrun restarted: while it is empty, its name alone shows the restart."""


def is_of_restart(name: str) -> bool:
    """Return whether this is a file of torchrun's --log-dir from restarted ranks."""
    return _RESTART.search(name) is not None


NEAR = 3
"""Last parts of the path of a file given by itself that may name its rank and host."""


def prefix_length(name: str, folder: str) -> int:
    """Return the length of the part of ``name`` that is only a place on the disk and names no host.

    That is the part before ``folder``, in which it was found; for a file given by itself, everything but its end.
    """
    return len(os.path.join(os.path.dirname(folder.rstrip("/")), "")) if folder else len(name) - len(_end_of(name))


def _end_of(name: str) -> str:
    return "/".join(name.split("/")[-NEAR:])


def owners_by_name(names: Iterable[str]) -> dict[str, LineOrigin]:
    """Return the host of each file whose name gives it in the context of the others.

    The rank, too, where hosts have several tasks, all of which are there: a single task per host may be the launcher of
    its ranks.
    """
    every = [*names]
    found = {name: LineOrigin(host=host) for name, host in _of_folders(every).items()}
    jobs: dict[tuple[str, str, str], dict[str, re.Match[str]]] = {}
    for name, task in (_of_step(every) | _of_streams(every)).items():
        found[name] = LineOrigin(task=task)
    found.update(_on_hosts(every))
    for name in every:
        if (parts := _TASK.fullmatch(name)) is not None:
            kind = name[parts.end("task") if parts["task"] else parts.end("host") :]
            jobs.setdefault((parts["folder"], parts["job"], kind), {})[name] = parts
    for files in jobs.values():
        hosts = {parts["host"] for parts in files.values()}
        tasks = [int(parts["task"]) for parts in files.values() if parts["task"]]
        if len(hosts) < 2:
            continue
        ranks = len(tasks) == len(files) > len(hosts) and sorted(tasks) == [*range(len(tasks))]
        for name, parts in files.items():
            found[name] = LineOrigin(rank=int(parts["task"]) if ranks else None, host=parts["host"])
    return found


def _of_step(names: list[str]) -> dict[str, int]:
    steps: dict[tuple[str, str], dict[str, int]] = {}
    for name in names:
        if (parts := _STEP.fullmatch(name)) is not None and parts["job"] + parts["end"] in names:
            steps.setdefault((parts["job"], parts["end"]), {})[name] = int(parts["task"])
    whole = [tasks for tasks in steps.values() if len(tasks) > 1 and sorted(tasks.values()) == [*range(len(tasks))]]
    return {name: task for tasks in whole for name, task in tasks.items()}


def _of_streams(names: Iterable[str]) -> dict[str, int]:
    """Return the tasks, if every number from 0 has a file for one stream, and some for the other.

    A silent task has an empty file.
    """
    jobs: dict[str, dict[str, dict[int, str]]] = {}
    for name in names:
        if (parts := _STREAMS.fullmatch(name)) is not None:
            jobs.setdefault(parts["job"], {}).setdefault(parts["stream"], {})[int(parts["task"])] = name
    return {
        name: task
        for streams in jobs.values()
        if len(streams) == 2 and (whole := max(map(len, streams.values()))) > 1
        if {*streams["out"], *streams["err"]} == {*range(whole)}
        for files in streams.values()
        for task, name in files.items()
    }


def _on_hosts(names: Iterable[str]) -> dict[str, LineOrigin]:
    """Return the ranks, if task numbers of several hosts continue from one host to the next."""
    jobs: dict[tuple[str, str], dict[str, LineOrigin]] = {}
    for name in names:
        if (parts := _ON_HOST.fullmatch(name)) is not None:
            who = LineOrigin(rank=int(parts["task"]), host=parts["host"])
            jobs.setdefault((parts["job"], parts["end"]), {})[name] = who
    return {
        name: who
        for files in jobs.values()
        if len({one.host for one in files.values()}) > 1
        if sorted(one.rank or 0 for one in files.values()) == [*range(len(files))] and len(files) > 2
        for name, who in files.items()
    }


def _of_folders(names: Iterable[str]) -> dict[str, str]:
    runs = {name: parts["host"] for name in names if (parts := _RUN.fullmatch(name)) is not None}
    return runs if len({*runs.values()}) > 1 else {}


# Files that lie next to a job's logs: they are read, but not judged by how they end.


_QUOTES: tuple[str, ...] = (".csv", ".diff", ".md", ".patch", ".py", ".pyx", ".rst", ".tsv")
_QUOTES += (".c", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".java", ".js")  # no suffixes that a hostname may have, too
"""Data, texts and programs: what stands there was said by nobody of this job, however much it sounds so."""
_QUOTES += (".cfg", ".conf", ".ini", ".sbatch", ".slurm", ".toml", "requirements.txt")
_YAML = (".yaml", ".yml")
NAMES: tuple[str, ...] = (*_QUOTES, *_YAML, ".html", ".ipynb", ".json", ".sh")
"""Suffixes of these files."""
_KEPT = re.compile(
    r"/mlruns/.{0,300}/(?:metrics|params|tags|inputs)/"  # MLflow's, a file for each value
    r"|/(?:[^/]{0,80}[^a-z/])?(?:nvidia-smi|nvidia-bug-report|rocm-smi|amd-smi|ibstat|ibv_devinfo|sacct|scontrol|squeue"
    r"|py-?spy)(?:[^a-z/][^/]{0,80})?$",  # output of diagnostic tools
    re.S,
)

_TABLE = re.compile(
    rb"\s{0,20}(?:Filesystem +(?:Type +)?(?:Size|1K-blocks|1024-blocks|Inodes) |total +used +free +shared|1: lo: <LOOP"
    rb"|Name: +\S{1,253}\r?\nNamespace: |(?:NAMESPACE +)?NAME +READY +STATUS +RESTARTS "
    rb"|\{ ?\"header\": ?\{ ?\"id\": ?\"0x"  # NCCL Inspector
    rb"|=+NVSMI LOG=+|JobID\||REASON +USER +TIMESTAMP +NODELIST)"
)
"""Beginning of a tool's output, whatever its file is called."""

_OF_WANDB = re.compile(
    r"(?:^|/)(?:wandb/(?:[^/]{1,100}/logs/)?|(?:offline-)?run-\d{8}_\d{6}-\w{1,64}/logs/)debug(?:-\w{1,16})?\.log$"
)
"""Log of W&B's own processes, which report retries there; fatal errors are in the job's own log, too."""

_OBJECT = re.compile(rb"^(?:- )?[ ]{0,4}(?:status:|uid: |creationTimestamp: |resourceVersion: )|^items:\s*$", re.M)
"""Object as kubectl get -o yaml prints it from Kubernetes; a file that a person wrote has no such fields."""

_KERNEL = re.compile(
    rb"^(?:<\d+>)?\[ *\d+\.\d{3,6}\]|^\d,\d+,\d+,[-c]|\bkernel: |^\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d", re.M
)
_DAEMON = re.compile(
    rb"^[A-Z\d][\w:.+-]{2,40}(?: {1,2}\d{1,2} \d\d:\d\d:\d\d)? \S{1,64} (?:systemd[\w-]{0,20}|sshd|CRON|crond?|sudo"
    rb"|su|dbus-daemon|NetworkManager|dhclient|chronyd|ntpd|rsyslogd|auditd?|polkitd|containerd|dockerd|kubelet|slurmd"
    rb"|snapd|irqbalance|smartd|multipathd|sssd\w{0,8}|munged|agetty)(?:\[\d{1,9}\])?: "
    rb"(?!\S{1,80}\.(?:service|scope): )",
    re.M,
)
"""Line of a host's daemons in its journal, but not systemd's lines about a unit, which may be a job."""


def is_of_kernel(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` is the log of a host's kernel, with or without its daemons."""
    kernel, lines = len(_KERNEL.findall(head)), head.count(b"\n")
    return bool(lines and kernel) and (kernel + len(_DAEMON.findall(head))) * 2 > lines


def is_quoted(name: str, head: bytes) -> bool:
    """Return whether a file with this path and ``head`` is no evidence about a job: a shell script or settings.

    An object that a cluster holds is evidence.
    """
    if name.endswith(_YAML):
        return _OBJECT.search(head) is None
    return name.endswith(_QUOTES) or is_of_tool(name) or (name.endswith(".sh") and head.startswith(b"#!"))


def is_of_tool(name: str) -> bool:
    """Return whether the file's name shows that no process of the job writes it."""
    return _OF_WANDB.search(name) is not None


def is_no_log(name: str) -> bool:
    """Return whether the file's name shows that it is no log of a job."""
    return name.endswith(NAMES) or _KEPT.search(name) is not None or is_of_tool(name)


def begins_as_tool(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` is the output of df, free, ip, sinfo, kubectl describe or get."""
    return _TABLE.match(head) is not None
