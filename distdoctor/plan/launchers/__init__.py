"""Launchers, recognised by the variables that they set."""
