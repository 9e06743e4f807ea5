"""The process group is initialized twice.

## What you see
`trying to initialize the default process group twice!`.

## Why it happens
Two libraries, or the script and a library, both call init_process_group().

## Fix
Guard the call: `if not dist.is_initialized(): dist.init_process_group()`.

## Confirm with
`grep -rn "init_process_group" .` in the source tree (shows both calls).

## When it is harmless
Never.

## See also
collective/group-not-initialized
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
LOG = (Line("initialize the default process group twice"),)
