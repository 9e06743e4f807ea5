"""Tests of which ports are asked where nothing listens on MASTER_PORT."""

from __future__ import annotations

from distdoctor.session.rendezvous.port_scanner import MOST, USUAL, port_candidates


def test_the_usual_ones_but_for_its_own() -> None:
    assert port_candidates(29500, {}) == (*USUAL[1:], 29501, 29499)


def test_what_other_variables_and_the_scheduler_give_comes_first() -> None:
    environ = {"MASTER_PORT": "29511", "PET_RDZV_ENDPOINT": "host0:29622", "SLURM_JOB_ID": "1234567"}
    assert port_candidates(29501, environ) == (29511, 29622, 14567, 19567, *USUAL, 29502)


def test_what_is_no_port_is_left_out() -> None:
    environ = {"MASTER_PORT": "99999", "PET_MASTER_PORT": "x", "PET_RDZV_ENDPOINT": "host0", "SLURM_JOB_ID": "7"}
    assert port_candidates(29500, environ) == (10007, 15007, *USUAL[1:], 29501, 29499)
    assert (
        len(
            port_candidates(
                1, {"MASTER_PORT": "2", "PET_MASTER_PORT": "3", "PET_RDZV_ENDPOINT": "h:4", "SLURM_JOB_ID": "7"}
            )
        )
        <= MOST
    )
