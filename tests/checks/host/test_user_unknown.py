"""host/user-unknown: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Account, TemporaryFolder
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, with_host

CHECK = "host/user-unknown"


def account(home: str | None = "/work", *, known: bool = False, named: str = "USER", error: str = "") -> Facts:
    """That of node 1; node 0's has everything."""
    zero, one = (with_host(node, temporary=TemporaryFolder("/var/tmp")) for node in healthy(2))
    return with_host(zero, account=Account(1042, named="USER", home="/home/ann")), with_host(
        one, account=Account(1042, known, named, home, error)
    )


ROWS = [
    Row("neither a name nor a home", lambda: account(None, named=""), ("host1",), "warn", together=True),
    Row("no name", lambda: account(named=""), ("host1",), "warn", together=True),
    Row("HOME=/ of docker run --user", lambda: account("/", error="EACCES"), ("host1",), "warn", together=True),
    Row("a home called ~", lambda: account("~"), ("host1",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("name and home by variables", account),
    LookAlike("no variable, but an entry", lambda: account(None, known=True, named="")),
    LookAlike("a home of somebody else, with an entry", lambda: account("/root", known=True, error="EACCES")),
]

CURES = [
    Cure(
        "both", lambda: account(None, named=""), {"host1": {"env": {"USER": "user1042", "HOME": "/var/tmp"}}}, only=True
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
