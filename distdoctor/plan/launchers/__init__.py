"""Launchers, detected by the variables that they set."""
