"""Flags, environment and scheduler turned into a Plan."""
