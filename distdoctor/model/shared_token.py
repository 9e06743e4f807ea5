"""The token: what all processes of a run may share, and nobody else knows."""

VARIABLE = "DISTDOCTOR_TOKEN"
TOKEN_PLACEHOLDER = "TOKEN"
"""In place of the token in a printed line. Pasted as it is, it is refused as too short."""
LEAST_LENGTH = 16
"""Characters: whoever listens on the network can try short tokens out."""
