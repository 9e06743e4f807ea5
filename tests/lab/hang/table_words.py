"""The checks that the table names most."""

USER_CODE, STOPPED, MISSING = "process/waiting-in-user-code", "process/stopped", "collective/rank-missing"
NODES = "store/nodes-missing"
MISMATCH, STALLED = "collective/mismatch", "host/filesystem-stalled"
FILTERED, PEERS = "network/port-filtered", "mesh/peer-ports-blocked"
REFUSED = "network/port-refused"
TWICE, NODE_TWICE = "environment/duplicate-rank", "environment/duplicate-node-rank"
