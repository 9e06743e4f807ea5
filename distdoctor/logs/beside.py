"""Files that lie beside a job's logs: they are read like these, but not asked how they end."""

from __future__ import annotations

import re

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
    """Whether a file that begins with ``head`` is the log of a host's kernel, or of its kernel and its daemons."""
    kernel, lines = len(_KERNEL.findall(head)), head.count(b"\n")
    return bool(lines and kernel) and (kernel + len(_DAEMON.findall(head))) * 2 > lines


def is_quoted(name: str, head: bytes) -> bool:
    """Whether what the file of this path holds, which begins with ``head``, says nothing of a job: by its name; or as
    it is a shell's script, or settings, and no object that a cluster has."""
    if name.endswith(_YAML):
        return _OBJECT.search(head) is None
    return name.endswith(_QUOTES) or is_of_tool(name) or (name.endswith(".sh") and head.startswith(b"#!"))


def is_of_tool(name: str) -> bool:
    """Whether what writes the file of this path, by its name, is no process of the job."""
    return _OF_WANDB.search(name) is not None


def is_beside(name: str) -> bool:
    """Whether the file of this path is no log of a job, by its name."""
    return name.endswith(NAMES) or _KEPT.search(name) is not None or is_of_tool(name)


def begins_as_tool(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is what df, free, ip, sinfo, kubectl describe or get told."""
    return _TABLE.match(head) is not None
