"""One run of ``check`` on all its nodes.

To follow a run, read in this order:

1. ``run``: the stages of one process, in their order, and its deadlines.
2. ``stages/local``, ``stages/network``: stages that need no other node.
3. ``rendezvous/join``: every process joins the store of node 0, which ``rendezvous/store_host`` opens.
4. ``follower/follower``: every process runs the stages that node 0 opens: ``stages/mesh``, ``stages/ranks``.
5. ``leader/leader``: on node 0, waits for the nodes (``roll_call``), opens the stages (``stages``), judges the facts.
6. ``finish``: prints the report, saves the facts, and leaves.

``protocol/messages`` has what the processes send each other through the store.
"""
