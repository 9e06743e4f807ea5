from __future__ import annotations

from distdoctor.remote import connection


def test_messages_come_back_and_anything_else_is_left_out() -> None:
    assert connection.unpacked(connection.packed({"stage": "gpu"}).rstrip(b"\n")) == {"stage": "gpu"}
    for noise in (
        b"Welcome to gpu01!",
        b"",
        connection.WIRE_MARK,
        connection.WIRE_MARK + b"{",
        connection.WIRE_MARK + b"[1]",
        connection.WIRE_MARK + b"[" * 100_000,
    ):
        assert connection.unpacked(noise) is None


def test_what_a_profile_prints_before_it_on_the_same_line_is_left_out() -> None:
    """As one that sets the title of the terminal, without a line break: that host was never heard of."""
    assert connection.unpacked(b"\x1b]0;gpu01\x07" + connection.packed({"hello": True}).rstrip(b"\n")) == {
        "hello": True
    }
    note = {"note": f"a line with {connection.WIRE_MARK.decode()}{{}} in it"}
    assert connection.unpacked(connection.packed(note).rstrip(b"\n")) == note


def test_facts_come_back_whole_or_not_at_all() -> None:
    data = b"x" * 100_000
    assert connection.inflated(connection.deflated(data)) == data
    for bad in (None, "", "?", connection.deflated(data)[:-8]):
        assert connection.inflated(bad) is None
    assert connection.inflated(connection.deflated(b"0" * (connection.MOST_FACTS + 1))) is None
