"""All that a check may import: the facts it reads, the findings it gives, and what checks share to judge them.

A check is ``judge(cluster)``, which yields a Finding for each time its failure is in the facts. Above it stand
SEVERITY, MATTERS, PREVENTS and SYMPTOM_OF (``distdoctor.model.stages``), and FOLLOWS. What was not seen is empty.

The facts, and what a check makes of them:
    Cluster                  the nodes of the job, node 0 first: nodes, node0, plan, met, multi_host, peers(node)
    Node                     one: name, plan, ranks, addresses, host; views network, system, meeting, mesh; saw(part)
    Finding                  a failure that was found; Finding.about(nodes, summary, evidence=, fixes=) writes one down
    Fix                      a remedy; Fix.on(nodes, text, env=, flags=, commands=) writes one down
    Line                     one wording by which a log shows the failure, for LOG: literal, expression, what it shows
    Ended                    a class of ends of processes, for Line.of_end: by reason, signal or exit code
    RankFacts                one rank: its stages, its devices and the work it got done (Node.facts.ranks)
    PlanProblem              a launch variable that is missing or makes no sense (Node.plan.problems)
    Caller                   a process that node 0 did not let in (MeetingFacts.callers)
    MeetingFacts             how the meeting in the store went (Node.meeting)
    NodeFacts                all that one started process saw (Cluster.slices)
    LateConnections          the ranks' connections to another node that had to be begun again
    Severity                 fail, warn or info
    Contact                  an attempt to connect, and how it ended (Node.network.contact)
    Answer                   what answers on a port (Node.network.answer)
    Resolution               a name that was looked up (Node.host.own_name, Node.network.master)
    Link                     a connection between two nodes that failed (Node.mesh.bad)
    Limits                   what the kernel lets a process use (Node.limits)
    SharedMemory             /dev/shm (Node.limits.shared_memory)
    TemporaryFolder          where temporary files go (Node.host.temporary)
    Folder                   a folder that jobs write to (Node.host.folders)
    BuildLock                a lock that waits for the build of an extension (Node.host.build_locks)
    Leftover                 a process of an earlier run (Node.host.leftovers)
    Account                  the user that the job runs as (Node.host.account)
    InitFile                 the file of --init-method file:// (Node.host.init_file)
    TorchFailure             why torch cannot be imported (Node.identity.torch_failure)
    Shadow                   a file that hides a module from it (TorchFailure.shadows)
    Work                     how much a rank got done (RankFacts.work)
    files                    files that nodes have in common, or should have
    gpus                     the GPUs of nodes (Node.driver), and what ranks see; pydoc distdoctor.check_api.gpus
    rdma                     the InfiniBand and RoCE ports of nodes; pydoc distdoctor.check_api.rdma
    groups                   process groups of fewer nodes, tried where that of all failed
    HostCall                 what became of the command sent to a host, of check --hosts (Cluster.calls)
    live                     of judge_job, a job that runs now: its ranks, its store; pydoc distdoctor.check_api.live
    Iterator                 what judge() returns: Iterator[Finding]
    Sequence                 of collections.abc, like Iterator

Words:
    names_of                 the names of nodes, for a sentence
    together                 names for a sentence: a, b and c
    some_of                  the same, and so many more
    ranks_text               ranks, to begin a sentence with
    duration_text            how long ago something was
    shorten_error            an error's text on one line
    lookup_failed            how a look-up ended that gave no address
    contact_text             how an attempt to connect ended
    port_holder_evidence     who has a port, as evidence

Nodes, ranks and what is planned for them:
    DEFAULT_PORT             the port that MASTER_PORT is by default
    launch_variables         names of the variables that launchers set
    LAUNCH_VARIABLES         the four variables that env:// needs
    NO_GLOO                  why a finding about gloo is a warning where the job does not use it
    node0_name               what node 0 is called, whether or not its facts are here
    claims_node0             whether a node takes itself for node 0
    store_host               node 0, where its facts say that it hosts the store
    joined_other_run         whether a node 0 met another run of the check on its port
    has_other_hosts          whether other hosts take part
    rank_count               how many ranks a node has
    planned_rank_count       how many ranks the job has
    missing_ranks            the global ranks that nobody claims
    missing_node_ranks       the node ranks that no node has
    master                   MASTER_ADDR, contacts, nodes that did not join; pydoc distdoctor.check_api.master
    makes_gloo_group         whether a node makes a gloo group
    plans_nccl_group         whether a node's job makes an NCCL group
    gloo_dials               whether gloo on one node connects to another, or the other to it
    by_luck                  why what gloo does not need may go wrong all the same

Values that must be alike, and variables:
    disagreement             how nodes disagree on a value: who has the usual one, and who another
    Disagreement             that: values, usual, others, blamed, said()
    settings                 variables, majorities and rendezvous settings; pydoc distdoctor.check_api.settings
    must_be_alike            whether a setting has to be the same on all nodes
    setting_effect           what a value of such a setting amounts to
    FATAL_SETTINGS           those of them without which a job hangs
    GLOO_SETTINGS            those that gloo reads
    GLOO_INTERFACES          the name of GLOO_SOCKET_IFNAME
    gloo_device_names        the interfaces that its value names
    INTERFACE_VARIABLES      the variable by which each backend is told its interface
    DEPRECATED_VARIABLES     old names of variables, and the new ones
    intended_variable        the known variable that a name is probably a misspelling of
    misspellings_of          the variables of a node that look like one misspelled
    unreadable               those that torch or NCCL would end on, or take for something else

Addresses and interfaces:
    parse_address            an address as a number that compares whatever its spelling
    in_network               whether an address is in the network of another one with a prefix of so many bits
    is_loopback              whether an address is of the host itself only
    reaches_no_other         whether no other host is reached at it: 0.0.0.0 and multicast, too
    is_bridge                whether an interface joins the containers of one host
    is_virtual               whether an interface is a bridge, a VPN or a network of containers
    reachable_address        the address by which others reach a node
    primary_interface        the interface that reaches the others
    data_interface           the interface that gloo uses, and its MTU
    own_host_names           what a host calls itself
    wrongly_picked           the addresses that backends pick and that cannot be right
    PickedAddress            one of these
    announcing_node          the node under whose name torchrun announces its store

Where MASTER_ADDR leads:
    master_targets           the place that MASTER_ADDR and MASTER_PORT mean on each node
    MasterTarget             such a place
    names_with_different_masters      the names that mean several places
    correct_master_target    which of several places is the right one
    shared_master_address    an address of node 0 that another node has, too
    duplicate_addresses      the addresses that two hosts of one network have
    DuplicateAddress         one of them: its owners, and which of these can spare it
    master_means_itself      whether MASTER_ADDR means just the node that has it

Who does not get to the store:
    failed_contacts          the nodes whose last attempt on the master's port ended so
    contacted_another_host   whether these looked for the store on another host than node 0
    tried_host               the node, or the address, that these looked at
    FailedContact            one of these
    grouped_by_address       those together that tried one place
    store_host_tried         node 0, where they looked for its store and when it was there
    master_address_owner     node 0, where the address they tried is its own
    master_is_up             whether the host they tried is known to be up
    master_port_owner        node 0 and its name, for nodes that looked for it
    taken_port_finding       the finding about something else on its port
    links_to                 the links from nodes to one that is known by its name
    lacks_route              whether a node's own kernel knows no way there
    route_obstacles          what routing tables say of their ways
    misrouted_finding        the finding about these
    master_port_findings     the findings of the checks network/port-*
    NODE_0_AND_CHECK         what to get next where a log shows only that the store was not reached

Routes:
    route_obstacle           what two nodes' tables, netmasks and filters of sources say is between them
    RouteObstacle            that
    route_obstacle_evidence  it, as evidence
    repair_route_fix         what to do about it
    add_route_fix            a way from a node to an address
    lost_routes              the links for which a node had a way when the check began, and then none

Links between nodes:
    link_graph               which links fail, and the smallest explanation of these
    LinkGraph                that: isolated, groups, deaf, mute, stars, no_route, stalled, cut, misled
    FailingLink              a link of it
    MAX_LINKS_LISTED         how many links a finding lists
    SPARED_BY_GLOO           words for a direction in which gloo does not connect
    link_arrows              links for a sentence: host1 to host0 and host2 to host0
    how_links_fail           what became of connections, for a sentence
    cut_after_accept         whether connections were accepted and then cut
    link_needed              whether the job connects on a link
    link_severity            fail where it connects on one of several
    link_culprits            whom to blame for links that hang together
    links_blocked_by_rules   whose packet filter blocks links
    link_finding             the finding about links
    link_finding_by_need     the same, of links that the job may do without
    open_links_fixes         let the connections between nodes through
    measured_links           the links whose speed and loss were measured
    MeasuredLink             one of these
    slow_links               those that are far slower than usual
    lossy_links              those that lose packets
    usual_link_speed         what is usual
    blamed_for_links         whom to blame for links with one trouble
    source_addresses         the addresses that a node's connections come from
    own_addresses_filtered   the node's own, where its filter meets what its ranks send each other
    FilterHook               input or output: the way that a chain of a packet filter is on

Ranks that failed:
    failed_ranks             the ranks for which a stage failed
    starved_ranks            those that had no processor for most of a stage
    stopped_ranks            those whose process was stopped
    died_ranks               those whose process ended by itself
    FailedRank               one of these: node, rank, stage
    failed_by_themselves     those with an error of their own
    nodes_of_failed          the names of their nodes
    ranks_of_failed          their numbers
    rank_errors_text         what they said, as evidence
    errors_with_words        the errors that hold certain words, by node
    gloo_errors_name         whether gloo named an address in an error
    accused_by_errors        whom errors accuse: the peer that they name, not who reports it
    ranks_to_blame           the ranks of whom they accuse
    failed_stage_finding     the finding about a stage that failed for whatever reason

Fixes:
    set_launch_fix           set one launch setting, where the node's plan takes it from
    set_master_fixes         set the master's address or port, where each node's plan takes it from
    other_master_port_fixes  another MASTER_PORT on all nodes
    two_jobs_fixes           another port for one of two jobs
    end_leftover_fix         end what holds a port, if it is one's own
    open_firewall_fix        let peers through a node's packet filter
    hosts_file_commands      give a name an address in /etc/hosts
    append_hosts_line        add a line to /etc/hosts
    correct_own_hosts_line   give the own name its real address there
    reads_hosts_file         whether look-ups read /etc/hosts
    hosts_file_unread        that they do not, as evidence

torch that cannot be imported:
    nodes_by_torch_cause     the nodes on which torch cannot be imported, by why
    TorchImportCause         why: missing, shadowed, memory, library, ...
    torch_error_evidence     what was seen, as evidence
    still_importing_torch    the nodes where the import did not end
    pip_command              pip's command line for a node's Python
    install_torch_command    install the torch that the other nodes have
    fixes_by_command         one fix for all nodes with the same command
    torch                    import failures of torch and their fixes; pydoc distdoctor.check_api.torch
"""

from __future__ import annotations

# fmt: off
# isort: off
from collections.abc import Iterator, Sequence
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
from distdoctor.check_api.nodes import data_interface, master_means_itself, own_host_names
from distdoctor.check_api.nodes import primary_interface, reachable_address
from distdoctor.check_api.nodes import (
    claims_node0, gloo_dials, has_other_hosts, makes_gloo_group, missing_node_ranks,
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
    duration_text, links_to, lookup_failed, names_of, port_holder_evidence, ranks_text,
)
from distdoctor.check_api.text import shorten_error, some_of, together
from distdoctor.check_api.master_port import master_port_owner, taken_port_finding
from distdoctor.check_api.torch import TorchImportCause, fixes_by_command, install_torch_command
from distdoctor.check_api.torch import nodes_by_torch_cause, pip_command
from distdoctor.check_api.torch import still_importing_torch, torch_error_evidence
from distdoctor.check_api.routes import lost_routes
from distdoctor.check_api.settings import DEPRECATED_VARIABLES, misspellings_of, unreadable, intended_variable
from distdoctor.knowledge.network import contact_text
from distdoctor.knowledge.network import is_bridge, is_virtual
from distdoctor.knowledge.firewall.packet_filter import FilterHook
from distdoctor.knowledge.settings import FATAL_SETTINGS, GLOO_INTERFACES, GLOO_SETTINGS
from distdoctor.knowledge.settings import gloo_device_names, must_be_alike, setting_effect
from distdoctor.knowledge.torchrun import announcing_node
from distdoctor.model import launch_variables
from distdoctor.model.addresses import in_network, is_loopback, parse_address, reaches_no_other
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import (
    Account, Answer, BuildLock, Caller, Contact, Folder, HostCall, InitFile, LateConnections, Leftover, Limits, Link,
    MeetingFacts, NodeFacts, RankFacts, Resolution, Shadow, SharedMemory, TemporaryFolder, TorchFailure, Work,
)
from distdoctor.model.findings import NO_GLOO, Finding, Fix, Severity
from distdoctor.model.log_line import Ended, Line
from distdoctor.model.launch_settings import LAUNCH_VARIABLES
from distdoctor.model.plan import DEFAULT_PORT, PlanProblem

VERSION = 1  # raised where a check written for an earlier one no longer works; names may be added without

__all__ = [
    "DEFAULT_PORT",
    "DEPRECATED_VARIABLES",
    "FATAL_SETTINGS",
    "GLOO_INTERFACES",
    "GLOO_SETTINGS",
    "INTERFACE_VARIABLES",
    "LAUNCH_VARIABLES",
    "MAX_LINKS_LISTED",
    "NODE_0_AND_CHECK",
    "NO_GLOO",
    "SPARED_BY_GLOO",
    "VERSION",
    "Account",
    "Answer",
    "BuildLock",
    "Caller",
    "Cluster",
    "Contact",
    "Disagreement",
    "DuplicateAddress",
    "Ended",
    "FailedContact",
    "FailedRank",
    "FailingLink",
    "FilterHook",
    "Finding",
    "Fix",
    "Folder",
    "HostCall",
    "InitFile",
    "Iterator",
    "LateConnections",
    "Leftover",
    "Limits",
    "Line",
    "Link",
    "LinkGraph",
    "MasterTarget",
    "MeasuredLink",
    "MeetingFacts",
    "Node",
    "NodeFacts",
    "PickedAddress",
    "PlanProblem",
    "RankFacts",
    "Resolution",
    "RouteObstacle",
    "Sequence",
    "Severity",
    "Shadow",
    "SharedMemory",
    "TemporaryFolder",
    "TorchFailure",
    "TorchImportCause",
    "Work",
    "accused_by_errors",
    "add_route_fix",
    "announcing_node",
    "append_hosts_line",
    "blamed_for_links",
    "by_luck",
    "claims_node0",
    "contact_text",
    "contacted_another_host",
    "correct_master_target",
    "correct_own_hosts_line",
    "cut_after_accept",
    "data_interface",
    "died_ranks",
    "disagreement",
    "duplicate_addresses",
    "duration_text",
    "end_leftover_fix",
    "errors_with_words",
    "failed_by_themselves",
    "failed_contacts",
    "failed_ranks",
    "failed_stage_finding",
    "files",
    "fixes_by_command",
    "gloo_device_names",
    "gloo_dials",
    "gloo_errors_name",
    "gpus",
    "grouped_by_address",
    "groups",
    "has_other_hosts",
    "hosts_file_commands",
    "hosts_file_unread",
    "how_links_fail",
    "in_network",
    "install_torch_command",
    "intended_variable",
    "is_bridge",
    "is_loopback",
    "is_virtual",
    "joined_other_run",
    "lacks_route",
    "launch_variables",
    "link_arrows",
    "link_culprits",
    "link_finding",
    "link_finding_by_need",
    "link_graph",
    "link_needed",
    "link_severity",
    "links_blocked_by_rules",
    "links_to",
    "live",
    "lookup_failed",
    "lossy_links",
    "lost_routes",
    "makes_gloo_group",
    "master",
    "master_address_owner",
    "master_is_up",
    "master_means_itself",
    "master_port_findings",
    "master_port_owner",
    "master_targets",
    "measured_links",
    "misrouted_finding",
    "missing_node_ranks",
    "missing_ranks",
    "misspellings_of",
    "must_be_alike",
    "names_of",
    "names_with_different_masters",
    "node0_name",
    "nodes_by_torch_cause",
    "nodes_of_failed",
    "open_firewall_fix",
    "open_links_fixes",
    "other_master_port_fixes",
    "own_addresses_filtered",
    "own_host_names",
    "parse_address",
    "pip_command",
    "planned_rank_count",
    "plans_nccl_group",
    "port_holder_evidence",
    "primary_interface",
    "rank_count",
    "rank_errors_text",
    "ranks_of_failed",
    "ranks_text",
    "ranks_to_blame",
    "rdma",
    "reachable_address",
    "reaches_no_other",
    "reads_hosts_file",
    "repair_route_fix",
    "route_obstacle",
    "route_obstacle_evidence",
    "route_obstacles",
    "set_launch_fix",
    "set_master_fixes",
    "setting_effect",
    "settings",
    "shared_master_address",
    "shorten_error",
    "slow_links",
    "some_of",
    "source_addresses",
    "starved_ranks",
    "still_importing_torch",
    "stopped_ranks",
    "store_host",
    "store_host_tried",
    "taken_port_finding",
    "together",
    "torch",
    "torch_error_evidence",
    "tried_host",
    "two_jobs_fixes",
    "unreadable",
    "usual_link_speed",
    "wrongly_picked",
]
