"""Mooncake's store in an engine: the file or variables that describe it, and the servers that each of its ranks asks.

Names and defaults are those of vLLM 0.33 (distributed/mooncake_store.py), SGLang 0.5.23 (mem_cache/storage/
mooncake_store/mooncake_store.py, environ.py), verl 0.9 (trainer/config/transfer_queue) and Mooncake 0.3.13.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from distdoctor.model.addresses import is_loopback
from distdoctor.model.plan import EngineServer, PlanProblem
from distdoctor.plan.job_line import MAX_BYTES
from distdoctor.plan.launchers.base import text_of
from distdoctor.plan.syntax import split_endpoint

MASTER = "Mooncake master"
EXTRA = "--hicache-storage-backend-extra-config"
HICACHE_SWITCHES = ("--enable-hierarchical-cache", "--disaggregation-decode-enable-offload-kvcache")
"""Switches of SGLang without one of which its storage backend is not used (arg_groups/hicache_hook.py)."""
MOONCAKE_FILE, _HICACHE_FILE, _VARIABLE = (
    "MOONCAKE_CONFIG_PATH",
    "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH",
    "MOONCAKE_MASTER",
)
_VARIABLES = {
    "master_server_address": _VARIABLE,
    "client_server_address": "MOONCAKE_CLIENT",
    "metadata_server": "MOONCAKE_TE_META_DATA_SERVER",
    "standalone_storage": "MOONCAKE_STANDALONE_STORAGE",
}
_OWN = "backend.MooncakeStore."
ALONE = "P2PHANDSHAKE"
"""Value of metadata_server with which the engines exchange their metadata themselves."""
_NEEDS = "the engine's Mooncake store cannot start without"
METADATA = {
    "http": ("HTTP metadata server of Mooncake", 80),
    "https": ("HTTP metadata server of Mooncake", 443),
    "etcd": ("etcd of Mooncake", 2379),
    "redis": ("redis of Mooncake", 12001),
}
"""Schemes of a metadata server: its name and usual port (mooncake-transfer-engine/src/transfer_metadata_plugin.cpp;
include/common.h, parseHostNameWithPort())."""
_OF_MASTERS = {"": (MASTER, 0), "etcd": ("etcd of Mooncake", 2379), "redis": ("redis of Mooncake", 6379)}
"""Schemes by which the master is found: what is asked, and its usual port (mooncake-store/src/client_service.cpp,
ConnectToMaster(); ha/common/redis). ``k8s`` asks the API server of Kubernetes."""
_SEVERAL = re.compile(r"[,;]")
"""Separators of etcd's endpoints, of which one is enough (mooncake-common/etcd/etcd_wrapper.go). All else is one."""


def store_of_vllm(words: Sequence[str], env: Mapping[str, str], several: bool) -> dict[str, Any]:
    """Return ``problems`` and ``servers`` of a line for vLLM's connector. ``several``: ranks of more than one node."""
    if "MooncakeStoreConnector" not in " ".join(words):
        return {}
    values, why = _in_file(env.get(MOONCAKE_FILE, ""))
    if values is None:
        return {"problems": (PlanProblem(MOONCAKE_FILE, env.get(MOONCAKE_FILE, ""), why),)}
    return _store(values, MOONCAKE_FILE, f"{{}} in {env[MOONCAKE_FILE]}", env[MOONCAKE_FILE], several, metadata="")


def store_of_sglang(given: Mapping[str, str], env: Mapping[str, str], several: bool) -> dict[str, Any]:
    """Return the same for SGLang's hierarchical cache: by its option, else its file, else its variables."""
    if given.get("--hicache-storage-backend") != "mooncake" or not any(name in given for name in HICACHE_SWITCHES):
        return {}
    extra, path = given.get(EXTRA, ""), env.get(_HICACHE_FILE, "")
    options = _json(text_of(extra[1:], MAX_BYTES) if extra.startswith("@") else extra)
    if extra and options is None:  # TOML, YAML, or a text that only a shell reads
        return {"unread": f"{EXTRA} is not JSON: the servers of Mooncake that it may name are not tried"}
    if _described(options or {}):
        return _store(options or {}, EXTRA, f"{{}} of {EXTRA}", "", several)
    if _HICACHE_FILE in env:
        values, why = _in_file(path)
        if values is None:
            return {"problems": (PlanProblem(_HICACHE_FILE, path, why),)}
        return _store(values, _HICACHE_FILE, f"{{}} in {path}", path, several)
    values = {key: env[name] for key, name in _VARIABLES.items() if name in env}
    if not _described(values):
        why = f"names no master: {_NEEDS} one"
        return {"problems": (PlanProblem(_VARIABLE, env.get(_VARIABLE, ""), why),)}
    return _store(values, _VARIABLE, "", "", several)


def store_of_verl(words: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
    """Return the servers alone for verl, whose workers may have other variables than this process: those of vLLM's
    connector in its rollouts, or of its transfer queue, which starts them itself with auto_init."""
    given = dict(re.findall(r"(?:^|\s)\+*transfer_queue\.([\w.]+)=['\"]?([^\s'\"]+)", " ".join(words)))
    own = {name.removeprefix(_OWN): value for name, value in given.items() if name.startswith(_OWN)}
    used = given.get("enable", "").lower() == "true" and given.get("backend.storage_backend") == "MooncakeStore"
    if used and own.get("auto_init", "").lower() == "true":
        return {}
    described = {"master_server_address": "localhost:50124", **own}
    store = _store(described, "", f"transfer_queue.{_OWN}{{}}") if used else store_of_vllm(words, env, True)
    return {"servers": store.get("servers", ()), "unread": store.get("unread", "")}


def _store(
    values: Mapping[str, Any], name: str, called: str, value: str = "", several: bool = False, metadata: str = ALONE
) -> dict[str, Any]:
    """Return the problems and servers of a described store.

    ``name``, ``value``: the option or variable that describes it. ``called``: pattern of a setting's name; empty for
    variables. ``metadata``: what the engine takes for a metadata server if none is given.
    """
    if values.get("client_server_address") and str(values.get("standalone_storage")).lower() in ("true", "1"):
        return {}  # a client process of its own, on this node, asks the servers
    master = str(values.get("master_server_address") or "")
    at = str(values.get("metadata_server", metadata) or "")
    faults = _faults(master or str(values.get("client_server_address") or ""), at, several)
    named = (
        ("master_server_address", master, _OF_MASTERS, ""),
        ("metadata_server", "" if at == ALONE else at, METADATA, "etcd"),
    )
    servers, unread = list[EngineServer](), list[str]()
    for key, text, schemes, usual in named:
        setting = called.format(key) if called else _VARIABLES[key]
        found = servers_of(text, schemes, usual, setting)
        servers += found
        if text and not found:
            unread.append(f"Mooncake's {key} {text} is not tried: distdoctor cannot read a host and a port from it")
    problems = tuple(PlanProblem(name, value or master, why, starts=starts) for why, starts in faults)
    return {"problems": problems, "servers": tuple(servers), "unread": "" if problems else "; ".join(unread)}


def servers_of(text: str, schemes: Mapping[str, tuple[str, int]], scheme: str, setting: str) -> list[EngineServer]:
    """Return the servers of an address: several of etcd alone; none if it cannot be read.

    ``schemes``: what is asked and its usual port. ``scheme``: that of an address without one.
    """
    scheme = text.partition("://")[0] if "://" in text else scheme
    use, usual = schemes.get(scheme, ("", 0))
    parts = [part.strip() for part in _SEVERAL.split(text)] if scheme == "etcd" else [text]
    places = [_server_of(part, usual) for part in parts if part]
    if not use or None in places:
        return []
    return [EngineServer(*place, use, setting, one_of=len(places) > 1) for place in places if place is not None]


def _faults(master: str, metadata: str, several: bool) -> Iterator[tuple[str, bool]]:
    """Yield what is wrong with the addresses, and whether the engine starts all the same."""
    host, port = split_endpoint(master)
    host = host.strip("[]")
    if not master:
        yield f"has no master_server_address: {_NEEDS} one", False
    elif "://" not in master and _SEVERAL.search(master):
        yield (
            f"names several masters, {master}: {_NEEDS} one HOST:PORT, or etcd://HOST:PORT;HOST:PORT of the etcd",
            False,
        )
    elif port is None and "://" not in master:
        yield f"has the master at {master}, without a port: {_NEEDS} one", False
    elif several and (host == "localhost" or is_loopback(host)):
        yield f"has the master at {host}, where each node asks itself: only one of them has it", True
    if not metadata:  # Mooncake takes etcd then, with "no valid endpoints provided"
        yield f"has no metadata_server: {_NEEDS} one, such as {ALONE}", False


def _server_of(text: str, usual: int = 0) -> tuple[str, int] | None:
    """Return host and port of one address; None for another text, or for one that only a shell knows."""
    host, port = split_endpoint(text.rpartition("://")[2].partition("/")[0])
    port = port or usual
    return (host.strip("[]"), port) if port and host and not re.search(r"[,;$\s]", host) else None


def metadata_in(path: str) -> list[EngineServer]:
    """Return the metadata servers of Mooncake's JSON file."""
    text = str((_in_file(path)[0] or {}).get("metadata_server") or ALONE)
    return [] if text == ALONE else servers_of(text, METADATA, "etcd", f"metadata_server in {path}")


def _described(values: Mapping[str, Any]) -> bool:
    return any(values.get(name) is not None for name in ("master_server_address", "client_server_address"))


def _in_file(path: str) -> tuple[dict[str, Any] | None, str]:
    """Return the settings of a JSON file; without them, what is wrong with it."""
    needs = f"{_NEEDS} its JSON file"
    if not path:
        return None, f"names no file: {needs}"
    text = text_of(path, MAX_BYTES)
    values = _json(text)
    if values is None:
        return None, f"{'is not JSON' if text else 'is empty, or is no file that can be read here'}: {needs}"
    return values, ""


def _json(text: str) -> dict[str, Any] | None:
    """Return the object; empty for another value, None for no JSON."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else {}
