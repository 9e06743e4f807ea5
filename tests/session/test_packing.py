"""A report on its way: made small, and never taken for more than it can be."""

from __future__ import annotations

import zlib

import pytest

from distdoctor.model.facts import BadFacts, encode
from distdoctor.session.protocol.messages import MOST, pack, unpack
from tests.facts_builder import healthy


def test_what_is_alike_takes_little_room() -> None:
    data = encode(healthy(200))
    packed = pack(data)
    assert unpack(packed) == data
    assert len(packed) * 10 < len(data)


@pytest.mark.parametrize(
    "hostile",
    [b"", b"{}", pack(b"x" * 100)[:-6], zlib.compress(bytes(MOST + 1))],
    ids=["nothing", "not packed", "cut off", "a bomb"],
)
def test_what_is_no_report_is_refused(hostile: bytes) -> None:
    with pytest.raises(BadFacts):
        unpack(hostile)
