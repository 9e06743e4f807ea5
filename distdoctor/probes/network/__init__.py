"""Interfaces, routes, names, ports and firewall of this host."""
