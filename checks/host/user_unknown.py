"""The user has no entry in /etc/passwd.

What you see
------------
`KeyError: 'getpwuid(): uid not found: 1042'` on import or at the first compile.

Why it happens
--------------
The container runs under a number (docker run --user, runAsUser) that its /etc/passwd does not have. What asks for the
user's name gets it from LOGNAME, USER, LNAME or USERNAME, or not at all; what asks for the home directory gets it from
HOME, or not at all: caches then go to a folder called ~, or the import ends in `Could not determine home directory`.
torch 2.13 itself does without a name; earlier versions did not when they compiled.

Fix
---
USER=anything, HOME=a folder that can be written, and TORCHINDUCTOR_CACHE_DIR=/tmp/inductor for an earlier torch, in
the job's environment.

When it is harmless
-------------------
Where USER and a HOME that can be written are set: nothing is found.

See also
--------
process/exception
"""

from collections.abc import Iterator

from distdoctor.check_api import Account, Cluster, Finding, Fix, Line, Node, names_of, together

SEVERITY = "fail"
PREVENTS = "store used"
MATTERS = "torch does without, but libraries ask for the user's name or home, and their ranks end"
LOOKS_AT = ("host.account",)
LOG = (Line("getpwuid(): uid not found"),)


def judge(cluster: Cluster) -> Iterator[Finding]:
    lacking = {node: what for node in cluster.nodes if (what := lacks(node.host.account))}
    if lacking:
        yield Finding.about(
            lacking,
            f"The user of the job has no {together(dict.fromkeys(w for what in lacking.values() for w in what))} "
            f"on {names_of(lacking)}.",
            severity="warn",
            evidence=(seen(node, what) for node, what in lacking.items()),
            fixes=(fix(node, what) for node, what in lacking.items()),
        )


def lacks(account: Account | None) -> tuple[str, ...]:
    """Return what the user has neither by an entry nor by a variable."""
    if account is None or account.known:
        return ()
    homeless = not (account.home or "").startswith("/") or bool(account.home_error)
    return tuple(what for what, lack in (("name", not account.named), ("home", homeless)) if lack)


def seen(node: Node, what: tuple[str, ...]) -> str:
    account = node.host.account
    assert account
    parts = [f"uid {account.uid} is not in the user database (/etc/passwd)"]
    if "name" in what:
        parts.append("LOGNAME, USER, LNAME and USERNAME are not set")
    if "home" in what:
        why = f"HOME={account.home} cannot be written ({account.home_error})" if account.home else "HOME is not set"
        parts.append(why if account.home_error or not account.home else f"HOME={account.home} is no absolute path")
    return f"{node.name}: {', '.join(parts)}"


def fix(node: Node, what: tuple[str, ...]) -> Fix:
    temporary = node.host.temporary.path if node.host.temporary else None
    env: dict[str, str | None] = {}
    if "name" in what:
        env["USER"] = f"user{node.host.account.uid if node.host.account else ''}"
    if "home" in what:
        env["HOME"] = temporary or "/tmp"
    return Fix.on(node, "Set it in the job's environment.", env=env)
