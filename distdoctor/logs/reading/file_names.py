"""Whom files are from by their names together: what SLURM makes of ``--output %x-%j-%N-%t.out``, torchrun's log folders
of several nodes. One name alone does not tell a host from any other word."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from distdoctor.model.facts.logs import Who

_TASK = re.compile(
    r"(?P<folder>.*/|)(?P<job>[^/]*?(?<!\d)\d{2,12})[._-](?P<host>(?=[A-Za-z_.-]{1,62}\d)(?!(?:rank|task|proc|local|std|out|err|log|try|"
    r"attempt|restart|step|part)(?:[._-]?\d|[._-]|$))[A-Za-z](?:[\w-]|\.(?=\w+[._-])){0,62}?)"
    r"(?:[._-](?P<task>\d{1,6}))?(?P<stream>[._-](?:std)?(?:out|err)|)(?:\.(?:out|err|log|txt))?(?:\.(?:gz|zst|xz|bz2))?",
    re.S,
)
"""The job's name and number, the host, the number of the task."""
_STEP = re.compile(r"(?P<job>.*(?<!\d)\d{2,12})_(?P<task>\d{1,5})(?P<end>\.(?:out|err|log))", re.S)
"""What srun writes of a task (``--output slurm-%j_%t.out``) beside the log of the job; a job of an array has none."""
_STREAMS = re.compile(
    r"(?P<job>(?:.*/)?(?:[^/]{0,200}(?<!\d)(?<!run)(?<!exp)(?<!try)(?<!epoch)(?<!trial)(?<!fold)(?<!seed)(?<!eval)[._-])?)"
    r"(?P<task>\d{1,5})[._-](?:std)?(?P<stream>out|err)(?:\.(?:log|txt))?",
    re.S,
)
"""The same where both streams have a file (``--output job.%t.out --error job.%t.err``)."""
_ON_HOST = re.compile(
    r"(?P<job>.*/|)(?P<host>[A-Za-z][A-Za-z_-]{0,40}\d{1,6}(?:[a-z]\d{1,4}){0,4})[._-](?P<task>\d{1,6})"
    r"(?P<end>[._-](?:std)?(?:out|err)|)(?:\.(?:out|err|log|txt))?",
    re.S,
)
"""A host and a task, with no job (``%N.%t.log``)."""
_RUN = re.compile(
    r"(?:.*/|)(?!(?:run|exp|try|attempt|restart|logs?|out|job|tmp|torchelastic)[^/]{0,20}/)(?P<host>[A-Za-z][\w.-]{0,62})"
    r"/[^/]+/attempt_\d{1,6}/\d{1,6}/[^/]+",
    re.S,
)
"""A folder for each node, in it torchrun's --log-dir with a folder for its run."""


def natural(name: str) -> list[tuple[int, str]]:
    """By what names are put in order so that 2 comes before 10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,9})", name)]


_RESTART = re.compile(r"(?:^|/)attempt_[1-9]\d{0,5}/\d{1,6}/std(?:out|err)\.log")
"""What a rank writes that torchrun has started again: where it says nothing yet, that it was is known by its file."""


def is_of_restart(name: str) -> bool:
    """Return whether this is a file of torchrun's --log-dir of ranks that were started again."""
    return _RESTART.search(name) is not None


NEAR = 3
"""Parts of the path of a file that is named by itself, the last ones, that may tell whom it is from."""


def above(name: str, folder: str) -> int:
    """Return how many characters ``name`` begins with that tell a place of the disk, and no host of the job: what
    stands before ``folder``, in which it was found; where it was named by itself, all but its end."""
    return len(os.path.join(os.path.dirname(folder.rstrip("/")), "")) if folder else len(name) - len(_end_of(name))


def _end_of(name: str) -> str:
    return "/".join(name.split("/")[-NEAR:])


def owners_by_name(names: Iterable[str]) -> dict[str, Who]:
    """Of each file whose name says it beside those of the others, the host; and the rank, where hosts have several
    tasks, all of which are there: one of each host may as well start its ranks."""
    every = [*names]
    found = {name: Who(host=host) for name, host in _of_folders(every).items()}
    jobs: dict[tuple[str, str, str], dict[str, re.Match[str]]] = {}
    for name, task in (_of_step(every) | _of_streams(every)).items():
        found[name] = Who(task=task)
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
            found[name] = Who(rank=int(parts["task"]) if ranks else None, host=parts["host"])
    return found


def _of_step(names: list[str]) -> dict[str, int]:
    steps: dict[tuple[str, str], dict[str, int]] = {}
    for name in names:
        if (parts := _STEP.fullmatch(name)) is not None and parts["job"] + parts["end"] in names:
            steps.setdefault((parts["job"], parts["end"]), {})[name] = int(parts["task"])
    whole = [tasks for tasks in steps.values() if len(tasks) > 1 and sorted(tasks.values()) == [*range(len(tasks))]]
    return {name: task for tasks in whole for name, task in tasks.items()}


def _of_streams(names: Iterable[str]) -> dict[str, int]:
    """Of files of which each number has one stream, from 0 on, and some have the other, the tasks: who says nothing
    leaves that empty."""
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


def _on_hosts(names: Iterable[str]) -> dict[str, Who]:
    """Of files of several hosts whose tasks go on from one host to the next, the ranks."""
    jobs: dict[tuple[str, str], dict[str, Who]] = {}
    for name in names:
        if (parts := _ON_HOST.fullmatch(name)) is not None:
            who = Who(rank=int(parts["task"]), host=parts["host"])
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


# Files that lie beside a job's logs: they are read like these, but not asked how they end.


_QUOTES: tuple[str, ...] = (".csv", ".diff", ".md", ".patch", ".py", ".pyx", ".rst", ".tsv")
_QUOTES += (".c", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".java", ".js")  # not those that a host's name may end in, too
"""Data, texts and programs: what stands there was said by nobody of this job, however much it sounds so."""
_QUOTES += (".cfg", ".conf", ".ini", ".sbatch", ".slurm", ".toml", "requirements.txt")
_YAML = (".yaml", ".yml")
NAMES: tuple[str, ...] = (*_QUOTES, *_YAML, ".html", ".ipynb", ".json", ".sh")
"""How their names end."""
_KEPT = re.compile(
    r"/mlruns/.{0,300}/(?:metrics|params|tags|inputs)/"  # MLflow's, a file for each value
    r"|/(?:[^/]{0,80}[^a-z/])?(?:nvidia-smi|nvidia-bug-report|rocm-smi|amd-smi|ibstat|ibv_devinfo|sacct|scontrol|squeue"
    r"|py-?spy)(?:[^a-z/][^/]{0,80})?$",  # what tools were asked
    re.S,
)

_TABLE = re.compile(
    rb"\s{0,20}(?:Filesystem +(?:Type +)?(?:Size|1K-blocks|1024-blocks|Inodes) |total +used +free +shared|1: lo: <LOOP"
    rb"|Name: +\S{1,253}\r?\nNamespace: |(?:NAMESPACE +)?NAME +READY +STATUS +RESTARTS "
    rb"|JobID\||REASON +USER +TIMESTAMP +NODELIST)"
)
"""How what a tool told begins, whatever its file is called."""

PARSABLE = b"JobID|"
"""How sacct --parsable2 begins, which has no spaces between its columns."""
_OF_WANDB = re.compile(
    r"(?:^|/)(?:wandb/(?:[^/]{1,100}/logs/)?|(?:offline-)?run-\d{8}_\d{6}-\w{1,64}/logs/)debug(?:-\w{1,16})?\.log$"
)
"""W&B's processes tell there of what they tried again; what ended the job's is in its own log as well."""

_OBJECT = re.compile(rb"^(?:- )?[ ]{0,4}(?:status:|uid: |creationTimestamp: |resourceVersion: )|^items:\s*$", re.M)
"""What kubectl get -o yaml has of each object, as Kubernetes keeps it, and who writes one has not."""

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
"""What the daemons of a host write into its journal; not what systemd says of a unit, which may be a job."""


def is_of_kernel(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` is the log of a host's kernel, or of its kernel and its
    daemons."""
    kernel, lines = len(_KERNEL.findall(head)), head.count(b"\n")
    return bool(lines and kernel) and (kernel + len(_DAEMON.findall(head))) * 2 > lines


def is_quoted(name: str, head: bytes) -> bool:
    """Return whether what the file of this path holds, which begins with ``head``, says nothing of a job: by its
    name; or as it is a shell's script, or settings, and no object that a cluster has."""
    if name.endswith(_YAML):
        return _OBJECT.search(head) is None
    return name.endswith(_QUOTES) or is_of_tool(name) or (name.endswith(".sh") and head.startswith(b"#!"))


def is_of_tool(name: str) -> bool:
    """Return whether what writes the file of this path, by its name, is no process of the job."""
    return _OF_WANDB.search(name) is not None


def is_no_log(name: str) -> bool:
    """Return whether the file of this path is no log of a job, by its name."""
    return name.endswith(NAMES) or _KEPT.search(name) is not None or is_of_tool(name)


def begins_as_tool(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` is what df, free, ip, sinfo, kubectl describe or get told."""
    return _TABLE.match(head) is not None
