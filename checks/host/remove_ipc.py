"""systemd-logind removes the job's shared memory at a logout.

## What you see
`could not unlink the shared memory file /torch_...: No such file or directory`, `FileNotFoundError` of a SemLock.

## Why it happens
With RemoveIPC=yes systemd-logind removes all shared memory of a user when the user's last login session ends. A job of
a batch system or daemon belongs to no session, and loses its memory, too. Any ssh login that ends is such a session.

## Fix
Let the user linger, `loginctl enable-linger $USER`, or set RemoveIPC=no in /etc/systemd/logind.conf.

## Confirm with
`loginctl show-user $USER -p Linger` prints Linger=yes.

## When it is harmless
At the end of a job, for system users (uid below 1000), and while no user logs in. Before a job it is therefore only
INFO.

## See also
host/shared-memory-small
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, names_of

SEVERITY = "fail"
PREVENTS = "store used"
RESTART = "yes"
NEXT = ("the setting of systemd-logind", "grep -r RemoveIPC /etc/systemd/logind.conf*")
LOOKS_AT = ("host.account",)
FIRST_USER = 1000
"""logind spares system users: those up to SYSTEM_UID_MAX, 999 (logind-user.c, user_finalize())."""
LOG = (Line("could not unlink the shared memory file", shows="symptom", why="a killed process shows the same"),)


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if at_risk(node)]
    if bad:
        yield Finding.about(
            bad,
            f"systemd-logind on {names_of(bad)} removes the job's shared memory when its user's last login session "
            "ends.",
            severity="info",
            evidence=(
                f"{node.name}: systemd-logind has RemoveIPC=yes, {node.identity.user} does not linger, and this "
                "process belongs to no login session"
                for node in bad
            ),
            fixes=(
                Fix.on(
                    node,
                    "Keep the user's shared memory after the last logout.",
                    commands=(f"loginctl enable-linger {node.identity.user}",),
                )
                for node in bad
            ),
        )


def at_risk(node: Node) -> bool:
    account = node.host.account
    if account is None or account.uid < FIRST_USER or account.lingers or account.in_session:
        return False
    # Who is not in the user database cannot log in, so that no session of theirs ends; nor can they linger.
    return account.known and account.remove_ipc is True
