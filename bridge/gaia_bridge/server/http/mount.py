"""Where an application that is mounted in another one lies: paths begin at our own root, links at the site's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.types import Scope

MOUNTED_AT: Final = "gaia_bridge.mounted_at"
"""Where a scope says which path leads to us: links that clients are given begin with it."""


def at_root(scope: Scope) -> Scope:
    """The scope as it is for an application that is not mounted.

    Args:
        scope: Its `root_path` says where we are; its `path` begins with that, except for what a proxy took away, which
            Starlette remembers as `app_root_path`.
    """
    root: str = scope.get("root_path", "").rstrip("/")
    if not root or scope["type"] != "http":
        return scope
    path: str = scope["path"]
    mounted = root.removeprefix(scope.get("app_root_path", "").rstrip("/"))
    for prefix in (root, mounted):
        if prefix and (path == prefix or path.startswith(f"{prefix}/")):
            path = path[len(prefix) :] or "/"
            break
    return {**scope, "path": path, "root_path": "", MOUNTED_AT: root}
