"""Making contact with the master: of a name's several addresses, the one that works counts."""

from __future__ import annotations

import asyncio
import socket

from distdoctor.model.plan import Plan
from distdoctor.session.master_contact import MasterContact
from distdoctor.session.options import Options
from distdoctor.session.recorder import Recorder
from distdoctor.session.so_far import Teller
from tests.facts_builder import CHECKS
from tests.helpers.told import Told


def test_this_node_is_reached_by_its_way_to_the_address_that_works() -> None:
    """Not by the way to the first address of MASTER_ADDR's name, which leads nowhere (here: it refuses)."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        plan = Plan(nnodes=2, nproc_per_node=1, master_addr="host0", master_port=server.getsockname()[1])
        recorder = Recorder(Options(plan, CHECKS), Told())
        recorder.update_network(master_is_own=False)
        found = asyncio.run(MasterContact(recorder, Teller(recorder)).make(("127.0.0.2", "127.0.0.1")))
    network = recorder.facts.network
    assert network is not None and network.route is not None
    assert (found.address, [one.address for one in network.passed_over]) == ("127.0.0.1", ["127.0.0.2"])
    assert network.route.target == "127.0.0.1"
