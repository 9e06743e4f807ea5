"""The job's user has no entry in /etc/passwd.

## What you see
`KeyError: 'getpwuid(): uid not found: 1042'` on import or at the first compile.

## Why it happens
The container runs under a uid (docker run --user, runAsUser) that its /etc/passwd does not have. Programs then read the
user's name from LOGNAME, USER, LNAME or USERNAME, and the home folder from HOME. Without HOME, caches go to a folder
called ~, or the import ends in `Could not determine home directory`.

torch 2.13 itself needs no name; earlier versions needed one to compile.

## Fix
Set the variables in the job's environment: `export USER=job HOME=/tmp/job` (HOME writable), and for an earlier torch
`export TORCHINDUCTOR_CACHE_DIR=/tmp/inductor`.

## Confirm with
`python -c "import getpass, os; print(getpass.getuser(), os.path.expanduser('~'))"` prints both without an error.

## When it is harmless
USER and a writable HOME are set: nothing is reported.

## See also
process/exception
"""

from distdoctor.check_api import Account, Cluster, Finding, Fix, Iterator, Line, Node, names_of, together

SEVERITY = "fail"
PREVENTS = "store used"
MATTERS = "torch needs neither, but libraries read the user's name or home, and their ranks fail"
LOOKS_AT = ("host.account",)
LOG = (Line("getpwuid(): uid not found"),)


def judge(cluster: Cluster) -> Iterator[Finding]:
    lacking = {node: what for node in cluster.nodes if (what := lacks(node.host.account))}
    if lacking:
        yield Finding.about(
            lacking,
            f"The job's user has no {together(dict.fromkeys(w for what in lacking.values() for w in what))} on "
            f"{names_of(lacking)}.",
            severity="warn",
            evidence=(evidence_line(node, what) for node, what in lacking.items()),
            fixes=(fix(node, what) for node, what in lacking.items()),
        )


def lacks(account: Account | None) -> tuple[str, ...]:
    """Return what the user has neither by an entry nor by a variable."""
    if account is None or account.known:
        return ()
    homeless = not (account.home or "").startswith("/") or bool(account.home_error)
    return tuple(what for what, lack in (("name", not account.named), ("home", homeless)) if lack)


def evidence_line(node: Node, what: tuple[str, ...]) -> str:
    account = node.host.account
    assert account
    parts = [f"uid {account.uid} is not in the user database (/etc/passwd)"]
    if "name" in what:
        parts.append("LOGNAME, USER, LNAME and USERNAME are not set")
    if "home" in what:
        why = f"HOME={account.home} cannot be written ({account.home_error})" if account.home else "HOME is not set"
        parts.append(why if account.home_error or not account.home else f"HOME={account.home} is not an absolute path")
    return f"{node.name}: {', '.join(parts)}"


def fix(node: Node, what: tuple[str, ...]) -> Fix:
    temporary = node.host.temporary.path if node.host.temporary else None
    env: dict[str, str | None] = {}
    if "name" in what:
        env["USER"] = f"user{node.host.account.uid if node.host.account else ''}"
    if "home" in what:
        env["HOME"] = temporary or "/tmp"
    return Fix.on(node, f"Set {together(env)} in the job's environment.", env=env)
