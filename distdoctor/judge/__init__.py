"""Facts judged: findings, the root cause among them, and the report.

To follow a verdict on facts, read in this order:

1. ``catalog``: loads the checks and validates their declarations.
2. ``engine``: runs each check on the cluster's facts, in a ``sandbox`` if it is a site's.
3. ``causes``: tells root causes from consequences.
4. ``fixes``: adapts each fix to the privileges and hosts at hand.
5. ``report``: joins findings, stages and nodes into the report; ``saved`` does so for saved facts.

``logs/findings`` does the same for the facts of logs.
"""
