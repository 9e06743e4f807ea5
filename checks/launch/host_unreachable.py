"""A host of a run from one place could not be reached.

What you see
------------
`distdoctor check --hosts ...` says that nothing could be started on a host: ssh ended with status 255, srun or kubectl
with an error, or nothing came from there in time. The other hosts are checked all the same.

Why it happens
--------------
The host is down or its name is mistyped; no sshd runs there, or a firewall is before it; its host key is unknown here
or not the one that is known (it was installed anew, or it is another host); ssh would have to ask for a password, which
nobody could answer. A step of SLURM does not start where the job is over or its node is down, nor where slurmd is dead
or has another munge key than the others; a pod may be gone.

Fix
---
Make the command work by hand without any question: `ssh -o BatchMode=yes HOST true`.

When it is harmless
-------------------
For a job that is not started over ssh, as long as the check is started on that host itself.

See also
--------
launch/ssh-unreachable, launch/distdoctor-missing, launch/connection-lost
"""

import re
import shlex
from collections.abc import Callable, Iterator

from distdoctor.check_api import Cluster, Finding, Fix, HostCall, some_of

SEVERITY = "fail"
PREVENTS = "plan agreed"
INCOMPLETE = True
CHANGED, UNKNOWN_KEY, REFUSED_LOGIN = "host key has changed", "host key is not known", "it lets no key of yours in"

NO_MESSAGE, NO_SLURMD = "takes no message of SLURM's", "no slurmd answers"


def judge(cluster: Cluster) -> Iterator[Finding]:
    groups: dict[tuple[str, str], list[HostCall]] = {}
    for call in cluster.calls:
        if call.outcome in ("unreached", "silent"):
            groups.setdefault((call.way, reason(call)), []).append(call)
    for (way, why), calls in groups.items():
        names = [call.host for call in calls]
        yield Finding.about(
            names,
            f"{some_of(names)} could not be reached by {way}: {why if len(names) == 1 else of_several(why)}.",
            evidence=(seen(call) for call in calls),
            fixes=(remedy(call, why) for call in calls),
        )


REASONS: tuple[tuple[str, str], ...] = (
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for \S+ has changed", f"its {CHANGED}"),
    (r"Host key verification failed", f"its {UNKNOWN_KEY} here"),
    (r"Permission denied|Too many authentication failures|No supported authentication", REFUSED_LOGIN),
    (r"Could not resolve hostname", "its name is not known here"),
    (r"Zero Bytes were transmitted|[Aa]uthentication (?:error|credential)", f"slurmd there {NO_MESSAGE}"),
    (r"Communication connection failure|Unable to contact slurmd", f"{NO_SLURMD} there"),
    (r"Connection refused", "nothing listens on ssh's port there"),
    (r"Connection timed out|Operation timed out", "it does not answer"),
    (r"No route to host|Network is unreachable", "there is no way to it"),
    (r"kex_exchange_identification|Connection (?:closed|reset) by", "sshd there ends the connection before the login"),
    (r"Invalid job id|already completing or completed", "the job is over"),
    (r"Requested nodes are busy|step creation temporarily disabled", "the step does not start beside the job's own"),
    (r"NotFound|not found", "there is no such pod or container"),
)
"""What a last line says, and what that means (ssh's sshconnect.c and packet.c, srun, kubectl)."""


def reason(call: HostCall) -> str:
    said = "\n".join(call.said)
    for pattern, why in REASONS:
        if re.search(pattern, said):
            return why
    if call.outcome == "silent":
        return "nothing was heard of it in time"
    return call.said[-1].rstrip(".") if call.said else f"status {call.status}"


def of_several(why: str) -> str:
    """The reason, said of several hosts."""
    for one, several in (("its ", "their "), ("it does", "they do"), ("way to it", "way to them")):
        why = why.replace(one, several)
    return why


def seen(call: HostCall) -> str:
    ended = f"ended with status {call.status}" if call.status is not None else f"given up after {call.seconds:.0f} s"
    # The loud box around a changed key says least; what it is about stands in its last lines.
    said = [line for line in call.said if re.search(r"[A-Za-z]", line)][-2:]
    return f"{call.host}: {call.way} {ended}{': ' if said else ''}{' / '.join(said)}"


def remedy(call: HostCall, why: str) -> Fix:
    host = shlex.quote(call.host)
    if call.way == "ssh":
        for pattern, fix in BY_SSH:
            if pattern in why:
                return fix(call, host)
        return Fix(f"make `ssh -o BatchMode=yes {host} true` work from here: is the host up, and sshd?", (call.host,))
    if call.way == "srun" and NO_MESSAGE in why:
        return Fix(
            f"give it the munge key, the clock and the version of the others: `munge -n | ssh {host} unmunge` says "
            "whether key and clock agree.",
            (call.host,),
        )
    if call.way == "srun" and NO_SLURMD in why:
        return Fix(f"start it again: `ssh {host} systemctl status slurmd` says why it ended.", (call.host,))
    if call.way == "srun":
        return Fix(f"see whether the job and the node are there: `squeue --me`, `sinfo -N -n {host}`.", (call.host,))
    return Fix(f"see whether the pod runs: `kubectl get pod {host}`.", (call.host,))


def changed_key(call: HostCall, host: str) -> Fix:
    found = re.search(r"Offending \S+ key in (\S+):\d+", "\n".join(call.said))
    file = f"-f {shlex.quote(found[1])} " if found else ""
    name = host.rpartition("@")[2]
    return Fix(
        f"only if you know why (it was installed anew): here, forget its old key, then log in once: "
        f"`ssh-keygen {file}-R {name}` and `ssh {host} true`.",
        (call.host,),
    )


def unknown_key(call: HostCall, host: str) -> Fix:
    return Fix(f"log in once from here and say yes to its key: `ssh {host} true`.", (call.host,))


def key_for_login(call: HostCall, host: str) -> Fix:
    return Fix(f"let your key in, from here (it asks for the password once): `ssh-copy-id {host}`.", (call.host,))


def known_name(call: HostCall, host: str) -> Fix:
    return Fix(
        f"is {call.host} mistyped? `getent hosts {host}` and ~/.ssh/config say what it means here.", (call.host,)
    )


BY_SSH: tuple[tuple[str, Callable[[HostCall, str], Fix]], ...] = (
    (CHANGED, changed_key),
    (UNKNOWN_KEY, unknown_key),
    (REFUSED_LOGIN, key_for_login),
    ("name is not known", known_name),
)
