"""Probes of limits, identity, files and processes of this host."""
