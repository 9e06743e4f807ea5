"""LMCache in an engine: the remote cache that its file or variables name. The engine runs without one it cannot reach.

Names are those of LMCache 0.3 (v1/config.py, v1/storage_backend/connector, remote_backend.py: init_connection() only
warns).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from distdoctor.model.plan import EngineServer, PlanProblem
from distdoctor.plan.job_line import MAX_BYTES
from distdoctor.plan.launchers.base import text_of
from distdoctor.plan.mooncake import ALONE, MASTER, METADATA, MOONCAKE_FILE, metadata_in, servers_of

FILE, VARIABLE, OPTION = "LMCACHE_CONFIG_FILE", "LMCACHE_REMOTE_URL", "lmcache.remote_url"
_USED = re.compile(r"LMCacheConnector(?!MP)|--enable-lmcache\b")
_IN_LINE = re.compile(r"lmcache\.remote_url[\"']\s*:\s*[\"']([^\"']+)")
_SETTING = re.compile(r"(?m)^[ \t]*[\"']?(\w+)[\"']?:[ \t]*(?:\"([^\"\n]*)\"|'([^'\n]*)'|([^\s#\"']+))")
_SCHEMES = {
    "mooncakestore": (MASTER, 0),
    "lm": ("LMCache server", 0),
    "infinistore": ("InfiniStore of LMCache", 0),
    "redis": ("redis of LMCache", 6379),
    "rediss": ("redis of LMCache", 6379),
    "valkey": ("Valkey of LMCache", 6379),
}
_NO_SERVER = ("fs", "blackhole", "audit", "s3")
"""Schemes of a folder, of nothing, of another URL and of a service with an address of its own."""


def cache_of(words: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
    """Return ``problems``, ``servers`` and ``unread`` of a line for LMCache; empty if it does not use it."""
    line = " ".join(words)
    if not _USED.search(line):
        return {}
    path = env.get(FILE, "")
    values = {key: "".join(texts) for key, *texts in _SETTING.findall(text_of(path, MAX_BYTES) if path else "")}
    given = _IN_LINE.search(line)
    url, setting = values.get("remote_url", ""), f"remote_url in {path}"
    if env.get(VARIABLE):
        url, setting = env[VARIABLE], VARIABLE
    if given:
        url, setting = given[1], OPTION
    scheme, _, rest = url.partition("://")
    if not url or url in ("null", "~", "None") or scheme in _NO_SERVER:
        return {}
    if scheme == "mooncakestore" and "," in rest:
        why = "names several hosts: LMCache takes one for mooncakestore://, and the engine runs without that cache"
        return {"problems": (PlanProblem(setting.partition(" ")[0], url, why, starts=True),)}
    without_user = f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"
    servers = servers_of(without_user, _SCHEMES, "", setting)
    unread = "" if servers else f"LMCache's remote_url {without_user} is not tried: distdoctor cannot read it"
    if scheme == "mooncakestore":
        servers += metadata_in(env.get(MOONCAKE_FILE, "")) if MOONCAKE_FILE in env else _metadata(values, path)
    return {"servers": tuple(replace(server, needed=False) for server in servers), "unread": unread}


def _metadata(values: Mapping[str, str], path: str) -> list[EngineServer]:
    """Return Mooncake's metadata servers, which LMCache takes from its own file if Mooncake's is not named."""
    text = values.get("metadata_server", ALONE)
    return [] if text == ALONE else servers_of(text, METADATA, "etcd", f"metadata_server in {path}")


def servers_asked(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a line for several caches together."""
    return {
        "problems": tuple(one for part in parts for one in part.get("problems", ())),
        "servers": tuple(one for part in parts for one in part.get("servers", ())),
        "unread": "; ".join(filter(None, (part.get("unread", "") for part in parts))),
    }
