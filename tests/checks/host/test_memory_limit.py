"""host/memory-limit: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import TorchFailure
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.gpu_nodes import several
from tests.clusters.limits import KILLED, MIB, limited, on
from tests.facts_builder import failing, with_identity

CHECK = "host/memory-limit"


def memory(limit: int | None, used: int | None = 40, torch: int | None = 180) -> Facts:
    """Of node 1, in MiB; it has two ranks."""
    most, already, each = (None if size is None else size * MIB for size in (limit, used, torch))
    zero, one = on((1,), memory=most, memory_used=already)
    return zero, with_identity(one, torch_memory=each)


def of_each_process(text: str = "", **limits: int) -> Facts:
    """The ranks of node 1 have these limits, in MiB, and say ``text`` where they make their gloo group."""
    zero, one = on((1,), **{name: size * MIB for name, size in limits.items()})
    if not text:
        return zero, one
    return failing(zero, "gloo", KILLED, killed=True), failing(one, "gloo", text)


def without_torch() -> Facts:
    zero, one = of_each_process(address_space=500)
    failure = TorchFailure("OSError", "failed to map segment from shared object", address_space=500 * MIB)
    return zero, with_identity(one, torch=None, torch_failure=failure, torch_error="failed to map segment")


def without_addresses(limit: int | None, reason: str = "Error 2: out of memory") -> Facts:
    """torch sees no GPU on node 1, whose processes may have so many MiB of addresses."""
    zero, one = several({}, {"torch": {"visible": (), "reason": reason}})
    return zero, limited(one, address_space=None if limit is None else limit * MIB)


NO_STACK = "RuntimeError: Resource temporarily unavailable"
"""Error of std::thread without memory for a thread's stack (pthread_create(3): EAGAIN)."""
ROWS = [
    Row(
        "no memory for a thread's stack", lambda: of_each_process(NO_STACK, data_segment=195), ("host1",), together=True
    ),
    Row("data for the ranks alone", lambda: of_each_process(data_segment=300), ("host1",), "warn", together=True),
    Row("little address space", lambda: of_each_process(address_space=1500), ("host1",), "warn", together=True),
    Row("too few addresses for CUDA", lambda: without_addresses(15000), ("host1",), together=True),
    Row("less than the ranks take", lambda: memory(399), ("host1",), together=True),
    Row("little more", lambda: memory(570), ("host1",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("CUDA is short of memory, and no limit is known", lambda: without_addresses(None), "gpu/none-visible"),
    LookAlike(
        "CUDA says something else",
        lambda: without_addresses(15000, "Error 101: invalid device ordinal"),
        "gpu/none-visible",
    ),
    LookAlike("enough", lambda: memory(600)),
    LookAlike("no limit", lambda: memory(None)),
    LookAlike("what is used is not known", lambda: memory(300, used=None)),
    LookAlike("torch was not imported", lambda: memory(300, torch=None)),
    LookAlike("64 GiB of address space", lambda: of_each_process(address_space=65536, data_segment=32768)),
    LookAlike("torch itself does not fit", without_torch, "environment/torch-broken"),
]

CURES = [
    Cure(
        "the limits of ulimit off",
        lambda: of_each_process(address_space=1500, data_segment=300),
        {"host1": {"commands": ("ulimit -d unlimited", "ulimit -v unlimited")}},
        only=True,
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
