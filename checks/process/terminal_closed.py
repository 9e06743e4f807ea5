"""The terminal that started the job was closed.

What you see
------------
`Received 1 death signal, shutting down workers`, `closing signal SIGHUP`, `got signal: 1`.

Why it happens
--------------
The session in which torchrun was started ended (a lost ssh connection, a closed window), and the kernel sent SIGHUP.
torchrun handles that signal itself, so nohup does not keep it away.

Fix
---
Start the job where no terminal is needed: in tmux or screen, with setsid, or as a job of the scheduler.

When it is harmless
-------------------
Where the job was to be ended by that.

See also
--------
process/terminated
"""

from distdoctor.check_api import Ended, Line

SEVERITY = "fail"
PREVENTS = "results right"
RESTART = "yes"
LOG = (Line.of_end(Ended(("launcher signalled", "sent by launcher"), signals=(1,))),)
