"""Log facts judged.

To follow a verdict on logs, read in this order:

1. ``findings``: the judgement of each job: root cause, consequences, candidates, notes.
2. ``attempts``: the lines of the last attempt; earlier ones are set aside.
3. ``first_failure``: sorts the known lines by what they prove, and finds the root among them.
4. ``harmless``: lines that were survived, asked for, or written after the job had succeeded.
5. ``lifelines``: the events of each process in their order, on which both of these build.
6. ``clocks``: the time of a line, and comparisons of two logs' clocks.

``filters`` has the parts of log facts that a user asks for.
"""
