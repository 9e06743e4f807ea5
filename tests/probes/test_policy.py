"""Rules of policy routing, as a real kernel tells them."""

from __future__ import annotations

import json

from tests.helpers.namespaces import lines_of

PROGRAM = """
import json, subprocess
from distdoctor.model.facts import encode
from distdoctor.probes.network import routing
def say(): print(json.dumps([json.loads(encode(one)) for one in routing.routing_rules()]))
say()
subprocess.run('''set -e
ip link add card0 type bridge && ip address add 10.77.0.11/24 dev card0 && ip link set dev card0 up
ip rule add from 10.77.0.11 lookup 300 && ip route add 10.0.0.0/8 dev card0 table 300 metric 5
ip route add default via 10.77.0.99 dev card0 table 300
ip rule add to 10.77.0.10 ipproto tcp dport 29500 prohibit
ip rule add to 10.77.0.10 ipproto udp lookup 300
ip rule add fwmark 0x11/0xff lookup 300 priority 99
ip rule add uidrange 0-0 to 10.77.0.9 blackhole priority 98
ip rule add not from 10.77.0.0/24 fwmark 0xca6c lookup 300 priority 97
ip rule add iif card0 lookup 300 priority 96
ip rule add not iif lo lookup 300 priority 95
ip rule add iif lo lookup 300 priority 94
ip route add default via 10.77.0.98 dev card0
ip rule add lookup main suppress_prefixlength 0 priority 93
ip rule add tos 0x10 lookup 300 priority 92
ip route add throw 10.78.0.0/24 table 300
ip -6 rule add from fd77::/64 sport 5000-6000 lookup 300
''', shell=True, check=True)
say()
"""


def test_rules_are_told_with_the_table_that_they_lead_to() -> None:
    usual, told = (json.loads(line) for line in lines_of(PROGRAM, "--net", tools=("ip",)))
    assert usual == [], "the three that every host has are none"
    by_text = {one["text"]: one for one in told}
    # What is for UDP, for a type of service or for what comes from other hosts is not told.
    assert list(by_text) == [
        "from all lookup 254",
        "from all iif lo lookup 300",
        "not from 10.77.0.0/24 fwmark 0xca6c lookup 300",
        "from all to 10.77.0.9 uidrange 0-0 blackhole",
        "from all fwmark 0x11/0xff lookup 300",
        "from all to 10.77.0.10 ipproto tcp dport 29500 prohibit",
        "from 10.77.0.11 lookup 300",
        "from fd77::/64 sport 5000-6000 lookup 300",
    ]
    main, itself, inverted, users, marked, prohibits, leads, six = told
    assert main["main"] and not itself["main"]
    assert [entry["network"] for entry in main["routes"]] == ["10.77.0.0/24"], "its default route is passed over"
    assert inverted["inverted"] and inverted["mark"] == [0xCA6C, 0xFFFFFFFF] and not itself["inverted"]
    assert users["reject"] and users["mark"] is None and (marked["mark"], marked["reject"]) == ([0x11, 0xFF], False)
    assert prohibits["reject"] and prohibits["target"] == "10.77.0.10" and prohibits["target_ports"] == [29500, 29500]
    assert leads["source"] == "10.77.0.11" and not leads["reject"]
    entries = [(entry["network"], entry["gateway"], entry["interface"]) for entry in leads["routes"]]
    assert [*entries] == [
        ("0.0.0.0/0", "10.77.0.99", "card0"),
        ("10.78.0.0/24", None, None),
        ("10.0.0.0/8", None, "card0"),
    ]
    assert [entry["network"] for entry in leads["routes"] if entry["throws"]] == ["10.78.0.0/24"]
    assert (six["version"], six["source_ports"], six["routes"]) == (6, [5000, 6000], [])


LONG = """
import subprocess
from distdoctor.probes.network import routing
def say(): print([(one.text, len(one.routes)) for one in routing.routing_rules()])
subprocess.run("ip link set lo up && ip rule add lookup 300", shell=True, check=True)
def add(first, last):
    lines = "".join(f"route add 10.{one // 256}.{one % 256}.0/24 dev lo table 300\\n" for one in range(first, last))
    subprocess.run(["ip", "-batch", "-"], input=lines, text=True, check=True)
add(0, 256)
say()
add(256, 257)
say()
"""


LEADS_ON = """
import subprocess
from distdoctor.probes.network import routing
def say(): print([one.text for one in routing.routing_rules()])
subprocess.run("ip rule add lookup 300 priority 20; ip rule add goto 50000 priority 40000", shell=True, check=True)
say()
subprocess.run("ip rule add goto 32766 priority 10", shell=True, check=True)
say()
"""


def test_what_a_rule_leads_past_is_not_known() -> None:
    assert [*lines_of(LEADS_ON, "--net", tools=("ip",))] == ["['from all lookup 300']", "[]"]


def test_a_table_that_is_longer_than_a_nodes_is_left_alone() -> None:
    assert [*lines_of(LONG, "--net", tools=("ip",))] == ["[('from all lookup 300', 256)]", "[]"]
