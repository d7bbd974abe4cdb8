"""`python -m gaia_bridge_desk.editors FOLDER` writes the example files, such as those of `vscode-config/`."""

from __future__ import annotations

import sys
from pathlib import Path

from gaia_bridge_desk.editors.vscode import write_examples

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m gaia_bridge_desk.editors FOLDER")
    write_examples(Path(sys.argv[1]))
