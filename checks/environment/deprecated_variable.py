"""A variable has an old name that torch has replaced.

## What you see
`Environment variable NCCL_BLOCKING_WAIT is deprecated; use TORCH_NCCL_BLOCKING_WAIT instead`, once per rank. If the new
name is set, too, torch ignores the old one in silence.

## Why it happens
torch 2.2 renamed its own NCCL_* variables to TORCH_NCCL_*, to keep them apart from NCCL's. Launch scripts still have
the old names.

## Fix
Use the new name: `export TORCH_NCCL_BLOCKING_WAIT=1; unset NCCL_BLOCKING_WAIT`.

## Confirm with
`env | grep NCCL_BLOCKING_WAIT` prints only the new name.

## When it is harmless
While this version of torch still reads the old name. With a backend other than NCCL the finding is only INFO.

## See also
environment/misspelled-variable, environment/setting-mismatch
"""

from collections.abc import Iterator

from distdoctor.check_api import DEPRECATED_VARIABLES, Cluster, Finding, Fix, Node, names_of, plans_nccl_group, together

SEVERITY = "warn"
MATTERS = "the setting is lost as soon as a version of torch no longer reads the old name"


def judge(cluster: Cluster) -> Iterator[Finding]:
    by_node = {node: names for node in cluster.nodes if (names := old_names(node))}
    if not by_node:
        return
    every = list(dict.fromkeys(name for its in by_node.values() for name in its))
    used = any(map(plans_nccl_group, by_node))
    yield Finding.about(
        by_node,
        f"{together(every)} on {names_of(by_node)} {'is an old name' if len(every) == 1 else 'are old names'}: torch "
        f"2.2 renamed {'it' if len(every) == 1 else 'them'} to "
        f"{together(DEPRECATED_VARIABLES[name] for name in every)}.",
        severity="warn" if used else "info",
        evidence=(line(node, name) for node, names in by_node.items() for name in names),
        fixes=(fix(node, names) for node, names in by_node.items()),
    )


def old_names(node: Node) -> tuple[str, ...]:
    return tuple(name for name in DEPRECATED_VARIABLES if name in node.variables)


def line(node: Node, name: str) -> str:
    variables, new = node.variables, DEPRECATED_VARIABLES[name]
    if new in variables:
        return f"{node.name}: torch ignores {name}={variables[name]}: {new}={variables[new]} is set, too"
    return f"{node.name}: {name}={variables[name]}"


def fix(node: Node, names: tuple[str, ...]) -> Fix:
    env: dict[str, str | None] = {}
    for name in names:
        env[name] = None
        if DEPRECATED_VARIABLES[name] not in node.variables:
            env[DEPRECATED_VARIABLES[name]] = node.variables[name]
    return Fix.on(node, f"Use the new name{'s' if len(names) > 1 else ''}.", env=env)
