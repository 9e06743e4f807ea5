"""``python -m distdoctor``, which is also how torchrun starts it, and the command ``distdoctor``."""

import sys

from distdoctor.own_path import settle


def main() -> None:
    """Run the command line and exit with the status that the report gives."""
    settle()  # before anything is imported that a file of the user's could hide
    from distdoctor import interrupts

    interrupts.begin()  # before anything is imported that takes its time
    from distdoctor.cli.ahead import begin_import
    from distdoctor.ranks.zygote_start import abandon

    begin_import(sys.argv[1:])
    try:
        from distdoctor.cli.app import main as run

        run()
    finally:
        abandon()


if __name__ == "__main__":
    main()
