"""From a command line and an environment to the plan.

Resolved once, from torchrun's flags, then its PET_* variables, then the variables a launcher sets for each rank, then
torchrun's defaults (``torch/distributed/run.py`` and ``argparse_util.py`` say which). A variable that is missing or
makes no sense becomes a :class:`PlanProblem`, which is a fact for the checks; a flag that makes none is a
:class:`UsageError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from distdoctor.launch.address_syntax import address_problem, split_endpoint
from distdoctor.launch.flags import Flags
from distdoctor.model.addresses import parse_address
from distdoctor.model.errors import UsageError
from distdoctor.model.plan import (
    BACKENDS,
    DEFAULT_PORT,
    DEFAULT_RANKS_WITHOUT_GPU,
    LAUNCH_VARIABLES,
    RDZV_BACKENDS,
    Plan,
    PlanProblem,
)

DEFAULT_C10D_PORT = 29400


def resolve(flags: Flags, env: Mapping[str, str], count_gpus: Callable[[], int], count_cpus: Callable[[], int]) -> Plan:
    """The plan for these flags and variables.

    ``count_gpus`` and ``count_cpus`` give this node's visible devices and processors and are only called where the
    plan depends on them. Raises UsageError for flags that make no plan.
    """
    return _Resolver(flags, env, count_gpus, count_cpus).resolve()


class _Resolver:
    def __init__(
        self, flags: Flags, env: Mapping[str, str], count_gpus: Callable[[], int], count_cpus: Callable[[], int]
    ) -> None:
        self.flags, self.env, self.count_gpus, self.count_cpus = flags, env, count_gpus, count_cpus
        self.sources: dict[str, str] = {}
        self.problems: list[PlanProblem] = []

    def resolve(self) -> Plan:
        backend = self._backend()
        if self._once_per_rank():
            plan = self._per_rank(backend)
        else:
            plan = self._per_node(backend)
        return replace(plan, sources=self.sources, problems=tuple(self.problems))

    def _once_per_rank(self) -> bool:
        flags, env = self.flags, self.env
        shaped = flags.nnodes or flags.nproc_per_node or flags.node_rank is not None or flags.standalone
        if shaped:
            return False
        if "TORCHELASTIC_RUN_ID" in env and "RANK" in env:
            return True  # torchrun's agent started this rank; its own PET_* variables are inherited
        if any(env.get(name) for name in ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK")):
            return False
        if flags.master_addr or flags.rdzv_endpoint:
            return "RANK" in env
        return any(name in env for name in LAUNCH_VARIABLES)

    # -- once per rank ------------------------------------------------------------------------------------------

    def _per_rank(self, backend: str) -> Plan:
        for name in LAUNCH_VARIABLES:
            if name not in self.env and not self._given_by_flag(name):
                self.problems.append(PlanProblem(name, None, "not set"))
        world = self._number("world_size", "WORLD_SIZE", low=1)
        rank = self._number("rank", "RANK", low=0)
        if rank is not None and world is not None and rank >= world:
            self._problem("RANK", f"must be below WORLD_SIZE, which is {world}")
            rank = None
        local_world = self._number("nproc_per_node", "LOCAL_WORLD_SIZE", low=1)
        local_rank = self._number("local_rank", "LOCAL_RANK", low=0)
        if local_rank is None and self.flags.local_rank is not None:
            local_rank = self.flags.local_rank
            self.sources["local_rank"] = "--local-rank"
        if local_rank is not None and local_world is not None and local_rank >= local_world:
            self._problem("LOCAL_RANK", f"must be below LOCAL_WORLD_SIZE, which is {local_world}")
        node_rank = self._number("node_rank", "GROUP_RANK", low=0)
        if node_rank is None:
            node_rank = self._number("node_rank", "NODE_RANK", low=0)
        master_addr, master_port = self._master(alone=world == 1, pet=False)
        nnodes = -(-world // local_world) if world is not None and local_world is not None else None
        return Plan(
            started="rank",
            nnodes=nnodes,
            nproc_per_node=local_world,
            node_rank=node_rank,
            rank=rank,
            local_rank=local_rank,
            world_size=world,
            master_addr=master_addr,
            master_port=DEFAULT_PORT if master_port is None else master_port,
            backend=backend,
            agent_store=self.env.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
            run_id=self.env.get("TORCHELASTIC_RUN_ID", "none"),
            init_method=self.flags.init_method,
            restart=_int_or(self.env.get("TORCHELASTIC_RESTART_COUNT"), 0),
        )

    def _given_by_flag(self, name: str) -> bool:
        flags = self.flags
        if name == "MASTER_ADDR":
            return bool(flags.master_addr or flags.rdzv_endpoint)
        if name == "MASTER_PORT":
            return bool(flags.master_port or flags.rdzv_endpoint)
        return False

    # -- once per node ------------------------------------------------------------------------------------------

    def _per_node(self, backend: str) -> Plan:
        nnodes = self._nnodes()
        nproc = self._nproc()
        node_rank = self._node_rank(nnodes)
        master_addr, master_port = self._master(alone=nnodes == 1)
        announce = False
        standalone = self.flags.standalone or self.env.get("PET_STANDALONE") == "1"
        if standalone:
            if nnodes != 1:
                given = "--standalone" if self.flags.standalone else "PET_STANDALONE=1"
                raise UsageError(f"{given} is for one node, and there are to be {nnodes}")
            master_addr, master_port = "127.0.0.1", 0
            given = "--standalone" if self.flags.standalone else "PET_STANDALONE"
            self.sources.update(master_addr=given, master_port="any free port")
        if master_addr is None and not any(
            p.variable.endswith(("MASTER_ADDR", "RDZV_ENDPOINT")) for p in self.problems
        ):
            if nnodes == 1:
                master_addr = "127.0.0.1"
                self.sources["master_addr"] = "default"
            elif node_rank:
                raise UsageError(
                    f"node {node_rank} needs to know node 0: add --master-addr ADDRESS (node 0 prints the whole line)"
                )
            else:
                announce = True
                node_rank = 0
                self.sources["node_rank"] = "no master known"
        if master_port is None:
            # torchrun takes a free port for one node alone (since torch 2.13's run.py; before, 29500): none is planned.
            alone = nnodes == 1 and self.sources.get("master_addr") == "default"
            master_port = 0 if alone else DEFAULT_PORT
            self.sources.setdefault("master_port", "any free port" if alone else "default")
        return Plan(
            started="node",
            nnodes=nnodes,
            nproc_per_node=nproc,
            node_rank=0 if nnodes == 1 else node_rank,
            world_size=nnodes * nproc,
            master_addr=master_addr,
            master_port=master_port,
            backend=backend,
            announce=announce,
            run_id=self.flags.rdzv_id or self.env.get("PET_RDZV_ID") or "none",
            rdzv_backend="c10d" if standalone else self._rdzv_backend(),
            init_method=self.flags.init_method,
        )

    def _with_init_method(self, flags: Flags) -> Flags:
        """The flags, with the master that a ``tcp://`` init method names. Raises UsageError for one that is none."""
        method = flags.init_method
        if method is None or method.startswith("env://"):
            return flags
        if method.startswith("file:///") and len(method) > len("file:///"):
            return flags
        tcp = re.fullmatch(r"tcp://(\[[^\]]+\]|[^:/\[\]]+):(\d+)(?:[/?].*)?", method)
        if tcp is None:
            raise UsageError(f"--init-method {method!r} is not env://, tcp://HOST:PORT or file:///PATH")
        if flags.master_addr is not None or flags.rdzv_endpoint is not None:
            raise UsageError(
                "--init-method tcp:// names the master itself: leave --master-addr and --rdzv-endpoint out"
            )
        return replace(flags, master_addr=tcp[1].strip("[]"), master_port=int(tcp[2]))

    def _nnodes(self) -> int:
        text, source = self._first(("--nnodes", self.flags.nnodes), ("PET_NNODES", self.env.get("PET_NNODES")))
        if text is None:
            self.sources["nnodes"] = "default"
            return 1
        self.sources["nnodes"] = source
        # MIN:MAX asks for an elastic job; the doctor checks the largest one that could be.
        match = re.fullmatch(r"(?:(\d+):)?(\d+)", text.strip())
        if match and 1 <= int(match[1] or 1) <= int(match[2]) <= 1_000_000:
            return int(match[2])
        self._bad(source, text, "is not a number of nodes (N, or MIN:MAX)")
        return 1

    def _nproc(self) -> int:
        text, source = self._first(
            ("--nproc-per-node", self.flags.nproc_per_node),
            ("PET_NPROC_PER_NODE", self.env.get("PET_NPROC_PER_NODE")),
            ("LOCAL_WORLD_SIZE", self.env.get("LOCAL_WORLD_SIZE")),
        )
        if text is None:
            gpus = self.count_gpus()
            self.sources["nproc_per_node"] = "visible GPUs" if gpus else "default"
            return gpus or DEFAULT_RANKS_WITHOUT_GPU
        self.sources["nproc_per_node"] = source
        text = text.strip()
        if text == "cpu":
            return self.count_cpus()
        if text in ("gpu", "auto"):
            gpus = self.count_gpus()
            if gpus == 0 and text == "gpu":
                self._bad(source, text, "no GPU is visible on this node")
                return DEFAULT_RANKS_WITHOUT_GPU
            return gpus or self.count_cpus()
        if re.fullmatch(r"\d+", text) and 1 <= int(text) <= 100_000:
            return int(text)
        self._bad(source, text, "is not a number of ranks (N, auto, cpu or gpu)")
        return DEFAULT_RANKS_WITHOUT_GPU

    def _node_rank(self, nnodes: int) -> int | None:
        if self.flags.node_rank is not None:
            self.sources["node_rank"] = "--node-rank"
            if not 0 <= self.flags.node_rank < nnodes:
                raise UsageError(
                    f"--node-rank {self.flags.node_rank} is not one of the {nnodes} node ranks 0 to {nnodes - 1} that "
                    f"--nnodes {nnodes} has"
                )
            return self.flags.node_rank
        for name in ("PET_NODE_RANK", "NODE_RANK", "GROUP_RANK"):
            if name != "PET_NODE_RANK" and nnodes == 1:
                continue  # torchrun does not read them: left over from another launcher, they say nothing of one node
            if name in self.env:
                value = self._number("node_rank", name, low=0)
                if value is not None and value >= nnodes:
                    self._problem(name, f"node ranks go from 0 to {nnodes - 1} with {nnodes} nodes")
                    return None
                return value
        self.sources["node_rank"] = "assigned at the meeting" if nnodes > 1 else "default"
        return None

    # -- both ---------------------------------------------------------------------------------------------------

    def _master(self, *, alone: bool, pet: bool = True) -> tuple[str | None, int | None]:
        """The master's address and port. ``alone``: nobody else has to know the port, so that it may be 0 for any.
        ``pet``: whether PET_* count; what a rank of torchrun is given comes later."""
        flags, env = self._with_init_method(self.flags), self.env
        lowest = 0 if alone else 1
        if not pet:
            env = {name: value for name, value in env.items() if not name.startswith("PET_")}
        if flags.master_port is not None and not lowest <= flags.master_port <= 65535:
            raise UsageError(f"--master-port {flags.master_port} is not a port that all nodes know: 1 to 65535")
        endpoint, source = self._first(
            ("--rdzv-endpoint", flags.rdzv_endpoint), ("PET_RDZV_ENDPOINT", env.get("PET_RDZV_ENDPOINT"))
        )
        if endpoint:  # it wins, whatever else names the master (torch/distributed/run.py, get_rdzv_endpoint)
            return self._endpoint(source, endpoint, lowest)
        address, source = self._first(
            ("--master-addr", flags.master_addr),
            ("PET_MASTER_ADDR", env.get("PET_MASTER_ADDR")),
            # One node alone meets nobody there: torchrun takes a place of its own.
            ("MASTER_ADDR", None if pet and alone else env.get("MASTER_ADDR")),
        )
        if address is not None:
            if pet and not alone and self._rdzv_backend() == "c10d":
                instead = f"name node 0 with --rdzv-endpoint {address}:PORT, or take the static rendezvous"
                if self.flags.rdzv_backend:
                    raise UsageError(f"torchrun reads no {source} with --rdzv-backend c10d: {instead}")
                # A variable may be left over: what the other nodes have is needed to tell.
                self._bad("PET_RDZV_BACKEND", "c10d", f"makes torchrun read no {source}: {instead}")
            self.sources["master_addr"] = source
            address = self._clean_address(source, address)
        port: int | None = None
        if flags.master_port is not None:
            port = flags.master_port
            self.sources["master_port"] = "--master-port"
        else:
            # torchrun reads no MASTER_PORT: where its own flags name the master, one that is left in the shell is none.
            plain = () if pet and source != "MASTER_ADDR" else ("MASTER_PORT",)
            for name in ("PET_MASTER_PORT", *plain):
                if name in env:
                    port = self._number("master_port", name, low=lowest, high=65535)
                    break
        if port == 0:
            self.sources["master_port"] = "any free port"
        return address, port

    def _endpoint(self, source: str, text: str, lowest: int) -> tuple[str | None, int | None]:
        """The address and the port that a rendezvous endpoint names; c10d knows a port where there is none."""
        address, port = split_endpoint(text)
        self.sources["master_addr"] = self.sources["master_port"] = source
        if parse_address(address) is not None and ":" in address and not text.startswith("["):
            # rendezvous/utils.py takes what stands behind the last colon for the port.
            self._bad(source, text, f"is an IPv6 address without brackets ([{address}]:PORT)")
            return None, None
        if port is not None and not lowest <= port <= 65535:
            self._bad(source, text, f"{port} is not a port that all nodes know: 1 to 65535")
            port = None
        elif port is None and self._rdzv_backend() == "c10d":
            port, self.sources["master_port"] = DEFAULT_C10D_PORT, "default of c10d"
        elif port is None and address_problem(address)[0] is None:
            # static_tcp_rendezvous.py: "Port is absent in endpoint"
            self._bad(source, text, "names no port, and the static rendezvous needs one (HOST:PORT)")
        if port == 0:
            self.sources["master_port"] = "any free port"
        return self._clean_address(source, address), port

    def _rdzv_backend(self) -> str:
        name, source = self._first(
            ("--rdzv-backend", self.flags.rdzv_backend), ("PET_RDZV_BACKEND", self.env.get("PET_RDZV_BACKEND"))
        )
        if name is None:
            return "static"
        self.sources["rdzv_backend"] = source
        from importlib.metadata import entry_points  # here: start-up is light

        # Others can be installed (torch/distributed/elastic/rendezvous/registry.py reads this group of entry points).
        if name not in RDZV_BACKENDS and name not in entry_points(group="torchrun.handlers").names:
            why = f"is no rendezvous backend that torchrun knows here ({', '.join(RDZV_BACKENDS)})"
            if all(problem.variable != source for problem in self.problems):
                self._bad(source, name, why)
        return name

    def _clean_address(self, source: str, text: str) -> str | None:
        why, meant = address_problem(text)
        if why is None:
            return text
        if source.startswith("--"):
            hint = f"; did you mean {meant}?" if meant else ""
            raise UsageError(f"{source} {text!r}: {why}{hint}")
        self.problems.append(PlanProblem(source, text, why, meant))
        return meant

    def _backend(self) -> str:
        text = self.flags.backend
        if text is None:
            self.sources["backend"] = "default"
            return "auto"
        self.sources["backend"] = "--backend"
        text = text.strip().lower()
        parts = text.split(",")
        pattern = r"(?:(?:cpu|cuda|xpu|hpu):)?(?:" + "|".join(BACKENDS) + ")"
        if text != "auto" and (
            not all(re.fullmatch(pattern, part) for part in parts)
            or (len(parts) > 1 and not all(":" in part for part in parts))
        ):
            raise UsageError(
                f"--backend {self.flags.backend!r} is not auto, a backend ({', '.join(BACKENDS)}) or one per device "
                "such as cpu:gloo,cuda:nccl"
            )
        return text

    def _first(self, *choices: tuple[str, str | None]) -> tuple[str | None, str]:
        for source, text in choices:
            if text is not None and (text != "" or not source.startswith("PET_")):
                return text, source
        return None, ""

    def _number(self, name: str, variable: str, low: int, high: int = 10_000_000) -> int | None:
        """The variable's value, or None after noting the problem where it is no such number."""
        text = self.env.get(variable)
        if text is None:
            return None
        if re.fullmatch(r"\s*[+-]?\d{1,18}\s*", text):
            value = int(text)
            if low <= value <= high:
                self.sources[name] = variable
                return value
            why = f"must be {low} to {high}" if high < 10_000_000 else f"must be {low} or more"
            self._problem(variable, why)
        else:
            self._problem(variable, "is empty" if not text.strip() else "is not a whole number")
        return None

    def _problem(self, variable: str, why: str) -> None:
        self.problems.append(PlanProblem(variable, self.env.get(variable), why))

    def _bad(self, source: str, text: str, why: str) -> None:
        if source.startswith("--"):
            raise UsageError(f"{source} {text!r}: {why.removeprefix('is ')}")
        self.problems.append(PlanProblem(source, text, why))


def _int_or(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and re.fullmatch(r"\d{1,9}", text) else otherwise
