"""Log files as facts: known lines, the rank or process of each, and how each log ends. Nothing is judged here.

To follow one log, read in this order:

1. ``collect``: recognizes each file by its content, and feeds it block by block.
2. ``reading/reader``, ``reading/formats``: files of any compression and form as lines, within ``reading/budget``.
3. ``scanner``: finds the lines that a check's wordings may match, in one pass.
4. ``log_file``: reads such a line, with its speaker (``attribution``, ``mentioned``) and ``tracebacks``.
5. ``matches``, ``repeats``: keep the matches, and count repetitions instead of reading them again.
6. ``endings``, ``attempts``: how a log ends, who worked in between, and which attempt of the job a line belongs to.
7. ``rank_comparison``, ``watchdogs``, ``settings``, ``flight_recorder``: facts that several ranks show together.

``dialects/`` has the words of each framework and launcher, as data.
"""
