"""The last resort: a step that ignores its deadline must not keep the process, and what is known is told."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from distdoctor.render.exit_status import INCOMPLETE

TELLING_SECONDS = 1.0
"""How long telling may take then: stdout may be what does not go on."""
SWITCH_SECONDS = 0.0005
"""How long the thread that does not end may keep others from their turn then, a tenth of what is usual."""


class Guard:
    """Ends this process ``seconds`` after :meth:`start`, unless it is cancelled. Its children die with it.

    ``tell`` is called first, in a thread of its own; whatever becomes of it, the process then ends.
    """

    def __init__(self, seconds: float, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def start(self) -> None:
        """Begin to wait."""
        with suppress(RuntimeError):  # no further thread is allowed: its own deadlines are left to this process
            self._timer.start()

    def cancel(self) -> None:
        """It went well."""
        self._timer.cancel()

    def _end(self) -> None:
        try:
            sys.setswitchinterval(SWITCH_SECONDS)
            teller = threading.Thread(target=self._tell, daemon=True)
            teller.start()
            teller.join(TELLING_SECONDS)
            os.write(2, b"distdoctor: could not finish within --wait + --timeout; giving up\n")
        except (OSError, RuntimeError):  # nobody reads, or no further thread is allowed
            pass
        finally:
            os._exit(INCOMPLETE)
