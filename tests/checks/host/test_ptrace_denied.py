"""host/ptrace-denied: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Account
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.rdma_nodes import several
from tests.facts_builder import with_host

CHECK = "host/ptrace-denied"
NAME, VALUE = "PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:512,expandable_segments:True"


def account(
    descriptors: str = "EPERM", allocator: tuple[str, str] | None = (NAME, VALUE), backend: str = "nccl"
) -> Facts:
    """That of node 1."""
    zero, one = several({}, {}, backend=backend)
    return zero, with_host(one, account=Account(allocator=allocator, descriptors=descriptors))


ROWS = [
    Row("a container's default profile", account, ("host1",), "info", together=True),
    Row("an old kernel", lambda: account("ENOSYS"), ("host1",), "info", together=True),
]

LOOK_ALIKES = [
    LookAlike("allowed", lambda: account("")),
    LookAlike("ordinary segments", lambda: account("", None)),
    LookAlike("a job of gloo", lambda: account(backend="gloo")),
]

CURES = [
    Cure("ordinary segments", account, {"host1": {"env": {NAME: "max_split_size_mb:512,expandable_segments:False"}}})
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
