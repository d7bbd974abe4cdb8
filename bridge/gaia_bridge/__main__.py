"""`python -m gaia_bridge` is `gaia-bridge`."""

from __future__ import annotations

import os
import sys

if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]  # `python -m` puts the current folder first; what lies there is none of our modules

from gaia_bridge.cli import main

if __name__ == "__main__":
    sys.exit(main(prog_name="python -m gaia_bridge"))
