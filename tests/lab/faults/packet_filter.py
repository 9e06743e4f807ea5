"""Faults of packet filters: nftables and iptables."""

from __future__ import annotations

from typing import Literal

from tests.lab.faults import together
from tests.lab.harness.launch import PORT, Fault, Launch

FROM_OTHERS = ('iifname "lo" accept', "ct state established,related accept")
"""The nft rules after which only new connections from other hosts are left."""
SILENT_FORWARD = """
import socket, sys
server = socket.create_server(("", int(sys.argv[1])))
print("ready", flush=True)
kept = []
while True: kept.append(server.accept())
"""


SIDECAR = """
import socket, sys
server = socket.create_server(("", 15001))
print("ready", flush=True)
while True: server.accept()[0].close()
"""


def nft(on: int, *rules: str, hook: str = "input", policy: str = "accept", family: str = "inet") -> Fault:
    """An nftables chain with these rules on host ``on``; ``{hostN}`` in a rule is host N's address."""

    def inject(launch: Launch) -> None:
        addresses = {host.name: host.address for host in launch.cluster}
        chain = f"type filter hook {hook} priority 0; policy {policy};"
        text = "\n".join(rule.format_map(addresses) for rule in rules)
        launch.cluster[on].inside(
            f"nft -f - <<'END'\ntable {family} filter {{\nchain {hook} {{\n{chain}\n{text}\n}}\n}}\nEND"
        )

    return inject


def marked(on: int, *rules: str) -> Fault:
    """These rules, which mark what host ``on`` sends, in a chain of nft after which its way is looked for anew."""
    chain = "type route hook output priority -150;\n" + "\n".join(rules)
    text = f"table ip marks {{\nchain output {{\n{chain}\n}}\n}}"
    return lambda launch: [launch.cluster[on].inside(f"nft -f - <<'END'\n{text}\nEND")].clear()


def iptables(on: int, *arguments: str) -> Fault:
    """iptables rules on host ``on``, one command each."""
    return lambda launch: [launch.cluster[on].inside(f"iptables {a}") for a in arguments].clear()


def master_port(on: int, verdict: str) -> Fault:
    """nft on host ``on`` answers packets from other hosts for MASTER_PORT with ``verdict``."""
    return nft(on, 'iifname "lo" accept', f"tcp dport {PORT} {verdict}")


def only_master_port(on: int) -> Fault:
    """nft on host ``on`` lets MASTER_PORT in, and what belongs to connections that are there; the rest is dropped."""
    return nft(
        on,
        'iifname "lo" accept',
        "ct state established,related accept",
        "meta l4proto {{ icmp, ipv6-icmp }} accept",
        f"tcp dport {PORT} accept",
        policy="drop",
    )


def only_ports(on: int, ports: str) -> Fault:
    """nft on host ``on`` lets these ports in, and what belongs to connections that are there; the rest is dropped."""
    return nft(on, *FROM_OTHERS, f"tcp dport {{{{ {ports} }}}} accept", policy="drop")


def only_master_port_iptables(on: int) -> Fault:
    """The same with iptables."""
    return iptables(
        on,
        "-P INPUT DROP",
        "-A INPUT -i lo -j ACCEPT",
        "-A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
        "-A INPUT -p icmp -j ACCEPT",
        f"-A INPUT -p tcp --dport {PORT} -j ACCEPT",
    )


def deaf_to(on: int, *others: int) -> Fault:
    """Host ``on`` drops new connections from these hosts, but for those to MASTER_PORT."""
    sources = (f"ip saddr {{host{other}}} tcp dport != {PORT} drop" for other in others)
    return nft(on, *FROM_OTHERS, *sources)


def mute_to(on: int, *others: int) -> Fault:
    """Host ``on`` drops its own new connections to these hosts, but for those to MASTER_PORT."""
    targets = (f"ip daddr {{host{other}}} tcp dport != {PORT} drop" for other in others)
    return nft(on, 'oifname "lo" accept', "ct state established,related accept", *targets, hook="output")


def cut(on: int, *others: int) -> Fault:
    """Host ``on`` and these hosts cannot connect in either direction, by the packet filter of ``on``."""
    return together(deaf_to(on, *others), mute_to(on, *others))


def forwarded_into_silence(on: int, to: int, port: int = 29999) -> Fault:
    """Return what host ``on`` sends to MASTER_PORT is forwarded to another port of host ``to``, which never answers."""

    def inject(launch: Launch) -> None:
        launch.cluster[to].python(SILENT_FORWARD, str(port), wait_for="ready")
        launch.cluster[on].inside(
            "nft -f - <<'END'\ntable ip forwarding {\nchain output {\ntype nat hook output priority -100;\n"
            f"ip daddr {launch.cluster[to].address} tcp dport {PORT} dnat to {launch.cluster[to].address}:{port}\n"
            "}\n}\nEND"
        )

    return inject


def published_for_another(on: int) -> Fault:
    """Return what comes to MASTER_PORT of host ``on`` is forwarded to a container at docker0 that is gone."""
    rule = f"fib daddr type local tcp dport {PORT} dnat to 172.17.0.5:{PORT}"
    chain = f"chain PREROUTING {{\ntype nat hook prerouting priority -100;\n{rule}\n}}"

    def inject(launch: Launch) -> None:
        launch.cluster[on].add_interface("docker0", "172.17.0.1/16")
        launch.cluster[on].inside(
            f"echo 1 > /proc/sys/net/ipv4/ip_forward && nft -f - <<'END'\ntable ip nat {{\n{chain}\n}}\nEND"
        )

    return inject


def published_by_docker(on: int, port: int = PORT) -> Fault:
    """The rules of ``docker run -p PORT:PORT`` on host ``on``, and the container is gone."""
    rules = iptables(
        on,
        "-t nat -N DOCKER",
        "-t nat -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER",
        "-t nat -A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER",
        "-t nat -A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE",
        f"-t nat -A DOCKER ! -i docker0 -p tcp -m tcp --dport {port} -j DNAT --to-destination 172.17.0.5:{port}",
    )

    def inject(launch: Launch) -> None:
        launch.cluster[on].add_interface("docker0", "172.17.0.1/16")
        launch.cluster[on].inside("echo 1 > /proc/sys/net/ipv4/ip_forward")
        rules(launch)

    return inject


def istio(on: int) -> Fault:
    """The rules of istio's init container on host ``on``; the sidecar does not run yet."""
    return iptables(
        on,
        "-t nat -N ISTIO_OUTPUT",
        "-t nat -N ISTIO_REDIRECT",
        "-t nat -A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports 15001",
        "-t nat -A OUTPUT -p tcp -j ISTIO_OUTPUT",
        "-t nat -A ISTIO_OUTPUT -m owner --uid-owner 1337 -j RETURN",
        "-t nat -A ISTIO_OUTPUT -d 127.0.0.1/32 -j RETURN",
        "-t nat -A ISTIO_OUTPUT -j ISTIO_REDIRECT",
    )


def istio_off(on: int) -> Fault:
    """Nothing of host ``on`` is redirected any more."""
    return iptables(on, "-t nat -F OUTPUT")


def service(name: str, address: str) -> Fault:
    """``name`` is the address of a Kubernetes Service, which no host has: MASTER_PORT alone leads on to node 0."""

    def setup(launch: Launch) -> None:
        zero = launch.cluster[0].address
        for host in launch.cluster:
            host.hosts_file += f"{address} {name}\n"
            host.inside(
                f"ip route add {address} dev eth0; iptables -t nat -A OUTPUT -d {address} -p tcp --dport {PORT} "
                f"-j DNAT --to-destination {zero}:{PORT}; "
                f"iptables -t nat -A POSTROUTING -d {zero} -m conntrack --ctstate DNAT -j MASQUERADE"
            )

    return setup


def ufw(on: int) -> Fault:
    """Return what ``ufw enable`` sets up after ``ufw allow ssh``, cut short."""
    return iptables(
        on,
        "-P INPUT DROP",
        "-N ufw-before-input",
        "-N ufw-user-input",
        "-A INPUT -j ufw-before-input",
        "-A ufw-before-input -i lo -j ACCEPT",
        "-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
        "-A ufw-before-input -m conntrack --ctstate INVALID -j DROP",
        "-A ufw-before-input -p icmp --icmp-type echo-request -j ACCEPT",
        "-A ufw-before-input -p udp --sport 67 --dport 68 -j ACCEPT",
        "-A ufw-before-input -j ufw-user-input",
        "-A ufw-user-input -p tcp --dport 22 -j ACCEPT",
    )


def sidecar(on: int, hook: Literal["prerouting", "output"]) -> Fault:
    """What comes to host ``on``, or what it sends, is redirected to a proxy that accepts all and finds nobody."""
    ours = 'iifname "lo" return' if hook == "prerouting" else 'oifname "lo" return'

    def inject(launch: Launch) -> None:
        launch.cluster[on].python(SIDECAR, wait_for="ready")
        launch.cluster[on].inside(
            "nft -f - <<'END'\ntable ip mesh {\nchain proxied {\n"
            f"type nat hook {hook} priority -100;\n{ours}\ntcp dport != 15001 redirect to :15001\n}}\n}}\nEND"
        )

    return inject


def sidecar_off(on: int) -> Fault:
    """Nothing of host ``on`` is redirected any more."""
    return lambda launch: [launch.cluster[on].inside("nft delete table ip mesh")].clear()
