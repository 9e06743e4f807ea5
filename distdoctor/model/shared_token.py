"""The token: what all processes of a run may share, and nobody else knows."""

VARIABLE = "DISTDOCTOR_TOKEN"
LEAST_LENGTH = 16
"""Characters: whoever listens on the network can try short tokens out."""
