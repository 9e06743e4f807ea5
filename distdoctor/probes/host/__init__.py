"""Limits, identity, files and processes of this host."""
