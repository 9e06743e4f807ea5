"""A remote run cannot reach a host.

## What you see
`distdoctor check --hosts ...` could start nothing on a host. ssh ended with status 255, srun or kubectl failed, or the
host did not respond in time. The other hosts are still checked.

## Why it happens
ssh: the host is down, its name is misspelled, sshd does not run, or a firewall blocks it. Its host key is unknown or
has changed. Or ssh would ask for a password.

srun: the job has ended, the node or slurmd is down, or its munge key differs. kubectl: the pod no longer exists.
Ray: the node's raylet has ended, or another Ray job holds its GPUs.

## Fix
Make the login work without questions: `ssh -o BatchMode=yes host1 true`. Under Ray, end the job that holds the GPUs
(`ray status`), or start Ray on that node again.

## Confirm with
`ssh -o BatchMode=yes host1 true; echo $?` prints 0.

## When it is harmless
The job does not start over ssh, and you run the check on that host itself.

## See also
launch/ssh-unreachable, launch/distdoctor-missing, launch/connection-lost
"""

import re
import shlex
from collections.abc import Callable, Iterator

from distdoctor.check_api import Cluster, Finding, Fix, HostCall, some_of

SEVERITY = "fail"
PREVENTS = "plan agreed"
INCOMPLETE = True
CHANGED, UNKNOWN_KEY, REFUSED_LOGIN = "host key has changed", "host key is unknown", "it accepts none of your keys"

NO_ACTOR = "Ray started no actor with "
"""Beginning of a driver's line on a node whose GPUs are not free (distdoctor/remote/ray_driver.py)."""
NO_MESSAGE, NO_SLURMD = "rejects SLURM's messages", "no slurmd answers"


def judge(cluster: Cluster) -> Iterator[Finding]:
    groups: dict[tuple[str, str], list[HostCall]] = {}
    for call in cluster.calls:
        if call.outcome in ("unreached", "silent"):
            groups.setdefault((call.way, reason(call)), []).append(call)
    for (way, why), calls in groups.items():
        names = [call.host for call in calls]
        yield Finding.about(
            names,
            f"{way} cannot reach {some_of(names)}: {why if len(names) == 1 else of_several(why)}.",
            evidence=(call_evidence(call) for call in calls),
            fixes=(remedy(call, why) for call in calls),
        )


REASONS: tuple[tuple[str, str], ...] = (
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for \S+ has changed", f"its {CHANGED}"),
    (r"Host key verification failed", f"its {UNKNOWN_KEY} here"),
    (r"Permission denied|Too many authentication failures|No supported authentication", REFUSED_LOGIN),
    (r"Could not resolve hostname", "its name does not resolve"),
    (r"Zero Bytes were transmitted|[Aa]uthentication (?:error|credential)", f"slurmd there {NO_MESSAGE}"),
    (r"Communication connection failure|Unable to contact slurmd", f"{NO_SLURMD} there"),
    (r"Connection refused", "nothing listens on the ssh port there"),
    (r"Connection timed out|Operation timed out", "it does not answer"),
    (r"No route to host|Network is unreachable", "no route to it"),
    (r"kex_exchange_identification|Connection (?:closed|reset) by", "sshd there ends the connection before the login"),
    (r"Invalid job id|already completing or completed", "the job has ended"),
    (r"Requested nodes are busy|step creation temporarily disabled", "the job's own step blocks a further step"),
    (r"NotFound|not found", "no such pod or container exists"),
)
"""Text of a last line, and its meaning (ssh's sshconnect.c and packet.c, srun, kubectl)."""


def reason(call: HostCall) -> str:
    output = "\n".join(call.said)
    for pattern, why in REASONS:
        if re.search(pattern, output):
            return why
    if call.outcome == "silent":
        return "it did not respond in time"
    return call.said[-1].rstrip(".") if call.said else f"status {call.status}"


def of_several(why: str) -> str:
    """Return the reason in the plural."""
    singular = (("its ", "their "), ("it does", "they do"), ("it did", "they did"), ("it accepts", "they accept"))
    for words, plural in (*singular, ("route to it", "route to them")):
        why = why.replace(words, plural)
    return why


def call_evidence(call: HostCall) -> str:
    ended = f"ended with status {call.status}" if call.status is not None else f"given up after {call.seconds:.0f} s"
    # The box around a changed key says least; its subject stands in the last lines.
    output = [line for line in call.said if re.search(r"[A-Za-z]", line)][-2:]
    return f"{call.host}: {call.way} {ended}{': ' if output else ''}{' / '.join(output)}"


def remedy(call: HostCall, why: str) -> Fix:
    host = shlex.quote(call.host)
    if call.way == "ssh":
        for pattern, fix in BY_SSH:
            if pattern in why:
                return fix(call, host)
        return Fix(f"Start the host and its sshd, until `ssh -o BatchMode=yes {host} true` works here.", (call.host,))
    if call.way == "srun" and NO_MESSAGE in why:
        return Fix(
            "Give it the munge key, the clock and the SLURM version of the other nodes. Confirm key and clock with: "
            f"`munge -n | ssh {host} unmunge`.",
            (call.host,),
        )
    if call.way == "srun" and NO_SLURMD in why:
        return Fix(
            f"Restart slurmd: `ssh {host} systemctl restart slurmd`. Its reason: `systemctl status slurmd`.",
            (call.host,),
        )
    if call.way == "srun":
        return Fix(
            f"Restart the job, or resume the node. Confirm with: `squeue --me`, `sinfo -N -n {host}`.", (call.host,)
        )
    if call.way == "ray" and NO_ACTOR in why:
        return Fix(
            "End the Ray job that holds the GPUs of this node, or check with fewer ranks (--nproc-per-node). Confirm "
            "with: `ray status`, `ray list actors --filter state=ALIVE`.",
            (call.host,),
        )
    if call.way == "ray":
        return Fix(
            "Start Ray on that node again, with the address of the head: `ray stop; ray start --address=HEAD:6379`. "
            "Confirm with: `ray list nodes`.",
            (call.host,),
        )
    return Fix(f"Restart the pod. Confirm with: `kubectl get pod {host}`.", (call.host,))


def changed_key(call: HostCall, host: str) -> Fix:
    line = re.search(r"Offending \S+ key in (\S+):\d+", "\n".join(call.said))
    file = f"-f {shlex.quote(line[1])} " if line else ""
    name = host.rpartition("@")[2]
    return Fix(
        "If you know why the key changed (the host was reinstalled), remove the old key here, then log in once: "
        f"`ssh-keygen {file}-R {name}` and `ssh {host} true`.",
        (call.host,),
    )


def unknown_key(call: HostCall, host: str) -> Fix:
    return Fix(f"Log in once from here and accept its key: `ssh {host} true`.", (call.host,))


def key_for_login(call: HostCall, host: str) -> Fix:
    return Fix(
        f"Install your key there, from here (it asks for the password once): `ssh-copy-id {host}`.", (call.host,)
    )


def known_name(call: HostCall, host: str) -> Fix:
    return Fix(
        f"Correct the name {call.host}, or add it to /etc/hosts or ~/.ssh/config. Confirm with: `getent hosts {host}`.",
        (call.host,),
    )


BY_SSH: tuple[tuple[str, Callable[[HostCall, str], Fix]], ...] = (
    (CHANGED, changed_key),
    (UNKNOWN_KEY, unknown_key),
    (REFUSED_LOGIN, key_for_login),
    ("name does not resolve", known_name),
)
