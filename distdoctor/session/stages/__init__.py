"""Stages of a check that run in each process."""
