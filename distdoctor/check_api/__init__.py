"""Everything that a check may import: facts, findings, and functions that checks share.

A check is ``judge(cluster)``, which yields a Finding for each occurrence of its failure in the facts. Above it stand
SEVERITY, MATTERS, PREVENTS and SYMPTOM_OF (``distdoctor.model.stages``), and FOLLOWS. Unknown facts are empty.

Facts, and results of a check:
    Cluster                  nodes of the job, node 0 first: nodes, node0, plan, met, multi_host, peers(node)
    Node                     one node: name, plan, ranks, addresses; views host, network, meeting, mesh; saw(part)
    Finding                  failure in the facts; Finding.about(nodes, summary, evidence=, fixes=) makes one
    Fix                      instruction; Fix.on(nodes, text, env=, flags=, commands=) makes one
    Line                     log wording of the failure, for LOG: literal, expression, and what it shows
    Ended                    class of ends of processes, for Line.of_end: by reason, signal or exit code
    RankFacts                one rank: its stages, its devices and its measured work (Node.facts.ranks)
    PlanProblem              launch variable that is missing or invalid (Node.plan.problems)
    Caller                   process that node 0 rejected (RendezvousFacts.callers)
    RendezvousFacts          how the nodes joined the store (Node.meeting)
    NodeFacts                facts of one started process (Cluster.slices)
    LateConnections          ranks' connections to another node that needed a retry
    Severity                 fail, warn or info
    Contact                  attempt to connect, and its outcome (Node.network.contact)
    EngineServer             server that the engine asks (Node.plan.servers)
    ServerContact            attempt to reach a server of the engine (Node.network.engine_servers)
    Answer                   service that answers on a port (Node.network.answer)
    Resolution               look-up of a name (Node.host.own_name, Node.network.master)
    Link                     failed connection between two nodes (Node.mesh.bad)
    Limits                   limits of the kernel on a process (Node.limits)
    SharedMemory             /dev/shm (Node.limits.shared_memory)
    TemporaryFolder          folder of temporary files (Node.host.temporary)
    Folder                   folder that jobs write to (Node.host.folders)
    BuildLock                lock of an extension's build (Node.host.build_locks)
    Leftover                 process of an earlier run (Node.host.leftovers)
    Account                  user that the job runs as (Node.host.account)
    InitFile                 file of --init-method file:// (Node.host.init_file)
    TorchFailure             failed import of torch (Node.identity.torch_failure)
    Shadow                   file that hides a module from the import (TorchFailure.shadows)
    Work                     work that a rank got done (RankFacts.work)
    files                    files that nodes share, or should share
    gpus                     GPUs of nodes (Node.driver), as ranks see them; pydoc distdoctor.check_api.gpus
    rdma                     InfiniBand and RoCE ports of nodes; pydoc distdoctor.check_api.rdma
    groups                   process groups of fewer nodes, tried after the group of all failed
    device_mesh              groups of the job's device mesh (Node.plan.mesh), and what they cost
    HostCall                 result of the command on a host of check --hosts (Cluster.calls)
    live                     for judge_job: ranks and store of a job that runs now; pydoc distdoctor.check_api.live
    Iterator                 return type of judge(): Iterator[Finding]
    Sequence                 from collections.abc, like Iterator

Texts:
    names_of                 names of nodes, for a sentence
    together                 names for a sentence: a, b and c
    some_of                  names for a sentence, with the number of further ones
    ranks_text               ranks, to begin a sentence with
    duration_text            age of something, in words
    errno_text               words of the system for an error number
    shorten_error            error text on one line
    lookup_failed            how a failed look-up ended
    contact_text             how an attempt to connect ended
    port_holder_evidence     holder of a port, as evidence

Nodes, ranks and their plan:
    DEFAULT_PORT             default of MASTER_PORT
    launch_variables         names of the variables that launchers set
    LAUNCH_VARIABLES         the four variables that env:// needs
    NO_GLOO                  reason why a finding about gloo is a warning if the job does not use gloo
    node0_name               name of node 0, with or without its facts
    claims_node0             whether a node takes itself for node 0
    store_host               node 0, if its facts show that it hosts the store
    joined_other_run         whether a node 0 found another run of the check on its port
    has_other_hosts          whether other hosts take part
    is_reserved              whether ip_local_reserved_ports has a port
    rank_count               number of ranks of a node
    planned_rank_count       number of ranks of the job
    missing_ranks            global ranks that nobody claims
    missing_node_ranks       node ranks that no node has
    master                   MASTER_ADDR, contacts, nodes that did not join; pydoc distdoctor.check_api.master
    makes_gloo_group         whether a node makes a gloo group
    plans_nccl_group         whether a node's job makes an NCCL group
    gloo_dials               whether gloo on one node connects to another, rather than the reverse
    by_luck                  reason why an obstacle matters that gloo's connections happen to avoid

Shared settings, and variables:
    disagreement             nodes that disagree on a value, None if they agree
    Disagreement             its result: values, usual, others, blamed, said()
    settings                 variables, majorities and rendezvous settings; pydoc distdoctor.check_api.settings
    must_be_alike            whether a setting must be the same on all nodes
    setting_effect           effect of a value of such a setting
    FATAL_SETTINGS           settings whose difference makes a job hang
    GLOO_SETTINGS            settings that gloo reads
    GLOO_INTERFACES          the name GLOO_SOCKET_IFNAME
    gloo_device_names        interfaces that its value names
    INTERFACE_VARIABLES      interface variable of each backend
    DEPRECATED_VARIABLES     old names of variables -> new ones
    intended_variable        known variable that a name is probably a misspelling of
    misspellings_of          variables of a node that look like a misspelled one
    unreadable               variables that end torch or NCCL, or that they misread

Addresses and interfaces:
    endpoint                 address with a port, an IPv6 one in brackets
    parse_address            address as a number that compares whatever its spelling
    in_network               whether an address is in another one's network with this prefix length
    is_loopback              whether an address is of the host itself only
    reaches_no_other         whether an address reaches no other host: 0.0.0.0 and multicast, too
    is_bridge                whether an interface joins the containers of one host
    is_virtual               whether an interface is a bridge, a VPN or a container network
    reachable_address        address by which others reach a node
    primary_interface        interface that reaches the others
    data_interface           interface that gloo uses, and its MTU
    data_interfaces          that interface, and the one below a VLAN
    is_cut_off               whether the node's own link is down, and the others are lost to it
    own_host_names           a host's own names
    wrongly_picked           addresses that backends pick and that cannot be right
    PickedAddress            its result
    announcing_node          node under whose name torchrun announces its store

Targets of MASTER_ADDR:
    master_targets           target of MASTER_ADDR and MASTER_PORT on each node
    MasterTarget             its result
    names_with_different_masters      names with several targets
    correct_master_target    the right one of several targets
    shared_master_address    address of node 0 that another node has, too
    duplicate_addresses      addresses that two hosts of one network have
    DuplicateAddress         its result: the owners, and those that can do without it
    master_means_itself      whether MASTER_ADDR means just the node that has it

Nodes that do not reach the store:
    failed_contacts          nodes whose last contact with the master's port ended so
    contacted_another_host   whether they looked for the store on another host than node 0
    tried_host               node, or address, that they tried
    FailedContact            result of failed_contacts
    grouped_by_address       failed contacts by the address that they tried
    store_host_tried         node 0, if they tried its store while it was there
    master_address_owner     node 0, if the address that they tried is its own
    master_is_up             whether the host that they tried is known to be up
    master_port_owner        node 0 and its name, for nodes that looked for it
    taken_port_finding       finding about another service on its port
    links_to                 links from nodes to one with a known name
    lacks_route              whether a node's own kernel has no route there
    route_obstacles          obstacles that routing tables show between them and node 0
    misrouted_finding        finding about these obstacles
    master_port_findings     findings of the checks network/port-*
    NODE_0_AND_CHECK         next evidence if a log shows only that the store was not reached

Routes:
    route_obstacle           obstacle between two nodes by their tables, netmasks and source filters
    RouteObstacle            its result
    route_obstacle_evidence  its evidence
    repair_route_fix         its fix
    add_route_fix            fix for a missing route from a node to an address
    lost_routes              links whose route a node lost during the check

Links between nodes:
    link_graph               failing links, and their smallest explanation
    LinkGraph                its result: isolated, groups, deaf, mute, stars, no_route, stalled, cut, misled
    FailingLink              one of its links
    MAX_LINKS_LISTED         most links that a finding lists
    SPARED_BY_GLOO           words for a direction in which gloo does not connect
    link_arrows              links for a sentence: host1 to host0 and host2 to host0
    how_links_fail           outcome of connections, for a sentence
    cut_after_accept         whether connections were accepted and then cut
    link_needed              whether the job connects on a link
    link_severity            fail if the job connects on one of several links
    link_culprits            nodes to blame for connected links
    links_blocked_by_rules   nodes whose packet filters block links
    link_finding             finding about links
    link_finding_by_need     the same, for links that the job may do without
    open_links_fixes         fixes that accept connections between nodes
    measured_links           links with measured speed and loss
    MeasuredLink             its result
    slow_links               links that are far slower than usual
    lossy_links              links that lose packets
    usual_link_speed         usual speed of a link
    blamed_for_links         nodes to blame for links with one trouble
    source_addresses         source addresses of a node's connections
    neighbourhood            network by which others reach a node: sources of peers without facts
    own_addresses_filtered   a node's own addresses, if its filter applies between its ranks
    FilterHook               input or output: direction of a packet filter's chain
    start_seconds            time that connections of a job take to pass rules that limit their rate

Ranks that failed:
    failed_ranks             ranks for which a stage failed
    starved_ranks            ranks without a processor for most of a stage
    stopped_ranks            ranks whose process was stopped
    died_ranks               ranks whose process ended by itself
    FailedRank               result of these: node, rank, stage
    failed_by_themselves     failed ranks with an error of their own
    nodes_of_failed          names of their nodes
    ranks_of_failed          their rank numbers
    rank_errors_text         their errors, as evidence
    errors_with_words        errors that contain certain words, by node
    gloo_errors_name         whether gloo named an address in an error
    accused_by_errors        nodes that errors accuse: the peer that they name, not the reporter
    ranks_to_blame           ranks of these nodes
    failed_stage_finding     finding about a failed stage, for any reason

Fixes:
    set_launch_fix           set one launch setting, where the node's plan takes it from
    set_master_fixes         set the master's address or port, where each node's plan takes it from
    other_master_port_fixes  set another MASTER_PORT on all nodes
    two_jobs_fixes           set another port for one of two jobs
    end_leftover_fix         end the holder of a port, if it is the user's own
    open_firewall_fix        accept peers in a node's packet filter
    hosts_file_commands      give a name an address in /etc/hosts
    append_hosts_line        add a line to /etc/hosts
    correct_own_hosts_line   give the node's own name its real address there
    reads_hosts_file         whether look-ups read /etc/hosts
    hosts_file_unread        evidence that look-ups do not read it

Failed imports of torch:
    nodes_by_torch_cause     nodes that cannot import torch, by cause
    TorchImportCause         cause: missing, shadowed, memory, library, ...
    torch_error_evidence     evidence of the failed import
    still_importing_torch    nodes where the import did not end
    pip_command              pip's command line for a node's Python
    install_torch_command    install the torch that the other nodes have
    fixes_by_command         one fix for all nodes with the same command
    torch                    failed imports of torch and their fixes; pydoc distdoctor.check_api.torch
"""

from __future__ import annotations

# fmt: off
# isort: off
from collections.abc import Iterator, Sequence
from distdoctor.model import device_mesh
from distdoctor.check_api import master, files, gpus, groups, live, rdma, settings, torch
from distdoctor.check_api.addresses import INTERFACE_VARIABLES, PickedAddress, wrongly_picked
from distdoctor.check_api.addresses import DuplicateAddress, duplicate_addresses
from distdoctor.check_api.fixes import (
    append_hosts_line, correct_own_hosts_line, end_leftover_fix, hosts_file_commands, hosts_file_unread,
    open_firewall_fix, other_master_port_fixes, reads_hosts_file, set_launch_fix, set_master_fixes, two_jobs_fixes,
)
from distdoctor.check_api.link_findings import (
    MAX_LINKS_LISTED, SPARED_BY_GLOO, cut_after_accept, how_links_fail, link_arrows, link_culprits, link_finding,
    link_finding_by_need, link_needed, link_severity, links_blocked_by_rules, open_links_fixes,
    own_addresses_filtered, source_addresses,
)
from distdoctor.check_api.links import FailingLink, LinkGraph, link_graph
from distdoctor.check_api.link_findings import (
    MeasuredLink, blamed_for_links, lossy_links, measured_links, slow_links,
)
from distdoctor.check_api.link_findings import usual_link_speed
from distdoctor.check_api.settings import Disagreement, disagreement
from distdoctor.check_api.master import contacted_another_host, tried_host
from distdoctor.check_api.master import FailedContact, failed_contacts, grouped_by_address, route_obstacles
from distdoctor.check_api.master import lacks_route, master_address_owner, master_is_up, store_host_tried
from distdoctor.check_api.master_port import NODE_0_AND_CHECK, master_port_findings, misrouted_finding
from distdoctor.check_api.master import MasterTarget, master_targets, names_with_different_masters
from distdoctor.check_api.master import correct_master_target, shared_master_address
from distdoctor.check_api.nodes import (
    data_interface,
    data_interfaces,
    is_cut_off,
    master_means_itself,
    own_host_names,
)
from distdoctor.check_api.nodes import primary_interface, reachable_address
from distdoctor.check_api.nodes import (
    claims_node0, gloo_dials, has_other_hosts, is_reserved, makes_gloo_group, missing_node_ranks,
)
from distdoctor.check_api.nodes import (
    joined_other_run, missing_ranks, node0_name, planned_rank_count, plans_nccl_group,
)
from distdoctor.check_api.nodes import rank_count, store_host
from distdoctor.check_api.ranks import (
    FailedRank, accused_by_errors, by_luck, died_ranks, errors_with_words, failed_by_themselves, failed_ranks,
    failed_stage_finding, gloo_errors_name, nodes_of_failed, rank_errors_text, ranks_of_failed, ranks_to_blame,
    starved_ranks, stopped_ranks,
)
from distdoctor.check_api.route_findings import route_obstacle_evidence
from distdoctor.check_api.route_findings import add_route_fix, repair_route_fix
from distdoctor.check_api.routes import RouteObstacle, route_obstacle
from distdoctor.check_api.text import (
    duration_text, errno_text, links_to, lookup_failed, names_of, port_holder_evidence, ranks_text,
)
from distdoctor.check_api.text import shorten_error, some_of, together
from distdoctor.check_api.master_port import master_port_owner, neighbourhood, taken_port_finding
from distdoctor.check_api.torch import TorchImportCause, fixes_by_command, install_torch_command
from distdoctor.check_api.torch import nodes_by_torch_cause, pip_command
from distdoctor.check_api.torch import still_importing_torch, torch_error_evidence
from distdoctor.check_api.routes import lost_routes
from distdoctor.check_api.settings import DEPRECATED_VARIABLES, misspellings_of, unreadable, intended_variable
from distdoctor.knowledge.network import contact_text
from distdoctor.knowledge.network import is_bridge, is_virtual, start_seconds
from distdoctor.knowledge.firewall.packet_filter import FilterHook
from distdoctor.knowledge.settings import FATAL_SETTINGS, GLOO_INTERFACES, GLOO_SETTINGS
from distdoctor.knowledge.settings import gloo_device_names, must_be_alike, setting_effect
from distdoctor.knowledge.torchrun import announcing_node
from distdoctor.model import launch_variables
from distdoctor.model.addresses import endpoint, in_network, is_loopback, parse_address, reaches_no_other
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import (
    Account, Answer, BuildLock, Caller, Contact, Folder, HostCall, InitFile, LateConnections, Leftover, Limits, Link,
    RendezvousFacts, NodeFacts, RankFacts, Resolution, ServerContact, Shadow, SharedMemory, TemporaryFolder,
    TorchFailure, Work,
)
from distdoctor.model.findings import NO_GLOO, Finding, Fix, Severity
from distdoctor.model.log_line import Ended, Line
from distdoctor.model.launch_settings import LAUNCH_VARIABLES
from distdoctor.model.plan import DEFAULT_PORT, EngineServer, PlanProblem

VERSION = 1  # raised if a check for an earlier version no longer works; new names do not raise it

__all__ = [
    "DEFAULT_PORT", "DEPRECATED_VARIABLES", "FATAL_SETTINGS", "GLOO_INTERFACES", "GLOO_SETTINGS",
    "INTERFACE_VARIABLES", "LAUNCH_VARIABLES", "MAX_LINKS_LISTED", "NODE_0_AND_CHECK", "NO_GLOO", "SPARED_BY_GLOO",
    "VERSION", "Account", "Answer", "BuildLock", "Caller", "Cluster", "Contact", "Disagreement", "DuplicateAddress",
    "Ended", "EngineServer", "FailedContact", "FailedRank", "FailingLink", "FilterHook", "Finding", "Fix", "Folder",
    "HostCall", "InitFile", "Iterator", "LateConnections", "Leftover", "Limits", "Line", "Link", "LinkGraph",
    "MasterTarget", "MeasuredLink", "Node", "NodeFacts", "PickedAddress", "PlanProblem", "RankFacts",
    "RendezvousFacts", "Resolution", "RouteObstacle", "Sequence", "ServerContact", "Severity", "Shadow",
    "SharedMemory", "TemporaryFolder", "TorchFailure", "TorchImportCause", "Work", "accused_by_errors",
    "add_route_fix", "announcing_node", "append_hosts_line", "blamed_for_links", "by_luck", "claims_node0",
    "contact_text", "contacted_another_host", "correct_master_target", "correct_own_hosts_line", "cut_after_accept",
    "data_interface", "data_interfaces", "device_mesh", "died_ranks", "disagreement", "duplicate_addresses",
    "duration_text", "end_leftover_fix", "endpoint", "errno_text", "errors_with_words", "failed_by_themselves",
    "failed_contacts", "failed_ranks", "failed_stage_finding", "files", "fixes_by_command", "gloo_device_names",
    "gloo_dials", "gloo_errors_name", "gpus", "grouped_by_address", "groups", "has_other_hosts", "hosts_file_commands",
    "hosts_file_unread", "how_links_fail", "in_network", "install_torch_command", "intended_variable", "is_bridge",
    "is_cut_off", "is_loopback", "is_reserved", "is_virtual", "joined_other_run", "lacks_route", "launch_variables",
    "link_arrows", "link_culprits", "link_finding", "link_finding_by_need", "link_graph", "link_needed",
    "link_severity", "links_blocked_by_rules", "links_to", "live", "lookup_failed", "lossy_links", "lost_routes",
    "makes_gloo_group", "master", "master_address_owner", "master_is_up", "master_means_itself",
    "master_port_findings", "master_port_owner", "master_targets", "measured_links", "misrouted_finding",
    "missing_node_ranks", "missing_ranks", "misspellings_of", "must_be_alike", "names_of",
    "names_with_different_masters", "neighbourhood", "node0_name", "nodes_by_torch_cause", "nodes_of_failed",
    "open_firewall_fix", "open_links_fixes", "other_master_port_fixes", "own_addresses_filtered", "own_host_names",
    "parse_address", "pip_command", "planned_rank_count", "plans_nccl_group", "port_holder_evidence",
    "primary_interface", "rank_count", "rank_errors_text", "ranks_of_failed", "ranks_text", "ranks_to_blame", "rdma",
    "reachable_address", "reaches_no_other", "reads_hosts_file", "repair_route_fix", "route_obstacle",
    "route_obstacle_evidence", "route_obstacles", "set_launch_fix", "set_master_fixes", "setting_effect", "settings",
    "shared_master_address", "shorten_error", "slow_links", "some_of", "source_addresses", "start_seconds",
    "starved_ranks", "still_importing_torch", "stopped_ranks", "store_host", "store_host_tried", "taken_port_finding",
    "together", "torch", "torch_error_evidence", "tried_host", "two_jobs_fixes", "unreadable", "usual_link_speed",
    "wrongly_picked",
]
