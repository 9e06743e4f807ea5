"""Settings of a launch, each with all names under which a job gets it.

The plan is resolved from this table, and lines to paste (fixes, the line for the other nodes, the next command) are
written with it. A new setting, or another name for one, is a change of this table alone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """One setting. An empty name: it cannot be given that way."""

    name: str
    """Field of ``plan.values.Flags`` and of the plan; ``rdzv_id`` is ``run_id`` there, and an endpoint is address and
    port."""
    flag: str = ""
    """Flag of ``distdoctor check``; also torchrun's, if it has one."""
    pet: str = ""
    """Variable of torchrun for its flag (torch/distributed/argparse_util.py: PET_ and the flag's name)."""
    variables: tuple[str, ...] = ()
    """Variables that a launcher sets for each rank and init_process_group() or a script reads. The first is the one to
    set."""
    slurm: str = ""
    """Variable that srun sets for each task of a step (srun(1), OUTPUT ENVIRONMENT VARIABLES); of a list each has its
    part."""

    @property
    def all_variables(self) -> tuple[str, ...]:
        """Variables that may be a source of the plan."""
        return (*filter(None, (self.pet,)), *self.variables)


# name, flag, torchrun's variable, the rank's variables, srun's variable
NNODES = Setting("nnodes", "--nnodes", "PET_NNODES", (), "SLURM_STEP_NUM_NODES")
NPROC_PER_NODE = Setting(
    "nproc_per_node", "--nproc-per-node", "PET_NPROC_PER_NODE", ("LOCAL_WORLD_SIZE",), "SLURM_STEP_TASKS_PER_NODE"
)
MASTER_ADDR = Setting("master_addr", "--master-addr", "PET_MASTER_ADDR", ("MASTER_ADDR",), "SLURM_STEP_NODELIST")
MASTER_PORT = Setting("master_port", "--master-port", "PET_MASTER_PORT", ("MASTER_PORT",))
RDZV_ENDPOINT = Setting("rdzv_endpoint", "--rdzv-endpoint", "PET_RDZV_ENDPOINT")
RDZV_BACKEND = Setting("rdzv_backend", "--rdzv-backend", "PET_RDZV_BACKEND")
RDZV_ID = Setting("rdzv_id", "--rdzv-id", "PET_RDZV_ID")
RDZV_CONF = Setting("rdzv_conf", "--rdzv-conf", "PET_RDZV_CONF")
LOCAL_ADDR = Setting("local_addr", "--local-addr", "PET_LOCAL_ADDR")
STANDALONE = Setting("standalone", "--standalone", "PET_STANDALONE")
NODE_RANK = Setting("node_rank", "--node-rank", "PET_NODE_RANK", ("NODE_RANK", "GROUP_RANK"), "SLURM_NODEID")
BACKEND = Setting("backend", "--backend")
INIT_METHOD = Setting("init_method", "--init-method")
LOCAL_RANK = Setting("local_rank", "--local-rank", "", ("LOCAL_RANK",), "SLURM_LOCALID")
MESH = Setting("mesh", "--mesh")
GROUPS = Setting("groups", "--groups")
RANK = Setting("rank", "", "", ("RANK",), "SLURM_PROCID")
WORLD_SIZE = Setting("world_size", "", "", ("WORLD_SIZE",), "SLURM_STEP_NUM_TASKS")

SETTINGS = (
    NNODES, NPROC_PER_NODE, MASTER_ADDR, MASTER_PORT, RDZV_ENDPOINT, RDZV_BACKEND, RDZV_ID, RDZV_CONF, STANDALONE,
    NODE_RANK, LOCAL_ADDR, BACKEND, INIT_METHOD, MESH, GROUPS, LOCAL_RANK, RANK, WORLD_SIZE,
)  # fmt: skip
"""All settings, in the order in which a command line has them; a node's own rank is printed after the shared ones."""
BY_NAME = {setting.name: setting for setting in SETTINGS}
LAUNCH_VARIABLES = tuple(setting.variables[0] for setting in (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT))
"""Four variables that ``init_process_group()`` with env:// needs."""


# Token: a secret that all processes of a run may share.


VARIABLE = "DISTDOCTOR_TOKEN"
TOKEN_PLACEHOLDER = "TOKEN"
"""Placeholder of the token in a printed line. Pasted as it is, it is refused as too short."""
LEAST_LENGTH = 16
"""Least characters: short tokens can be guessed on the network."""
