"""How the processes of a check join."""
