"""`python -m perdure` is the command `perdure`."""

from .cli import main

if __name__ == "__main__":
    main()
