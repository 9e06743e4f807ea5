"""Tests of what a file of NCCL's sets is removed from the file: the environment cannot unset it."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.judge.fixes import with_files
from distdoctor.model.facts import NodeFacts
from distdoctor.model.findings import Fix
from tests.clusters import rdma_nodes
from tests.facts_builder import cluster, healthy, judged

HCA, FILE = "NCCL_IB_HCA", "/etc/nccl.conf"


def in_a_file(facts: NodeFacts, file: str = FILE) -> NodeFacts:
    return replace(facts, variable_files={HCA: file})


def test_each_node_gets_what_unsets_it_there() -> None:
    a, b, c = healthy(3)
    fix = Fix("Unset it.", ("host0", "host1", "host2"), env={HCA: None, "NCCL_NET": "Socket"})
    plain, of_file, of_home = with_files(fix, cluster(a, in_a_file(b), in_a_file(c, "/home/a b/.nccl.conf")))
    assert plain == replace(fix, nodes=("host0",))
    assert (of_file.nodes, of_file.env) == (("host1",), {"NCCL_NET": "Socket"})
    assert of_file.commands == (f"sed -i '/^{HCA}=/d' {FILE}",)
    assert of_file.text == f"Unset it: {HCA} is set in {FILE}."
    assert of_home.commands == (f"sed -i '/^{HCA}=/d' '/home/a b/.nccl.conf'",)


def test_a_value_is_set_in_the_environment_which_wins_over_the_file() -> None:
    (a,) = healthy(1)
    fix = Fix("Set it.", ("host0",), env={HCA: "mlx5_0"})
    assert list(with_files(fix, cluster(in_a_file(a)))) == [fix]


def test_adapters_that_a_file_names_and_that_are_not_there() -> None:
    nodes = rdma_nodes.several({}, {}, variables=({}, {HCA: "mlx4"}))
    (root,) = judged(nodes[0], in_a_file(nodes[1])).roots
    (fix,) = root.fixes
    assert (fix.nodes, fix.env, fix.commands) == (("host1",), {}, (f"sed -i '/^{HCA}=/d' {FILE}",))
