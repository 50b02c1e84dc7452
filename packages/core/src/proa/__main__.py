"""`python -m proa`: the command `proa`."""

from proa.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
