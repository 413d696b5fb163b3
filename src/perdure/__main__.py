"""`python -m perdure` is the command `perdure`."""

import os
import sys

if not sys.flags.safe_path and sys.path[0] == os.getcwd():  # noqa: PTH109 - before any import
    del sys.path[0]  # what lies in the current directory is not part of the program

from .cli import main

if __name__ == "__main__":
    main()
