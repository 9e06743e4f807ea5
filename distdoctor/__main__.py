"""``python -m distdoctor``, which is also how torchrun starts it."""

from distdoctor.cli import main

if __name__ == "__main__":
    main()
