"""environment/exported-master-differs: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import BOTH, THREE, Cure, Facts, LookAlike, Row, cured, found, left_alone, on_each
from tests.facts_builder import healthy, judged, with_plan, with_variables

CHECK = "environment/exported-master-differs"


def exporting(*values: dict[str, str], way: str = "--hosts") -> Facts:
    """A healthy check of so many hosts, each of which exports that."""
    facts = (with_plan(one, sources={"nnodes": way}) for one in healthy(len(values)))
    return tuple(with_variables(one, **its) for one, its in zip(facts, values, strict=True))


def a_port_on_one() -> Facts:
    return exporting({}, {"MASTER_PORT": "29511"}, {})


def another_port_on_one() -> Facts:
    return exporting({"MASTER_PORT": "29501"}, {"MASTER_PORT": "29501"}, {"MASTER_PORT": "29511"}, way="--slurm-job")


def a_port_on_one_of_two() -> Facts:
    return exporting({"MASTER_PORT": "29511"}, {})


def each_itself() -> Facts:
    return exporting(*({"MASTER_ADDR": name} for name in THREE))


def localhost_on_all() -> Facts:
    return exporting(*({"MASTER_ADDR": "localhost"},) * 3, way="--hostfile")


def one_names_itself() -> Facts:
    return exporting({"MASTER_ADDR": "10.77.0.10"}, {"MASTER_ADDR": "host0"}, {"MASTER_ADDR": "10.77.0.12"})


def one_host_in_three_spellings() -> Facts:
    """As an operator sets it: localhost for node 0."""
    values = ("localhost", "host0", "10.77.0.10")
    return exporting(*({"MASTER_ADDR": value, "MASTER_PORT": "29500"} for value in values), way="--pods")


def a_name_that_is_none_of_theirs() -> Facts:
    return exporting({"MASTER_ADDR": "train-master-0"}, {"MASTER_ADDR": "train-master-0.team"}, {})


def by_torchruns_flags() -> Facts:
    """It was started with them on each node: what the shell exports beside them nobody reads."""
    return exporting({}, {"MASTER_PORT": "29511"}, {}, way="--nnodes")


ROWS = [
    Row(name, facts, nodes, "warn", blame, together=True)
    for name, facts, nodes, blame in (
        ("a port on one", a_port_on_one, ("host1",), "all"),
        ("another port on one", another_port_on_one, ("host2",), "all"),
        ("a port on one of two", a_port_on_one_of_two, BOTH, "one-of"),
        ("each names itself", each_itself, ("host1", "host2"), "all"),
        ("localhost everywhere", localhost_on_all, ("host1", "host2"), "all"),
        ("one names itself", one_names_itself, ("host2",), "all"),
    )
]

LOOK_ALIKES = [
    LookAlike("one host in three spellings", one_host_in_three_spellings),
    LookAlike("a name that is none of theirs", a_name_that_is_none_of_theirs),
    LookAlike("what torchrun's flags stand above", by_torchruns_flags),
]

CURES = [
    Cure("a port on one", a_port_on_one, {"host1": {"env": {"MASTER_PORT": None}}}),
    Cure("another port on one", another_port_on_one, {"host2": {"env": {"MASTER_PORT": "29501"}}}),
    Cure("a port on one of two", a_port_on_one_of_two, {"host0": {"env": {"MASTER_PORT": None}}}),
    Cure("each names itself", each_itself, on_each(("host1", "host2"), {"env": {"MASTER_ADDR": "10.77.0.10"}})),
    Cure("one names itself", one_names_itself, {"host2": {"env": {"MASTER_ADDR": "host0"}}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_all_that_is_exported_is_said() -> None:
    (root,) = judged(*a_port_on_one()).roots
    assert root.summary == "MASTER_PORT differs: not set on host0 and host2; 29511 on host1."
    assert root.evidence == (
        "host0: MASTER_PORT is not set",
        "host1: MASTER_PORT=29511",
        "host2: MASTER_PORT is not set",
    )
