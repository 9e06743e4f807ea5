"""Start lines of inference engines: vLLM, SGLang, Dynamo's workers with either of them, TRL's vLLM server.

Names and defaults are those of vLLM 0.33 (engine/arg_utils.py, config/parallel.py), SGLang 0.5.23
(srt/arg_groups/fields/parallel.py, srt/server_args.py), Dynamo 1.6 and TRL 1.9 (scripts/vllm_serve.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from distdoctor.model.addresses import is_loopback
from distdoctor.model.plan import EnginePort
from distdoctor.plan.job_line import (
    MAX_BYTES,
    JobLine,
    here_alone,
    in_file,
    mesh_of,
    nested,
    node_flags,
    number,
    options_of,
    port_of,
    shared,
    word,
)
from distdoctor.plan.launchers.base import text_of
from distdoctor.plan.lmcache import cache_of, servers_asked
from distdoctor.plan.mooncake import EXTRA, HICACHE_SWITCHES, store_of_sglang, store_of_vllm
from distdoctor.plan.syntax import split_endpoint

_VLLM = {
    "--nnodes": ("-n",), "--node-rank": ("-r",), "--master-addr": (), "--master-port": (),
    "--tensor-parallel-size": ("-tp", "--tp"), "--pipeline-parallel-size": ("-pp", "--pp"),
    "--prefill-context-parallel-size": ("-pcp",), "--decode-context-parallel-size": ("-dcp",),
    "--data-parallel-size": ("-dp", "--dp"),
    "--data-parallel-rank": ("-dpn",), "--data-parallel-start-rank": ("-dpr",),
    "--data-parallel-size-local": ("-dpl",), "--data-parallel-address": ("-dpa",),
    "--data-parallel-rpc-port": ("-dpp",), "--data-parallel-backend": ("-dpb",),
    "--distributed-executor-backend": (), "--model": (), "--port": (), "--uds": (), "--config": (),
    "--kv-transfer-config": (), "--kv-transfer-config.kv_connector": (), "--kv-transfer-config.kv-connector": (),
}  # fmt: skip
"""Options of vLLM that decide about its ranks and ports, with their short names."""
VLLM_PORT, MASTER, RPC, API = "VLLM_PORT", 29501, 29550, 8000
_MOONCAKE = re.compile(r"MooncakeConnector")
_SIDE_CHANNELS = (
    ("NIXL", 5600, re.compile(r"Nixl\w*Connector"), True),
    ("P2P", 5710, re.compile(r"[\"']type[\"']: ?[\"']p2p[\"'](?![^{}]*[\"'](?:host|port)[\"'])"), True),
    (
        "EC",
        5601,
        re.compile(r"ECCPUConnector(?=.*ec_(?:producer|both))|ec_(?:producer|both)(?=.*ECCPUConnector)"),
        False,
    ),
)
"""ZMQ sockets over which vLLM's engines exchange NIXL's metadata: name in VLLM_*_SIDE_CHANNEL_HOST and _PORT, usual
port, the connector that needs it, whether each data-parallel rank adds its number to the port (vllm/envs.py,
nixl/base_scheduler.py, kv_offload/tiering/p2p/manager.py, ec_connector/cpu/scheduler)."""
_BACKENDS = re.compile(r"[\"']backends[\"']: ?\[[\"']?([\w\"', ]+?)[\"']?\]")
_SENDS_NO_CACHE = re.compile(r"kv_consumer|bootstrap_server_address")
"""Settings of a connector with which vLLM starts no server for Mooncake (v1/mooncake/mooncake_connector.py)."""


def read_vllm(words: Sequence[str], env: Mapping[str, str], served: bool = True) -> JobLine:
    """Return the plan of a vLLM server. ``served``: it has an API port. Raise ValueError."""
    given = _with_file(options_of(words, _VLLM, ("--headless", "--worker-use-ray", *_EXPERTS)))
    sizes = [number(given, f"--{name}-size", 1) for name in _DIMENSIONS]
    dp, each = sizes[0], sizes[1] * sizes[2] * sizes[3]
    nodes = number(given, "--nnodes", 1)
    dense = _is_dense(given.get("--model") or (words[0] if words[:1] and not words[0].startswith("-") else ""))
    local = number(given, "--data-parallel-size-local", dp)
    store = servers_asked(store_of_vllm(words, env, nodes > 1 or local != dp), cache_of(words, env))
    ports = (*_vllm_ports(given, words, env, served),)
    line = JobLine("vLLM", **_vllm_groups(given, sizes, dense), ports=ports, **store)
    if nodes > 1:
        rank = number(given, "--node-rank", 0)
        place = word(given, "--master-addr", "127.0.0.1"), number(given, "--master-port", MASTER)
        return replace(line, flags=node_flags(nodes, shared(dp * each, nodes), rank, *place))
    by_ray = "ray" in (given.get("--distributed-executor-backend"), given.get("--data-parallel-backend"))
    if by_ray or "--worker-use-ray" in given:
        said = f"Ray places the {dp * each} ranks of this vLLM server"
        apart = dp > 1 and given.get("--data-parallel-backend") != "ray" and "--data-parallel-address" not in given
        return here_alone("vLLM", f"{_ALL_HERE}; {said}" if apart else said, ports=ports, **store)
    address = word(given, "--data-parallel-address", word(given, "--master-addr", "127.0.0.1"))
    if local == dp or is_loopback(address) or address == "localhost":  # all of them are on this machine
        return replace(line, flags=node_flags(1, dp * each))
    if "--data-parallel-rank" in given or not local or dp % local:
        said = f"this line does not say on which nodes the {dp} data-parallel ranks of vLLM run"
        return here_alone("vLLM", said, ports=ports, **store)
    rank = number(given, "--data-parallel-start-rank", 0) // local or number(given, "--node-rank", 0)
    port = port_of(given, _RPC, RPC, "handshake (ZMQ)")
    ports = line.ports if rank else (*line.ports, port)
    names = {"master_addr": "--data-parallel-address", "master_port": _RPC}
    flags = node_flags(dp // local, local * each, rank, address, port.port)
    return replace(line, flags=flags, ports=ports, names=names)


_DIMENSIONS = ("data-parallel", "pipeline-parallel", "prefill-context-parallel", "tensor-parallel")
"""From the outermost in."""
_EXPERTS = ("--enable-expert-parallel", "-ep", "--enable-eplb")
"""Switches that vLLM has for models with experts; these models have groups of ep without them, too."""


def _is_dense(model: str) -> bool:
    """Return whether the model's folder shows that it has no experts: its data-parallel ranks are then engines of their
    own (v1/engine/core.py, run_engine_core(): reconfigure_for_independent_dp_rank())."""
    text = text_of(f"{model}/config.json", MAX_BYTES) if "/" in model else ""
    return 0 < len(text) < MAX_BYTES and not _OF_EXPERTS.search(text)


_OF_EXPERTS = re.compile(r'"\w*experts\w*": ?[1-9]')
"""Setting of a model with experts: num_experts, num_local_experts, n_routed_experts, moe_num_experts."""


def _vllm_groups(given: Mapping[str, str], sizes: Sequence[int], dense: bool) -> dict[str, Any]:
    """Return the mesh and the groups of vLLM (distributed/parallel_state.py, initialize_model_parallel()).

    A model without experts has no groups of dp and ep (``dense``); a line does not say which model has some.
    """
    dp, pp, pcp, tp = sizes
    dcp = number(given, "--decode-context-parallel-size", 1)
    inside = pcp == 1 and dcp > 1  # else the ranks of a dcp group are those of pcp, or of pcp and tp
    parts, entries = nested("tp", tp, **({"dcp": (dcp, 1)} if inside else {}))
    all_tp = "+".join(parts)
    of_dcp = entries.get("dcp", "") if inside else "dcp=pcp" if dcp == pcp > 1 else f"dcp=pcp+{all_tp}" * (dcp > 1)
    experts = [f"ep=dp+pcp+{all_tp}"] if any(name in given for name in _EXPERTS) else []
    balanced = [f"eplb=dp+pcp+{all_tp}"] if "--enable-eplb" in given else []
    order = [entries.get("tp", ""), of_dcp, "pcp", "pp", *(() if dense else ("dp", *experts, *balanced))]
    return mesh_of(" ".join(order), dp=dp, pp=pp, pcp=pcp, **parts)


_RPC = "--data-parallel-rpc-port"
_ALL_HERE = (
    "without --data-parallel-backend ray, vLLM's data-parallel ranks meet at 127.0.0.1 and hang if Ray places one of "
    "them on another node"
)
"""engine/arg_utils.py, create_engine_config(); https://github.com/vllm-project/vllm/issues/44878."""


def _with_file(given: dict[str, str]) -> dict[str, str]:
    """Add the settings of --config, which the command line overrides."""
    file = in_file(given["--config"]) if given.get("--config") else {}
    return {**{f"--{name.replace('_', '-')}": value for name, value in file.items()}, **given}


def _vllm_ports(
    given: Mapping[str, str], words: Sequence[str], env: Mapping[str, str], served: bool
) -> Iterator[EnginePort]:
    if served and "--headless" not in given and not given.get("--uds"):
        yield port_of(given, "--port", API, "API server")
    text, first_rank = " ".join(words), number(given, "--data-parallel-start-rank", 0)
    first_node = not (first_rank or number(given, "--node-rank", 0))
    if _MOONCAKE.search(text) and not _SENDS_NO_CACHE.search(text) and first_node:
        yield port_of(env, "VLLM_MOONCAKE_BOOTSTRAP_PORT", 8998, "Mooncake bootstrap")
    engines = max(1, number(given, "--data-parallel-size-local", number(given, "--data-parallel-size", 1)))
    backends = _BACKENDS.search(text)
    over = "" if backends is None or "UCX" in backends[1] else f" over {backends[1]}"
    for channel, usual, wanted, each in _SIDE_CHANNELS:
        name = f"VLLM_{channel}_SIDE_CHANNEL_PORT"
        if wanted.search(text):
            first = number(env, name, usual) + (first_rank if each else 0)
            for engine in range(engines):
                yield EnginePort(first + engine * each, name, f"{channel} side channel{over}", name in env)


_SGLANG = {
    "--nnodes": (), "--node-rank": (), "--dist-init-addr": ("--nccl-init-addr",), "--nccl-port": (),
    "--tp-size": ("--tensor-parallel-size", "--tp"), "--pp-size": ("--pipeline-parallel-size", "--pp"),
    "--dp-size": ("--data-parallel-size", "--dp"), "--attn-dp-size": ("--attention-data-parallel-size",),
    "--attn-cp-size": ("--attention-context-parallel-size",), "--moe-dp-size": ("--moe-data-parallel-size",),
    "--ep-size": ("--expert-parallel-size", "--ep"), "--dcp-size": ("--decode-context-parallel-size",),
    "--moe-a2a-backend": (), "--hicache-storage-backend": (), EXTRA: (),
    "--port": (), "--host": (), "--config": (), "--disaggregation-mode": (), "--disaggregation-bootstrap-port": (),
}  # fmt: skip
_SERVED, _BOOTSTRAP, _OWN_PORTS = 30000, 8998, 233
"""--port, --disaggregation-bootstrap-port, and what PortArgs adds to --port without --dist-init-addr."""
_DERIVED = ("engine", "detokenizer", "RPC", "metrics", "scheduler", "load snapshots")
"""Uses of the ports behind that of --dist-init-addr with attention DP (srt/server_args.py, PortArgs.init_new())."""


def read_sglang(words: Sequence[str], env: Mapping[str, str], served: bool = True) -> JobLine:
    """Return the plan of an SGLang server. ``served``: it has an HTTP port. Raise ValueError."""
    given = _with_file(options_of(words, _SGLANG, ("--enable-dp-attention", "--use-ray", *HICACHE_SWITCHES)))
    tp, pp, dp = (number(given, f"--{name}-size", 1) for name in ("tp", "pp", "dp"))
    inside = "--enable-dp-attention" in given or number(given, "--attn-dp-size", 1) > 1
    copies = 1 if inside else dp  # with attention DP the groups of dp are inside tp
    nodes, rank = number(given, "--nnodes", 1), number(given, "--node-rank", 0)
    at = word(given, "--dist-init-addr")
    address, port = split_endpoint(at) if at else ("", None)
    if at and port is None:
        raise ValueError(f"--dist-init-addr {at} has no port: SGLang needs HOST:PORT, the same on every node")
    if nodes > 1 and not at:
        raise ValueError(f"SGLang on {nodes} nodes needs --dist-init-addr HOST:PORT, the same on every node")
    if port is None and "--nccl-port" in given:
        port = number(given, "--nccl-port", 0)
    by = "--dist-init-addr" if at else "--nccl-port"
    names = {"master_addr": by, "master_port": by}
    line = JobLine("SGLang", **_sglang_groups(given, copies, pp, tp, dp if inside else 1), names=names)
    flags = node_flags(nodes, shared(copies * tp * pp, nodes), rank, address, "" if port is None else port)
    ports = _sglang_ports(given, port, inside, served) if rank == 0 else ()
    pinned = _pinned(given) if copies > 1 and nodes == 1 else ()
    return replace(
        line,
        flags=flags,
        ports=(*ports, *pinned),
        **servers_asked(store_of_sglang(given, env, nodes > 1), cache_of(words, env)),
    )


def _sglang_groups(given: Mapping[str, str], copies: int, pp: int, tp: int, dp: int) -> dict[str, Any]:
    """Return the mesh and the groups of SGLang (srt/distributed/parallel_state.py, initialize_model_parallel()).

    Replicas (``copies``) share no group. A group of all ranks of tp is that of tp, not another.
    """
    attn_dp = max(dp, number(given, "--attn-dp-size", 1))
    cp, moe_dp, dcp = (number(given, f"--{name}-size", 1) for name in ("attn-cp", "moe-dp", "dcp"))
    ep = tp if given.get("--moe-a2a-backend") in _EXPERTS_IN_TP else number(given, "--ep-size", 1)
    if not (attn_dp and cp and ep and moe_dp):
        raise ValueError("SGLang has no group of 0 ranks")
    attn_tp, moe_tp = tp // (attn_dp * cp), tp // (ep * moe_dp)
    smaller = {"dcp": (dcp, 1), "attn_cp": (cp, attn_tp), "attn_tp": (attn_tp, 1)}
    smaller |= {} if cp > moe_dp else {"moe_dp": (moe_dp, ep * moe_tp)}
    smaller |= {"moe_ep": (ep, moe_tp), "moe_tp": (moe_tp, 1)}
    own = {name: (size, step) for name, (size, step) in smaller.items() if size > 1 and (size < tp or name == "dcp")}
    try:
        parts, entries = nested("tp", tp, **own)
    except ValueError as err:
        return {"note": f"{err} as a mesh: only the groups of tp and pp are checked", **mesh_of("tp pp", pp=pp, tp=tp)}
    return mesh_of(" ".join([*entries.values(), "pp"]), dp=copies, pp=pp, **parts)


_EXPERTS_IN_TP = (
    "megamoe", "deepep", "deepep_v2", "mooncake", "nixl", "ascend_fuseep", "flashinfer", "flashinfer_megamoe", "mori",
    "pplx",
)  # fmt: skip
"""Values of --moe-a2a-backend with which ep is as large as tp (srt/arg_groups/overrides.py)."""


def _pinned(given: Mapping[str, str]) -> Iterator[EnginePort]:
    """Yield --nccl-port for the stores of two replicas: each of --dp-size replicas binds it
    (srt/managers/data_parallel_controller.py, launch_dp_schedulers())."""
    if "--nccl-port" in given:
        for use in ("the store of replica 0", "the store of replica 1"):
            yield EnginePort(number(given, "--nccl-port", 0), "--nccl-port", use, True)


def _sglang_ports(given: Mapping[str, str], port: int | None, inside: bool, served: bool) -> Iterator[EnginePort]:
    http = number(given, "--port", _SERVED)
    if served:
        yield port_of(given, "--port", _SERVED, "HTTP server")
    if inside:
        base, by = (port, "--dist-init-addr") if "--dist-init-addr" in given and port else (http + _OWN_PORTS, "--port")
        first = base + 1 if base + len(_DERIVED) <= 65535 else base - len(_DERIVED) - 1
        for offset, use in enumerate(_DERIVED):
            yield EnginePort(first + offset, by, f"{use} (ZMQ)", by in given)
    if given.get("--disaggregation-mode") == "prefill":
        yield port_of(given, "--disaggregation-bootstrap-port", _BOOTSTRAP, "bootstrap of the transfer")


def read_trl_server(words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    """Return the plan of ``trl vllm-serve``: one node, unless Ray places the ranks. Raise ValueError."""
    return read_vllm([flag for flag in words if not flag.startswith("--nnodes")], env)


def read_dynamo(module: str, words: Sequence[str], env: Mapping[str, str]) -> JobLine:
    """Return the plan of a module of Dynamo: its workers take the engine's own options. Raise ValueError."""
    if module == "dynamo.vllm":
        return read_vllm(words, env, served=False)
    if module == "dynamo.sglang":
        return read_sglang(words, env, served=False)
    if module == "dynamo.trtllm":
        return here_alone(module, "TensorRT-LLM's ranks are started by mpirun or srun, not by this line")
    return here_alone(module, f"{module} starts no ranks")
