"""``python -m distdoctor``, which is also how torchrun starts it, and the command ``distdoctor``."""

import _signal  # type: ignore[import-not-found]  # the part of signal.py in C: there already

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    # Until interrupts.begin() Ctrl-C ends it at once, as SIGTERM does: there is nothing to be told or put away yet.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import gc
import sys

from distdoctor.own_path import settle

YOUNG = 20_000
"""Objects more than before, after which Python looks for garbage (700 else): what is loaded at the start is none."""


def main() -> None:
    """Run the command line and exit with the status that the report gives."""
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
    settle()  # before anything is imported that a file of the user's could hide
    from distdoctor import interrupts

    interrupts.begin()  # before anything is imported that takes its time
    from distdoctor.cli.preload import begin_import
    from distdoctor.ranks.zygote_start import abandon

    begin_import(sys.argv[1:])
    try:
        from distdoctor.cli.app import main as run

        run()
    finally:
        abandon()
        gc.freeze()  # nor is it looked through once more at the end


if __name__ == "__main__":
    main()
