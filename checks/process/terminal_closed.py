"""The terminal that started the job was closed.

## What you see
`Received 1 death signal, shutting down workers`, `closing signal SIGHUP`, `got signal: 1`, or a shell's
`job.sh: line 9: 4711 Hangup`.

## Why it happens
The session in which torchrun was started ended (a lost ssh connection, a closed window), and the kernel sent SIGHUP.
torchrun handles that signal itself, so nohup does not prevent it.

## Fix
Start the job without a terminal: `tmux new -d "torchrun ..."`, `setsid torchrun ... > job.log 2>&1 < /dev/null &`, or
`sbatch job.sh`.

## Confirm with
`last -n 5` and `journalctl -u ssh --since -1h` (show the end of the session).

## When it is harmless
When the job was meant to end with the terminal.

## See also
process/terminated
"""

from distdoctor.check_api import Ended, Line

SEVERITY = "fail"
PREVENTS = "results right"
RESTART = "yes"
LOG = (
    Line.of_end(Ended(("launcher signalled", "sent by launcher"), signals=(1,))),
    Line.of_end(Ended(("",), signals=(1,), launchers=("shell",)), shows="end"),
)
