"""Whether the first of a launcher's processes, which tells the report of all, is there to tell it."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from distdoctor.launch import torchrun
from distdoctor.launch.slurm import STARTED_FROM
from distdoctor.model.addresses import parse_address
from distdoctor.model.facts import NodeFacts
from distdoctor.probes.look_up import ASKER

SECONDS = 2.0
"""To look its address up."""
SHELLS = frozenset(["bash", "sh", "dash", "zsh", "fish", "ksh", "csh", "tcsh"])


def started_alone(pid: int, child: int, proc: Path = Path("/proc")) -> bool:
    """Whether a shell started this process, or what a container started, and nothing else that runs now: no launcher,
    and no loop that starts the ranks of a host. A rank's variables are then most likely left over from somebody else.

    ``pid``: the parent of ``child``, this process.
    """
    if torchrun.agent_above(pid, proc)[0]:
        return False
    for _ in range(torchrun.ANCESTORS):
        if pid == 0:  # nothing is above it in its container
            return True
        parent = proc / str(pid)
        try:
            if (parent / "task" / str(pid) / "children").read_text().split() != [str(child)]:
                return False
            if (parent / "comm").read_text(errors="replace").strip() in SHELLS:
                return True
            child, pid = pid, int((parent / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):  # gone, somebody else's, or a kernel that does not tell
            return False
    return False


async def addresses(facts: NodeFacts) -> tuple[str, ...]:
    """Its addresses, where it matters: for a second process that was refused at MASTER_ADDR."""
    contact = facts.network.contact if facts.network else None
    if not facts.plan.first or contact is None or contact.outcome != "refused":
        return ()
    return (await ASKER.ask("addresses", facts.plan.first, SECONDS)).found


def first_is_gone(facts: NodeFacts, first: Collection[str]) -> bool:
    """Whether the first process has ended, or nothing listens where it is: the second one then tells. ``first``: its
    addresses, as far as they are known."""
    contact = facts.network.contact if facts.network else None
    if facts.network is not None and facts.network.elsewhere is not None:
        return False  # its store answers on another port, and has this process's facts
    if contact is None or contact.outcome != "refused":
        return bool(facts.meeting and facts.meeting.host_lost)
    if first and contact.address not in first and _elsewhere(facts, contact.address):
        return False
    # The first of another node, whose MASTER_ADDR is its own host: the first one is not there.
    own = {address for one in (facts.host.interfaces if facts.host else ()) for address in one.addresses}
    here = contact.address in own or contact.address.startswith("127.")
    return not (here and facts.plan.local_rank == 0)


def _elsewhere(facts: NodeFacts, address: str) -> bool:
    """Whether MASTER_ADDR means another host than that of the first process, and not a further address of that one:
    the host that srun was typed on, or one with another name."""
    master = facts.plan.master_addr or ""
    named = "" if parse_address(master) is not None else master.partition(".")[0]
    first = facts.plan.first.partition(".")[0]
    return address == os.environ.get(STARTED_FROM) or bool(named and first not in named)
