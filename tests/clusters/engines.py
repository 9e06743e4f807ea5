"""Clusters whose start line is that of an inference engine."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import Bind, NodeFacts, PortHolder
from distdoctor.model.plan import EnginePort
from tests.clusters.limits import limited
from tests.facts_builder import healthy, with_network, with_plan, with_variables

API = EnginePort(8000, "--port", "API server")
NIXL = EnginePort(5600, "VLLM_NIXL_SIDE_CHANNEL_PORT", "NIXL side channel")
EC = EnginePort(5601, "VLLM_EC_SIDE_CHANNEL_PORT", "EC side channel")
MOONCAKE = EnginePort(8998, "VLLM_MOONCAKE_BOOTSTRAP_PORT", "Mooncake bootstrap")
RPC = EnginePort(29550, "--data-parallel-rpc-port", "handshake (ZMQ)", True)
PYTHON = PortHolder("0.0.0.0", 4242, "python3", "root")


def engine(
    *ports: EnginePort,
    nodes: int = 2,
    kind: str = "vLLM",
    port: int = 29501,
    by: str = "--master-port",
    **variables: str,
) -> tuple[NodeFacts, ...]:
    """Nodes of one engine; node 0 has the ports, and all the variables."""
    facts = []
    for number, one in enumerate(healthy(nodes, declared=True)):
        sources = {**one.plan.sources, "master_addr": by, "master_port": by}
        own = ports if number == 0 else ()
        one = with_plan(one, engine=kind, ports=own, master_port=port, sources=sources, node_rank=number)
        facts.append(with_variables(one, **variables))
    return tuple(facts)


def taken(*facts: NodeFacts, port: int = 8000) -> tuple[NodeFacts, ...]:
    """Node 0 cannot bind one of them."""
    bind = Bind(False, port, 98, "Address already in use", (PYTHON,), free_port=port + 1)
    return with_network(facts[0], engine_binds=(bind,)), *facts[1:]


def with_range(*facts: NodeFacts, reserved: str = "") -> tuple[NodeFacts, ...]:
    """Linux's own range of ports, and what is reserved in it."""
    return tuple(limited(one, port_range=(32768, 60999), reserved_ports=reserved) for one in facts)


def moved(port: EnginePort, number: int, given: bool = True) -> EnginePort:
    """The same use on another port."""
    return replace(port, port=number, given=given)
