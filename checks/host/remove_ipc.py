"""The host removes the job's shared memory.

What you see
------------
`could not unlink the shared memory file /torch_...: No such file or directory`, `FileNotFoundError` of a SemLock.

Why it happens
--------------
systemd-logind with RemoveIPC=yes removes all shared memory of a user when the last of the user's login sessions ends,
also that of a job which belongs to none of them: of a batch system, or a daemon. Whoever looks in over ssh and leaves
again is such a session.

Fix
---
loginctl enable-linger USER, or RemoveIPC=no in logind.conf.

When it is harmless
-------------------
At the end of a job; for system users (uid below 1000); as long as nobody logs in. Before a job it is only told for
information, then.

See also
--------
host/shared-memory-small
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, names_of

SEVERITY = "fail"
PREVENTS = "store used"
RESTART = "yes"
NEXT = ("logind's setting", "grep -r RemoveIPC /etc/systemd/logind.conf*")
LOOKS_AT = ("host.account",)
FIRST_USER = 1000
"""logind spares system users: those up to SYSTEM_UID_MAX, 999 (logind-user.c, user_finalize())."""
LOG = (
    Line("could not unlink the shared memory file", shows="symptom", why="a process that was killed leaves the same"),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if at_risk(node)]
    if bad:
        yield Finding.about(
            bad,
            f"The job's shared memory on {names_of(bad)} goes when a login session of its user ends.",
            severity="info",
            evidence=(
                f"{node.name}: systemd-logind has RemoveIPC=yes, {node.identity.user} does not linger, and this "
                "process belongs to no login session"
                for node in bad
            ),
            fixes=(
                Fix.on(node, "Let the user linger.", commands=(f"loginctl enable-linger {node.identity.user}",))
                for node in bad
            ),
        )


def at_risk(node: Node) -> bool:
    account = node.host.account
    if account is None or account.uid < FIRST_USER or account.lingers or account.in_session:
        return False
    # Who is not in the user database cannot log in, so that no session of theirs ends; nor can they linger.
    return account.known and account.remove_ipc is True
