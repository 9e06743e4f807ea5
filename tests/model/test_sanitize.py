"""Tests of what comes from outside: bytes that are no UTF-8, and passwords where an address should be."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distdoctor.cli.check import printable_flags
from distdoctor.model.facts import RankFacts, RankStage, encode
from distdoctor.model.text import encodable, environment
from distdoctor.plan.values import Flags
from distdoctor.probes.host.identity import variables

NO_UTF8 = b"a\xffb".decode(errors="surrogateescape")


@given(st.binary(max_size=40))
def test_every_name_that_the_kernel_gives_can_be_encoded(data: bytes) -> None:
    text = data.decode(errors="surrogateescape")
    encodable(text).encode()
    try:
        assert encodable(text) == data.decode()
    except UnicodeDecodeError:
        assert "\\x" in encodable(text)


def test_wherever_it_is() -> None:
    facts = RankFacts(0, 0, stages=(RankStage("gloo", "failed", error=NO_UTF8, detail={NO_UTF8: [NO_UTF8, 1]}),))
    told = encodable(facts).stages[0]
    assert (told.error, told.detail) == ("a\\xffb", {"a\\xffb": ["a\\xffb", 1]})
    assert encodable("\ud800") == "\\ud800"


def test_what_can_be_encoded_stays_the_same_object() -> None:
    facts = RankFacts(0, 0, stages=(RankStage("gloo", "ok", detail={"ü": [1]}),))
    assert encodable(facts) is facts


def test_encoding_never_fails_for_text() -> None:
    assert json.loads(encode({"x": NO_UTF8})) == {"x": "a\\xffb"}


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("MASTER_ADDR", "me:s3cret@gpu01", "***@gpu01"),
        ("PET_MASTER_ADDR", "tcp://me:s3cret@gpu01", "tcp://***@gpu01"),
        ("PET_RDZV_ENDPOINT", "s3cret@gpu01:29400", "***@gpu01:29400"),
        ("MASTER_ADDR", "gpu01", "gpu01"),
        ("PET_RDZV_ID", "job@cluster", "job@cluster"),
    ],
)
def test_an_address_is_told_without_the_password_in_it(name: str, value: str, told: str) -> None:
    assert variables(environment({name: value})) == {name: told}


def test_flags_are_told_without_it_too() -> None:
    flags = printable_flags(Flags(master_addr="a:b@c", rdzv_endpoint="a@c:1", init_method=f"tcp://a:b@{NO_UTF8}:1"))
    assert (flags.master_addr, flags.rdzv_endpoint, flags.init_method) == ("***@c", "***@c:1", "tcp://***@a\\xffb:1")


@pytest.mark.parametrize(
    "name", ["NCCL_SITE_TOKEN", "GLOO_KEY", "TORCHELASTIC_API_KEY", "TORCH_NCCL_X", "PET_RDZV_CONF"]
)
def test_variables_that_torch_and_nccl_do_not_read_are_not_told(name: str) -> None:
    assert variables({name: "s3cret", "NCCL_DEBUG": "INFO"}) == {"NCCL_DEBUG": "INFO"}
