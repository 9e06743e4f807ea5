"""Probes of interfaces, routes, names, ports and firewall of this host."""
