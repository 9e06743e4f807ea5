"""A job that runs or hangs now, read without touching it.

To follow one look, read in this order:

1. ``inspect``: the look at one job of this host, and its facts.
2. ``jobs``: the processes of each job and their roles.
3. ``snapshot``: two looks at each process and the changes between them, with ``proc``, ``stacks``, ``blocked_on``.
4. ``store/reader``, ``debug_server``: answers of the job's own store and servers.
5. ``knowledge/live``: the place of each rank (``places``), and the ranks that others wait for (``awaited``).
6. ``report``: the state of the job and the verdict, from the findings of the checks that have ``judge_job``.
"""
