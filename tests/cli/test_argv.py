"""The command line before it is parsed."""

from __future__ import annotations

import pytest

from distdoctor.cli.parsing import did_you_mean, normalized, without_secrets


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["check", "--nproc_per_node=2"], ["check", "--nproc-per-node=2"]),
        (["check", "--rdzv_id", "my_job"], ["check", "--rdzv-id", "my_job"]),
        (["check", "--rdzv_id=my_job"], ["check", "--rdzv-id=my_job"]),
        (["--local-rank=1", "check", "--json"], ["check", "--local-rank=1", "--json"]),
        (["--local_rank", "1", "check"], ["check", "--local-rank", "1"]),
        (["--local_rank=0", "list"], ["--local-rank=0", "list"]),
        (["diagnose", "--", "--a_b"], ["diagnose", "--", "--a_b"]),
        (["check", "--nnodes", "2", "--max-restarts", "3", "--tee=3"], ["check", "--nnodes", "2"]),
        (["check", "--log_dir", "/l", "--json", "--role"], ["check", "--json"]),
        (["run", "--", "torchrun", "--max-restarts", "3"], ["run", "--", "torchrun", "--max-restarts", "3"]),
        ([], []),
        (["--local-rank"], ["--local-rank"]),
    ],
)
def test_normalized(given: list[str], expected: list[str]) -> None:
    assert normalized(given) == expected


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("glo", "; did you mean gloo?"),
        ("loopback-address", "; did you mean gloo/loopback-address?"),
        ("gloo/loopbak-adress", "; did you mean gloo/loopback-address?"),
        ("zzz", ""),
        ("", ""),
    ],
)
def test_did_you_mean(wrong: str, hint: str) -> None:
    assert did_you_mean(wrong, ["gloo", "gloo/loopback-address", "nccl"]) == hint


def test_what_the_token_was_is_shown_to_nobody() -> None:
    words = normalized(["check", "--token", "secret one", "--nnodes", "2", "--token=secret_two"])
    assert without_secrets(words) == ["check", "--token", "...", "--nnodes", "2", "--token=..."]
