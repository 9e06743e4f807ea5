"""A job that runs now, as ``judge_job`` sees it: its ranks and where each of them is, what its store holds, and what
checks share to tell of them."""

from distdoctor.check_api.live_absent import NOT_JOINED as RANKS_NOT_JOINED
from distdoctor.check_api.live_absent import absent_ranks, nodes_not_joined, ranks_meet
from distdoctor.check_api.live_activity import does, where
from distdoctor.check_api.live_agents import STARTED_NOW, agents_missing, other_ids, perhaps_late
from distdoctor.check_api.live_master import (
    before_store,
    dialling_store,
    master_of,
    silent_links,
    sockets_to_store,
    store_contact,
    store_finding,
)
from distdoctor.check_api.live_ranks import (
    called,
    other_threads,
    others_wait,
    overwritten,
    rank_finding,
    where_ranks_are,
)
from distdoctor.check_api.live_ray import not_placed
from distdoctor.knowledge import job_places as places
from distdoctor.knowledge import job_stacks as stacks
from distdoctor.knowledge import live_calls as calls
from distdoctor.knowledge import live_groups as groups
from distdoctor.knowledge import live_messages as messages
from distdoctor.knowledge import live_waits as waits
from distdoctor.knowledge import recorded_calls as recorded
from distdoctor.knowledge.job_movement import is_stopped, looks_for_a_file
from distdoctor.knowledge.job_threads import awaits_orders, dialling
from distdoctor.knowledge.live_awaited import Awaited, at_other_end, awaited, awaits_rank, outside_peer
from distdoctor.knowledge.live_job import LiveJob
from distdoctor.knowledge.live_job import live_job as job_of
from distdoctor.knowledge.live_limits import ranks_wait
from distdoctor.knowledge.live_rank import LiveRank
from distdoctor.model.facts import Member

__all__ = [
    "RANKS_NOT_JOINED",
    "STARTED_NOW",
    "Awaited",
    "LiveJob",
    "LiveRank",
    "Member",
    "absent_ranks",
    "agents_missing",
    "at_other_end",
    "awaited",
    "awaits_orders",
    "awaits_rank",
    "before_store",
    "called",
    "calls",
    "dialling",
    "dialling_store",
    "does",
    "groups",
    "is_stopped",
    "job_of",
    "looks_for_a_file",
    "master_of",
    "messages",
    "nodes_not_joined",
    "not_placed",
    "other_ids",
    "other_threads",
    "others_wait",
    "outside_peer",
    "overwritten",
    "perhaps_late",
    "places",
    "rank_finding",
    "ranks_meet",
    "ranks_wait",
    "recorded",
    "silent_links",
    "sockets_to_store",
    "stacks",
    "store_contact",
    "store_finding",
    "waits",
    "where",
    "where_ranks_are",
]
