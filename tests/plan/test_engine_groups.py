"""The groups of an engine's line, in the order in which the engine itself creates them.

The ranks in the table are those that initialize_model_parallel() of vLLM 0.33 and SGLang 0.5.23 passes to new_group(),
without the groups of a single rank.
"""

from __future__ import annotations

import math
from itertools import groupby
from pathlib import Path

import pytest

from distdoctor.model.bounds import check_mesh
from distdoctor.model.device_mesh import groups_of
from distdoctor.plan.job_command import read_job_command

SGLANG = "python -m sglang.launch_server"
LINES = [
    ("vllm serve m -tp 4", "tp 0123"),
    ("vllm serve m -tp 4 -dcp 2", "tp 0123, dcp 01 23"),
    ("vllm serve m -tp 2 -pcp 2 -dcp 2", "tp 01 23, dcp 02 13, pcp 02 13"),
    ("vllm serve m -tp 2 -pcp 2 -dcp 4", "tp 01 23, dcp 0123, pcp 02 13"),
    ("vllm serve m -dp 2 -pp 2 -tp 2", "tp 01 23 45 67, pp 02 13 46 57, dp 04 15 26 37"),
    ("vllm serve m -dp 2 -pp 2 -tp 2 -ep", "tp 01 23 45 67, pp 02 13 46 57, dp 04 15 26 37, ep 0145 2367"),
    ("vllm serve m -dp 2 -tp 2 --enable-expert-parallel --enable-eplb", "tp 01 23, dp 02 13, ep 0123, eplb 0123"),
    ("vllm serve m -dp 4 -ep", "dp 0123, ep 0123"),
    (f"{SGLANG} --tp 4 --pp 2", "tp 0123 4567, pp 04 15 26 37"),
    (f"{SGLANG} --tp 4 --dp 2 --enable-dp-attention", "tp 0123, attn_tp 01 23"),
    (f"{SGLANG} --tp 4 --dp 4 --enable-dp-attention --moe-a2a-backend deepep", "tp 0123"),
    (f"{SGLANG} --tp 4 --ep 4 --dcp-size 4", "tp 0123, dcp 0123"),
    (f"{SGLANG} --tp 8 --ep 4 --dp 2 --enable-dp-attention",
     "tp 01234567, attn_tp 0123 4567, moe_ep 0246 1357, moe_tp 01 23 45 67"),
    (f"{SGLANG} --tp 8 --ep 2 --moe-dp-size 2 --attn-cp-size 2",
     "tp 01234567, attn_cp 04 15 26 37, attn_tp 0123 4567, moe_dp 04 15 26 37, moe_ep 02 13 46 57, moe_tp 01 23 45 67"),
    (f"{SGLANG} --tp 8 --attn-cp-size 4 --ep 8", "tp 01234567, attn_cp 0246 1357, attn_tp 01 23 45 67"),
    (f"{SGLANG} --tp 2 --dp 2", "tp 01 23"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "groups"), LINES, ids=[line for line, _ in LINES])
def test_the_groups_of_an_engine(line: str, groups: str) -> None:
    read = read_job_command(line.split(), {})
    check_mesh(read.mesh, 0, read.mesh_order)
    world = math.prod(length for _, length in read.mesh)
    created = groupby(groups_of(read.mesh, 0, world, read.mesh_order), key=lambda group: group.name)
    texts = (" ".join([name, *("".join(str(rank) for rank in group.ranks) for group in its)]) for name, its in created)
    assert ", ".join(texts) == groups


@pytest.mark.parametrize(
    ("config", "groups"),
    [
        ('{"model_type": "llama"}', ("tp",)),
        ('{"model_type": "qwen3", "num_experts": 0}', ("tp",)),
        ('{"text_config": {"num_experts": 128}}', ("tp", "dp")),
        ('{"n_routed_experts": 256}', ("tp", "dp")),
        (None, ("tp", "dp")),
    ],
)
def test_data_parallel_ranks_of_a_dense_model_share_no_group(
    config: str | None, groups: tuple[str, ...], tmp_path: Path
) -> None:
    """Each is an engine of its own: run_engine_core() sets data_parallel_size to 1 for a model without experts."""
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    assert read_job_command(["vllm", "serve", str(tmp_path), "-dp", "2", "-tp", "2"], {}).mesh_order == groups


def test_groups_that_no_mesh_has_are_left_out_in_words() -> None:
    line = read_job_command(f"{SGLANG} --tp 6 --ep 2 --dp 3 --enable-dp-attention".split(), {})
    assert line.mesh == (("tp", 6),)
    assert line.mesh_order == ("tp",)
    assert "only the groups of tp and pp are checked" in line.note


def test_vllm_refuses_what_does_not_divide_tp() -> None:
    with pytest.raises(ValueError, match="dcp do not fit into tp=6"):
        read_job_command(["vllm", "serve", "m", "-tp", "6", "-dcp", "4"], {})
