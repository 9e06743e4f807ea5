from __future__ import annotations

from distdoctor.launch import wire


def test_messages_come_back_and_anything_else_is_left_out() -> None:
    assert wire.unpacked(wire.packed({"stage": "gpu"}).rstrip(b"\n")) == {"stage": "gpu"}
    for noise in (
        b"Welcome to gpu01!",
        b"",
        wire.MARK,
        wire.MARK + b"{",
        wire.MARK + b"[1]",
        wire.MARK + b"[" * 100_000,
    ):
        assert wire.unpacked(noise) is None


def test_what_a_profile_prints_before_it_on_the_same_line_is_left_out() -> None:
    """As one that sets the title of the terminal, without a line break: that host was never heard of."""
    assert wire.unpacked(b"\x1b]0;gpu01\x07" + wire.packed({"hello": True}).rstrip(b"\n")) == {"hello": True}
    note = {"note": f"a line with {wire.MARK.decode()}{{}} in it"}
    assert wire.unpacked(wire.packed(note).rstrip(b"\n")) == note


def test_facts_come_back_whole_or_not_at_all() -> None:
    data = b"x" * 100_000
    assert wire.inflated(wire.deflated(data)) == data
    for bad in (None, "", "?", wire.deflated(data)[:-8]):
        assert wire.inflated(bad) is None
    assert wire.inflated(wire.deflated(b"0" * (wire.MOST_FACTS + 1))) is None
