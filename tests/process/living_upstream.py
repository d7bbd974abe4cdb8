"""An upstream server whose death can be seen: `python -S living_upstream.py [MODE]`, the modes of `raw_server.py`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent

if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    runpy.run_path(str(HERE / "liveness.py"))["show_signs_of_life"]("upstream")
    runpy.run_path(str(HERE.parent / "servers" / "raw_server.py"), run_name="__main__")
