"""Dialects as data: one file for each framework, launcher or scheduler whose lines distdoctor reads.

Where two dialects know a line, the earlier one in ``DIALECTS`` reads it.
"""

from __future__ import annotations

from distdoctor.logs.dialects import (
    batch,
    cloud,
    deepspeed,
    kubernetes,
    lightning,
    megatron,
    mllog,
    mpi,
    nccl,
    oneccl,
    ray,
    sglang,
    shell,
    slurm,
    systemd,
    torchrun,
    transformers,
    verl,
    vllm,
)

DIALECTS = tuple(
    module.DIALECT
    for module in (
        torchrun,
        deepspeed,
        shell,
        slurm,
        mpi,
        batch,
        systemd,
        kubernetes,
        cloud,
        ray,
        nccl,
        oneccl,
        sglang,
        vllm,
        lightning,
        transformers,
        megatron,
        verl,
        mllog,
    )
)
PREFIXES = tuple(prefix for dialect in DIALECTS for prefix in dialect.prefixes)
WORDINGS = tuple(wording for dialect in DIALECTS for wording in dialect.ends)
BEGINS = tuple(mark for dialect in DIALECTS for mark in dialect.begins)
SUCCESS = tuple(mark for dialect in DIALECTS for mark in dialect.success)
OWN_PORTS = tuple((dialect.own_port, dialect.port_fix) for dialect in DIALECTS if dialect.own_port)
LITERALS = (*(mark.literal for mark in (*BEGINS, *SUCCESS)), "distributed_init_method=")
OVER = "|".join(dialect.over for dialect in DIALECTS if dialect.over)
WRAPPERS = "|".join(dialect.wrappers for dialect in DIALECTS if dialect.wrappers)
