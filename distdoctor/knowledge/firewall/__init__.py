"""Verdicts of nftables and iptables on a packet."""
