"""Links to an address that lets in only so many new connections in a time, and to one that lets in none."""

from __future__ import annotations

import pytest

from tests.helpers.namespaces import lines_of

LIMITED = """
import asyncio, subprocess, time
from distdoctor.mesh.listener import Listener
from distdoctor.mesh.measurement import Measurement
from distdoctor.mesh.listener import TOKEN_BYTES, LinkTarget
TOKEN = "00" * TOKEN_BYTES
async def main():
    listener = Listener(TOKEN, 2)
    port = await listener.start()
    table = f"table ip f {{ chain i {{ type filter hook input priority 0; {RULE}; }}; }}"
    subprocess.run(f"ip link set lo up && nft -f - <<END\\n{table}\\nEND", shell=True, check=True)
    listening = [
        LinkTarget(number, f"host{number} 1 net:[{number}]", "127.0.0.1", port, ("gloo",))
        for number in (1, 2)
    ]
    taken = await asyncio.open_connection("127.0.0.1", port)  # the only one of its time
    began = time.monotonic()
    facts = await Measurement(TOKEN, 1, listening, 2, frozenset(SEEN)).run(measure=False)
    print(*(link.outcome for link in facts.bad), facts.good, time.monotonic() - began > 4)
    listener.close()
asyncio.run(main())
"""
SYN = "tcp flags & (syn | ack) == syn"
ONE_IN_SIX_SECONDS = f"{SYN} limit rate over 10/minute burst 1 packets drop"


@pytest.mark.parametrize(
    ("rule", "seen", "told"),
    [
        (ONE_IN_SIX_SECONDS, ("127.0.0.1",), "1 True"),
        (ONE_IN_SIX_SECONDS, (), "no-answer 0 False"),
        (f"{SYN} limit rate over 1/hour burst 1 packets drop", ("127.0.0.1",), "no-answer 0 True"),
    ],
    ids=["late", "late, and nobody knows of the limit", "never"],
)
def test_a_link_to_a_limited_address_is_left_to_the_kernels_repeats(
    rule: str, seen: tuple[str, ...], told: str
) -> None:
    code = f"RULE, SEEN = {rule!r}, {seen!r}\n{LIMITED}"
    assert lines_of(code, "--net", tools=("nft",)) == [told]
