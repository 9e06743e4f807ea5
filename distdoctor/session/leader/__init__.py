"""The leader's side of a check (node 0)."""
