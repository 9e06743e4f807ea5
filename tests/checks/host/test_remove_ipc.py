"""host/remove-ipc: what it finds, and what it leaves alone."""

from __future__ import annotations

from typing import Any

from distdoctor.model.facts import Account
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import healthy, with_host, with_identity

CHECK = "host/remove-ipc"


def account(uid: int = 1000, remove_ipc: bool | None = True, **changes: Any) -> Facts:
    """That of node 1."""
    zero, one = healthy(2)
    known = Account(uid, named="USER", home="/home/ann", remove_ipc=remove_ipc, **changes)
    return zero, with_host(with_identity(one, user="ann"), account=known)


ROWS = [Row("a job that belongs to no session", account, ("host1",), "info", together=True)]

LOOK_ALIKES = [
    LookAlike("RemoveIPC=no", lambda: account(remove_ipc=False)),
    LookAlike("no logind", lambda: account(remove_ipc=None)),
    LookAlike("root", lambda: account(0)),
    LookAlike("who lingers", lambda: account(lingers=True)),
    LookAlike("a user without an entry, as of a container, who never logs in", lambda: account(known=False)),
    LookAlike("in a login session", lambda: account(in_session=True)),
]

CURES = [Cure("linger", account, {"host1": {"commands": ("loginctl enable-linger ann",)}}, only=True)]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
