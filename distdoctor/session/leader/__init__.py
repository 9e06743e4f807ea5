"""Side of a check that node 0 runs for all: it waits for the nodes, opens the stages and publishes the report."""
