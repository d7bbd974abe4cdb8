"""Where this program was installed from: a clone has the documentation, and what no package index may have."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["installed_from"]

_DISTRIBUTION = "gaia-mcp-bridge"


def installed_from() -> Path | None:
    """The folder that pip or uv has installed this program from, if it is still there; `None` for a package."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        about = json.loads(distribution(_DISTRIBUTION).read_text("direct_url.json") or "{}")
        url = urlsplit(about["url"] if "dir_info" in about else "")
    except (PackageNotFoundError, OSError, ValueError, KeyError, TypeError):
        return None
    folder = Path(unquote(url.path))
    return folder if url.scheme == "file" and (folder / "pyproject.toml").is_file() else None
