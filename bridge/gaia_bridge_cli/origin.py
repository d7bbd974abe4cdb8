"""Where this program was installed from: a clone has the documentation, and what no package index may have."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_NOTE = "gaia_mcp_bridge-*.dist-info/direct_url.json"
"""Where installers write it (PEP 610)."""


def installed_from() -> Path | None:
    """The folder that pip or uv has installed this program from, if it is still there; `None` for a package."""
    # `importlib.metadata` would know it as well, and takes as long to load as the help takes to show.
    notes = (note for folder in sys.path for note in Path(folder).glob(_NOTE))
    try:
        note = next(notes, None)
        about: dict[str, Any] = {} if note is None else json.loads(note.read_text("utf-8"))
        url = urlsplit(about["url"] if "dir_info" in about else "")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    folder = Path(unquote(url.path))
    return folder if url.scheme == "file" and (folder / "pyproject.toml").is_file() else None
