"""The user has no entry in /etc/passwd.

What you see
------------
`KeyError: 'getpwuid(): uid not found: 1042'` on import or at the first compile.

Why it happens
--------------
The container runs under a uid that its /etc/passwd does not have.

Fix
---
USER=anything and TORCHINDUCTOR_CACHE_DIR=/tmp/inductor in the job's environment.

When it is harmless
-------------------
Never.

See also
--------
process/exception
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "store used"
LOG = (
    Line(
        "getpwuid(): uid not found",
    ),
)
