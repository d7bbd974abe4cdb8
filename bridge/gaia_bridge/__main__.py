"""`python -m gaia_bridge` is `gaia-bridge`."""

from __future__ import annotations

import sys

from gaia_bridge.cli import main

if __name__ == "__main__":
    sys.exit(main(prog_name="python -m gaia_bridge"))
