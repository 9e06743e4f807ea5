"""Fixes that several checks share: the master's address and port, firewalls, /etc/hosts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from distdoctor.check_api.firewall import rewrites_source
from distdoctor.check_api.nodes import own_host_names
from distdoctor.check_api.routes import lookup
from distdoctor.check_api.text import some_of, together
from distdoctor.knowledge.firewall.packet_filter import FilterHook, lets_through, open_commands, opening_port
from distdoctor.model.addresses import endpoint, reaches_no_other
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import PortHolder
from distdoctor.model.findings import Fix
from distdoctor.model.launch_settings import (
    BY_NAME,
    INIT_METHOD,
    MASTER_ADDR,
    MASTER_PORT,
    NPROC_PER_NODE,
    RDZV_ENDPOINT,
)
from distdoctor.model.plan import DEFAULT_PORT, Plan

SHOWN_ROUTERS = 8
"""Most peers whose routers are named."""


_RANKS_PER_NODE = {
    "SLURM": "--ntasks-per-node",
    "Open MPI": "-N",
    "hydra": "-ppn",
    "Cray PALS": "--ppn",
    "Flux": "--tasks-per-node",
}
"""Launcher, as the plan calls it -> its own flag for the ranks of a node (srun(1), mpirun(1), mpiexec(1), flux(1))."""


def set_launch_fix(node: Node, text: str, name: str, value: object, option: int = 1) -> Fix:
    """Return a fix that sets one launch setting of the node, by its name in the plan, where its plan takes it from.

    That is torchrun's variable if it is in use, else the flag, else the rank's variable. The number of ranks of a node
    goes to the launcher that starts each of them, if it is known.
    """
    setting = BY_NAME[name]
    if setting is NPROC_PER_NODE and node.plan.started == "rank" and node.plan.launcher not in ("", "torchrun"):
        own = _RANKS_PER_NODE.get(node.plan.launcher)
        return Fix.on(node, text, option, flags={own: str(value)} if own else {})
    if node.plan.sources.get(name) == setting.pet or not setting.flag:
        return Fix.on(node, text, option, env={setting.pet or setting.variables[0]: str(value)})
    return Fix.on(node, text, option, flags={setting.flag: str(value)})


def set_master(
    plan: Plan, address: str | None, port: int | None
) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """Return (env, flags) that set the master's address and port where this plan takes them from. None: unchanged."""
    env: dict[str, str | None] = {}
    flags: dict[str, str | None] = {}
    if (plan.init_method or "").startswith("tcp://"):  # it names the master itself, and no other flag counts
        flags[INIT_METHOD.flag] = f"tcp://{endpoint(address or plan.master_addr or '', port or plan.master_port)}"
        return env, flags
    source = _endpoint_source(plan)
    if source:
        place = flags if source.startswith("--") else env
        place[source] = endpoint(address or plan.master_addr or "", port or plan.master_port)
        return env, flags
    for value, setting in ((address, MASTER_ADDR), (None if port is None else str(port), MASTER_PORT)):
        if value is None:
            continue
        source = plan.sources.get(setting.name, "")
        if source in setting.all_variables:
            env[source] = value
        elif source.startswith("--") or plan.started == "node":
            flags[source if plan.engine and source.startswith("--") else setting.flag] = value
        else:
            env[setting.variables[0]] = value
    return env, flags


def _endpoint_source(plan: Plan) -> str | None:
    source = plan.sources.get("master_addr", "")
    if source in (RDZV_ENDPOINT.flag, RDZV_ENDPOINT.pet) or (plan.engine and source == plan.sources.get("master_port")):
        return source
    return RDZV_ENDPOINT.flag if plan.rdzv_backend == "c10d" else None


def set_master_fixes(
    nodes: Sequence[Node], text: str, address: str | None = None, port: int | None = None, option: int = 1
) -> tuple[Fix, ...]:
    """Return one fix for each way in which nodes get their master, all of one option."""
    groups: dict[tuple[tuple[tuple[str, str | None], ...], ...], list[str]] = {}
    for node in nodes:
        env, flags = set_master(node.plan, address, port)
        groups.setdefault((tuple(env.items()), tuple(flags.items())), []).append(node.name)
    return tuple(
        Fix(text, tuple(names), option, env=dict(env), flags=dict(flags)) for (env, flags), names in groups.items()
    )


def other_master_port_fixes(cluster: Cluster, free_port: int | None) -> tuple[Fix, ...]:
    """Return fixes that set another MASTER_PORT on all nodes."""
    if free_port is None:
        port = cluster.plan.master_port % 65535 + 1 if cluster.plan.master_port else DEFAULT_PORT
        return set_master_fixes(
            cluster.nodes, f"Use another port, the same on every node, for example {port}.", port=port
        )
    return set_master_fixes(
        cluster.nodes, f"Use another port, the same on every node: {free_port} is free.", port=free_port
    )


def two_jobs_fixes(node: Node) -> tuple[Fix, ...]:
    """Return fixes for two processes with one rank on one host, which may be of two jobs: another port for one of
    them."""
    port = node.plan.master_port % 65535 + 1
    text = f"Or, if they are two jobs, give one of them another port, for example {port}, on all of its nodes."
    return set_master_fixes([node], text, port=port, option=2)


def end_leftover_fix(holders: Sequence[PortHolder], node: Node) -> Fix:
    """Return the last resort for a held port: end its holder, if that is the user's own left-over."""
    pids = ",".join(str(holder.pid) for holder in holders if holder.pid is not None)
    who = together(f"{h.name} (pid {h.pid})" for h in holders if h.pid is not None)
    confirm = f"`ps -fp {pids}`" if pids else "`ss -tlnp`"
    return Fix(
        f"Or, if it is a leftover of your own earlier run, end {who or 'the process that holds the port'}. "
        f"Confirm with: {confirm}.",
        (node.name,),
        2,
    )


def open_firewall_fix(
    node: Node | None, name: str, hook: FilterHook, peers: Sequence[str], port: int | None, option: int = 1
) -> Fix:
    """Return a fix that accepts the peers on ``node``: commands from its own rules, or text if those are unknown.

    ``port`` None: all TCP ports.
    """
    rules = node.network.firewall if node else None
    free = lets_through(rules, hook, peers, port) and not (hook == "output" and rewrites_source(node, port))
    if port is not None and not free:
        port = opening_port(rules, hook, port)
    commands = () if free else open_commands(rules, hook, peers, port)
    what = f"TCP port {port}" if port is not None else "TCP on all ports"
    ends = f"{'from' if hook == 'input' else 'to'} {some_of(peers) or 'the other nodes'}"
    if commands:
        return Fix(f"On {name}, accept {what} {ends}.", (name,), option, commands=commands)
    if rules is not None and rules.readable:
        between = ", ".join((*(f"router {at}" for at in _routers(node, peers)), "security group", "switch"))
        text = f"Allow {what} {ends} between the hosts ({between}); {name}'s own firewall does not block it."
        return Fix(text, (name,), option)
    return Fix(f"On {name}, accept {what} {ends} (its firewall's rules are unknown).", (name,), option)


def _routers(node: Node | None, peers: Sequence[str]) -> tuple[str, ...]:
    """Return the next hops from ``node`` to the peers that are not in its own networks."""
    routes = [lookup(node, peer) for peer in peers[:SHOWN_ROUTERS]] if node is not None else []
    return tuple(dict.fromkeys(route.gateway for route in routes if route is not None and route.gateway is not None))


def append_hosts_line(address: str, name: str) -> str:
    """Return a command that adds a line to /etc/hosts."""
    return f"echo {shlex.quote(f'{address} {name}')} >> /etc/hosts"


WITHOUT_FILE = {"dns", "nis", "nisplus", "ldap", "hesiod", "wins", "myhostname", "mymachines"}
"""Sources of names that do not read /etc/hosts (nsswitch.conf(5), nss-myhostname(8)); systemd's ``resolve`` does."""
READ_HOSTS_FILE = (
    "new=$(sed 's/^[[:space:]]*hosts:[[:space:]]*/&files /' /etc/nsswitch.conf) && "
    'printf "%s\\n" "$new" > /etc/nsswitch.conf'
)
"""Command that edits the file in place, as :func:`correct_own_hosts_line` does."""
OPEN_HOSTS_FILE = "chmod a+r /etc/hosts"


LOCALHOST = ("localhost", "ip6-")
"""Prefixes of names that keep the loopback address."""


def reads_hosts_file(node: Node) -> bool:
    """Return whether look-ups on the node read /etc/hosts; True if unknown."""
    sources = node.host.name_sources
    if node.host.hosts_file_closed:
        return False
    return not sources or any(s not in WITHOUT_FILE and not s.startswith("mdns") for s in sources)


def hosts_file_unread(nodes: Sequence[Node]) -> tuple[str, ...]:
    """Return evidence for the nodes whose look-ups do not read /etc/hosts."""
    return tuple(
        f"{node.name}: /etc/hosts may not be read by this user"
        if node.host.hosts_file_closed
        else f"{node.name}: /etc/nsswitch.conf says `hosts: {' '.join(node.host.name_sources or ())}`: /etc/hosts is "
        "not read"
        for node in nodes
        if not reads_hosts_file(node)
    )


def hosts_file_commands(node: Node, address: str | None, *names: str) -> tuple[str, ...]:
    """Return commands that give the names ``address`` on the node (the first name counts).

    They add a line to /etc/hosts unless it is there, and make look-ups read the file. Address None: any line will do.
    Empty if nothing is to be done.
    """
    if node.host.hosts_file_closed:  # the file's content is unknown: a line is added if it is missing
        if address is None:
            return (OPEN_HOSTS_FILE,)
        line = append_hosts_line(address, " ".join(names))
        return f"grep -qw {shlex.quote(names[0])} /etc/hosts || {line}", OPEN_HOSTS_FILE
    known = (*node.host.hosts_lines, *node.network.master_lines)
    entries = [line.text.partition("#")[0].split() for line in known]
    there = any(e and address in (None, e[0]) and names[0] in e[1:] for e in entries)
    added = () if there or address is None else (append_hosts_line(address, " ".join(names)),)
    read = reads_hosts_file(node) or not (there or added)
    return added if read else (*added, READ_HOSTS_FILE)


def correct_own_hosts_line(node: Node, address: str) -> str:
    """Return a command that replaces the unreachable address of the node's own name in /etc/hosts by ``address``.

    Unreachable from other hosts are loopback's and 0.0.0.0. Empty if the line is right and the file is read, and for a
    host that is called localhost, which every host is to itself.

    The command writes into the file instead of renaming a new one over it: in containers /etc/hosts is a mount point.
    """
    names = own_host_names(node)
    if "localhost" in names:
        return ""
    script: list[str] = []
    placed = False
    for line in node.host.hosts_lines:
        fields = line.text.partition("#")[0].split()
        if not fields or not reaches_no_other(fields[0]):
            continue
        others = [name for name in fields[1:] if name not in names]
        if others and any(o.startswith(LOCALHOST) for o in others):
            script.append(f"{line.number}c\\{fields[0]} {' '.join(others)}")
        elif placed:
            script.append(f"{line.number}d")
        else:
            script.append(f"{line.number}c\\{address} {' '.join(fields[1:])}")
            placed = True
    if not script:
        return " && ".join(hosts_file_commands(node, address, *names))
    if not placed:
        # First: sed ends the script for a line that is changed or deleted, and that may be the last one.
        script.insert(0, f"$a\\{address} {' '.join(names)}")
    edits = " ".join(f"-e {shlex.quote(edit)}" for edit in script)
    return f'new=$(sed {edits} /etc/hosts) && printf "%s\\n" "$new" > /etc/hosts'
