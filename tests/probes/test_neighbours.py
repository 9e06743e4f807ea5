"""The kernel's table of neighbours, on a real link: a host that drops everything, and one that is not there."""

from __future__ import annotations

import json

from tests.helpers.namespaces import lines_of

TWO_HOSTS = """
import asyncio, ctypes, json, os, subprocess
from distdoctor.model.facts import TableRoute, encode
from distdoctor.probes.network.tcp import connect
from distdoctor.probes.network.neighbours import answered, neighbour
def shell(text): subprocess.run(text, shell=True, check=True)
ready, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.close(go[1])  # so that it ends with the other one, however that ends
    ctypes.CDLL(None).unshare(0x40000000)  # CLONE_NEWNET
    os.write(ready[1], b"x")
    os.read(go[0], 1)  # the end of the other one
    os._exit(0)
os.read(ready[0], 1)
shell(f"ip link add near type veth peer name far netns {child}")
inside = f"nsenter --net=/proc/{child}/ns/net"
shell(f"{inside} sh -c 'ip address add 10.1.2.4/24 dev far && ip link set far up'")
shell(f"{inside} ip address add fd77::4/64 dev far nodad")
shell(f"{inside} nft 'add table inet f; add chain inet f i {{ type filter hook input priority 0; }}; "
      "add rule inet f i tcp dport 29500 drop'")
shell("ip address add 10.1.2.3/24 dev near && ip address add fd77::3/64 dev near nodad && ip link set near up")
shell("ip route add 10.5.0.0/16 via 10.1.2.99")
routes = tuple(TableRoute(*row) for row in (("10.1.2.0/24", None, "near"), ("fd77::/64", None, "near"),
                                            ("10.5.0.0/16", "10.1.2.99", "near")))
async def all_of():
    places = ("10.1.2.4", "10.1.2.5", "10.5.0.1", "fd77::4", "fd77::5")
    contacts = await asyncio.gather(*(connect(place, 29500, SECONDS) for place in places))
    for place, contact in zip(places, contacts):
        print(json.dumps([place, contact.outcome, json.loads(encode(neighbour(place, routes)))]))
asyncio.run(all_of())
print(json.dumps(["10.1.2.77", "", json.loads(encode(neighbour("10.1.2.77", routes)))]))
macs = {one.address: one.mac for one in answered() if one.interface == "near"}
print(json.dumps([macs, json.loads(subprocess.run(f"{inside} ip -j link show far", shell=True, check=True,
                                                  capture_output=True, text=True).stdout)[0]["address"]]))
shell("ip link add tun type veth peer name end && ip link set tun up && ip link set end up")
shell("ip neigh replace 10.1.2.4 dev tun nud failed")
shell("ip neigh replace 10.1.2.5 dev tun lladdr 02:00:00:00:00:05 nud reachable")
tunnel = (*routes, TableRoute("10.1.2.5/32", None, "tun"))
print(json.dumps([neighbour(place, table).state for place, table in (("10.1.2.4", routes), ("10.1.2.5", routes),
                                                                   ("10.1.2.5", tunnel))]))
shell("ip link set near arp off")
asyncio.run(connect("10.1.2.6", 29500, 0.1))
print(json.dumps([one.address for one in answered() if one.interface == "near"]))
os.write(go[1], b"x")
os.wait()
"""


def test_who_is_there_and_who_is_not() -> None:
    lines = lines_of(f"SECONDS = 1.0\n{TWO_HOSTS}", "--net", tools=("ip", "nft", "nsenter"))
    assert json.loads(lines.pop()) == [], "on an interface without ARP nobody is asked, and nobody answers"
    ways = json.loads(lines.pop())
    assert ways == ["answers", "silent", "answers"], "of each it counts what it says on the interface that is used"
    macs, far = json.loads(lines.pop())
    assert macs["10.1.2.4"] == macs["fd77::4"] == far and "10.1.2.5" not in macs
    found = {place: (outcome, near) for place, outcome, near in map(json.loads, lines)}
    assert {place: (near or {}).get("state") for place, (_, near) in found.items()} == {
        "10.1.2.4": "answers",
        "10.1.2.5": "silent",
        "10.5.0.1": "silent",
        "fd77::4": "answers",
        "fd77::5": "silent",
        "10.1.2.77": None,  # nobody asked for it
    }
    assert found["10.1.2.4"][0] == "no-answer"
    _, gateway = found["10.5.0.1"]
    assert (gateway["address"], gateway["gateway"], gateway["interface"]) == ("10.1.2.99", True, "near")
    assert found["10.1.2.5"][1]["gateway"] is False
