"""Adjustment of fixes to the node: root, containers, missing programs, variables set in NCCL's files, and SLURM's
exclusion of nodes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from shlex import quote

from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts.host import HOSTS_FILE, KERNEL_SETTINGS, NAME_SOURCES, NET_ADMIN, SYS_ADMIN
from distdoctor.model.findings import Finding, Fix
from distdoctor.model.launch_variables import SLURM_NODE

ROOT = "root"
_NETWORK = (
    r"ip (?:-\d )?(?:address|link|neighbour|route|rule) (?:add|del|flush|replace|set)|nft |ip6?tables|firewall-cmd|ufw "
)
NEEDS_ROOT = re.compile(
    rf"^(?:{_NETWORK}|sysctl -w|u?mount|mkdir -p /dev/shm|chmod \S+ /(?:etc|dev)/|timedatectl set|chronyc|modprobe |"
    r"apt-get install|hostnamectl set|systemctl (?:enable|start|stop|restart|daemon-reload)|sed -i \S+ /etc/|"
    r"nvidia-smi (?:-i \S+ )?(?:-pl|-pm|-c|-mig|nvlink -e|--gpu-reset)\b)|>>? ?/(?:etc|proc/sys)/"
)
WITHHELD = (
    (
        NET_ADMIN,
        re.compile(rf"^(?:{_NETWORK})"),
        "may not change its network (no CAP_NET_ADMIN, as in a container)",
        "start the container with --cap-add=NET_ADMIN, or on its host, in its network namespace",
    ),
    (
        SYS_ADMIN,
        re.compile(r"^(?:u?mount |mkdir .* && mount )"),
        "may mount nothing (no CAP_SYS_ADMIN, as in a container)",
        "have it so where the container is started",
    ),
    (
        KERNEL_SETTINGS,
        re.compile(r"^sysctl -w"),
        "may not change the kernel's settings (/proc/sys is read-only, as in a container)",
        "docker run --sysctl, the pod's securityContext.sysctls, or on its host, in its network namespace",
    ),
    (
        HOSTS_FILE,
        re.compile(r"(?:>> ?|> ?|^chmod \S+ )/etc/hosts"),
        "cannot change /etc/hosts, which is mounted read-only",
        "have it so where the container or image is made (docker run --add-host, the pod's hostAliases)",
    ),
    (
        NAME_SOURCES,
        re.compile(r"> ?/etc/nsswitch\.conf"),
        "cannot change /etc/nsswitch.conf, which is mounted read-only",
        "have it so in the image",
    ),
)
"""Capabilities that a container may lack, the commands that need them, the reason why these fail, and the
alternative."""
_PACKAGES = {"ip": "iproute2"}


def feasible(fix: Fix, cluster: Cluster) -> Fix:
    """Return the fix as it can be carried out on its nodes.

    Commands that nobody may run there are described instead, and the text names root if a command needs it and another
    user ran the check.
    """
    nodes = [node for node in cluster.nodes if node.name in fix.nodes] if fix.nodes else cluster.nodes
    if not fix.commands or not nodes:
        return fix
    return with_root(_without_sysctl(_described(fix, nodes), nodes), nodes)


def with_root(fix: Fix, nodes: list[Node] | tuple[Node, ...]) -> Fix:
    """Return the fix, with a note if one of its commands needs root and another user ran the check there."""
    if ROOT in fix.text or not any(map(NEEDS_ROOT.search, fix.commands)):
        return fix
    if not any(node.identity.user not in ("", ROOT) for node in nodes):
        return fix
    return replace(fix, text=f"{fix.text[:-1]}, as root." if fix.text.endswith(".") else f"{fix.text} (as root)")


def _described(fix: Fix, nodes: list[Node] | tuple[Node, ...]) -> Fix:
    for what, needs_it, fails, instead in WITHHELD:
        without = [node for node in nodes if what in _withheld(node)]
        if not without or not any(map(needs_it.search, fix.commands)):
            continue
        names = ", ".join(node.name for node in without)
        text = f"{fix.text} But {names} {fails}: {instead}"
        if len(without) < len(nodes):
            return replace(fix, text=f"{text}.")
        return replace(fix, text=f"{text}: {'; '.join(f'`{command}`' for command in fix.commands)}.", commands=())
    return fix


def _without_sysctl(fix: Fix, nodes: list[Node] | tuple[Node, ...]) -> Fix:
    """Return the fix without programs that are not installed: the shell can write what sysctl sets."""
    missing = {name for node in nodes if node.host.account for name in node.host.account.missing_programs}
    if "sysctl" in missing:
        fix = replace(fix, commands=tuple(map(_written, fix.commands)))
    for name in sorted(missing & {command.partition(" ")[0] for command in fix.commands}):
        fix = replace(fix, text=f"{fix.text} ({name} is not installed there: package {_PACKAGES.get(name, 'procps')}.)")
    return fix


def _written(command: str) -> str:
    """Return ``sysctl -w a.b=1 c.d='1 2'`` as a shell redirection; any other command unchanged."""
    if not command.startswith("sysctl -w "):
        return command
    settings = (one.partition("=") for one in shlex.split(command)[2:])
    return " && ".join(
        f"echo {shlex.quote(value)} > /proc/sys/{name if '/' in name else name.replace('.', '/')}"
        for name, _, value in settings
    )


def _withheld(node: Node) -> tuple[str, ...]:
    return node.host.account.withheld if node.host.account else ()


# Fixes that unset a variable which NCCL reads from a file: unsetting it in the environment has no effect.


def with_files(fix: Fix, cluster: Cluster) -> Iterator[Fix]:
    """Yield the fix, and one that removes the line from the file for nodes on which a file sets the variable."""
    named = [node for node in cluster.nodes if node.name in fix.nodes]
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for node in named:
        if found := set_in_files(fix, node):
            alike.setdefault(found, []).append(node.name)
    if not alike:
        yield fix
        return
    others = {name for names in alike.values() for name in names}
    if rest := tuple(name for name in fix.nodes if name not in others):
        yield replace(fix, nodes=rest)
    for found, names in alike.items():
        env = {name: value for name, value in fix.env.items() if name not in dict(found)}
        commands = tuple(f"sed -i '/^{name}=/d' {quote(file)}" for name, file in found)
        text = f"{fix.text.rstrip('.')}: {', '.join(f'{name} is set in {file}' for name, file in found)}."
        yield replace(fix, text=text, nodes=tuple(names), env=env, commands=(*fix.commands, *commands))


def set_in_files(fix: Fix, node: Node) -> tuple[tuple[str, str], ...]:
    """Return the variables that the fix unsets and a file on that node sets, each with the file."""
    unset = (name for name, value in fix.env.items() if value is None)
    return tuple((name, file) for name in unset if (file := node.where_set(name)))


# Options for SLURM to run the job without a faulty node. sbatch(1), salloc(1), srun(1): ``--exclude``; scontrol(1):
# ``update NodeName= State=DRAIN Reason=``, for operators.


NODE_NAME = SLURM_NODE
"""SLURM's name of the node, in each task of a step; its hostname may be another."""
OF_THE_LAUNCH = ("launch", "environment")
"""Stages whose findings are about how the job is started, which is the same on other nodes."""


def with_exclusion(finding: Finding, cluster: Cluster) -> Finding:
    """Return the finding with SLURM's exclusion as its last option, if other nodes can help.

    That is, under SLURM, if the finding is sure that a few nodes fail, and no setting of the user's fixes it.
    """
    if finding.severity != "fail" or finding.because_of is not None or finding.incomplete or finding.blame != "all":
        return finding
    if finding.check.partition("/")[0] in OF_THE_LAUNCH or not 0 < 2 * len(finding.nodes) <= _size(cluster):
        return finding
    best = min((fix.option for fix in finding.fixes), default=0)
    if any(fix.env or fix.flags or fix.unknown for fix in finding.fixes if fix.option == best):
        return finding
    names = [name for node in finding.nodes if (name := _slurm_name(node, cluster))]
    if len(names) < len(finding.nodes):
        return finding
    listed = ",".join(names)
    fix = Fix(
        f"start the job on other nodes: `--exclude={listed}` to sbatch, salloc or srun. Where you may, drain "
        f"{'it' if len(names) == 1 else 'them'} until that is mended.",
        option=1 + max((fix.option for fix in finding.fixes), default=0),
        commands=(
            f"scontrol update NodeName={listed} State=DRAIN Reason={shlex.quote(f'distdoctor: {finding.check}')}",
        ),
    )
    return replace(finding, fixes=(*finding.fixes, fix))


def _size(cluster: Cluster) -> int:
    return max(cluster.plan.nnodes or 0, len(cluster.nodes))


def _slurm_name(name: str, cluster: Cluster) -> str:
    """Return SLURM's name of a node; empty if this is not SLURM, or it is unknown."""
    roster = cluster.plan.roster
    for node in cluster.nodes:
        if node.name == name:
            return node.variables.get(NODE_NAME, "")
    under_slurm = any(node.variables.get(NODE_NAME) for node in cluster.nodes)
    return name if under_slurm and name in roster else ""
