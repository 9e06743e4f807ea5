"""Side of a check that every process runs: it carries out node 0's commands."""
