"""Protection from clients: secrets are not read, files that run by themselves not written (docs/shipped-agents.md).

A client may be a model that was told what to do by what it read. So an agent writes nothing that this bridge, an
editor, a shell or git starts without a person starting it; and of keys and passwords it does not even see the names.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Final

from gaia_agents.files import read_regular

__all__ = ["HARMLESS_HIDDEN", "KEPT_SECRET", "RUN_BY_THEMSELVES", "is_secret", "plain", "reason_not_to_write"]

KEPT_SECRET: Final = frozenset(
    {
        ".aws",
        ".azure",
        ".config/gcloud",
        ".config/gh",
        ".docker/config.json",
        ".gaia",
        ".git-credentials",
        ".gnupg",
        ".kube",
        ".local/share/keyrings",
        ".my.cnf",
        ".netrc",
        ".password-store",
        ".pgpass",
        ".pypirc",
        ".ssh",
        ".vault-token",
        "_netrc",
        "library/keychains",
    }
)
"""Names and ends of paths where keys, passwords and tokens are, wherever they lie; a folder with all that is in it."""

HARMLESS_HIDDEN: Final = frozenset({".dockerignore", ".editorconfig", ".github", ".gitkeep", ".gitlab"})
"""The hidden files and folders that are written. All others configure an editor, a shell, git or this bridge
(`.vscode`, `.cursor`, `.idea`, `.zed`, `.husky`, `.githooks`, `.envrc`, `.env`), or say what clients may read
(`.gitignore`)."""

RUN_BY_THEMSELVES: Final = frozenset(
    {
        "claude_desktop_config.json",
        "cline_mcp_settings.json",
        "lefthook-local.json",
        "lefthook-local.toml",
        "lefthook-local.yaml",
        "lefthook-local.yml",
        "lefthook.json",
        "lefthook.toml",
        "lefthook.yaml",
        "lefthook.yml",
        "mcp-config.json",
        "mcp.json",
        "mcp_config.json",
        "mcp_servers.json",
        "mcp_settings.json",
        "mise.local.toml",
        "mise.toml",
        "node_modules",
        "opencode.json",
        "opencode.jsonc",
        "pyvenv.cfg",
        "site-packages",
        "sitecustomize.py",
        "usercustomize.py",
    }
)
"""Files and folders that are not hidden and say all the same what an editor, git, a shell or an interpreter starts:
lists of MCP servers, hooks, tools of a folder, and packages that are installed."""

_ENDINGS: Final = (".code-workspace", ".pth")
"""Ends of such names: workspaces of VS Code with their tasks, and what Python runs at every start."""

_LISTS_SERVERS: Final = b'"mcpServers"'
_LARGEST_LIST: Final = 1024 * 1024
"""Bytes of a file that may list servers; the bridge itself reads no larger one."""


def is_secret(parts: Sequence[str]) -> bool:
    """Whether a path leads to keys or passwords, or into a folder of them.

    Args:
        parts: The path, from a root folder or from `/`.
    """
    names = [plain(part) for part in parts]
    return any("/".join(names[start:end]) in KEPT_SECRET for end in range(len(names) + 1) for start in _starts(end))


def reason_not_to_write(root: Path, place: str, own_files: Collection[Path]) -> str | None:
    """Return why a file may not be written for a client; `None` if it may.

    Args:
        root: The folder that the agent works on, without links.
        place: The file from there, links resolved; it need not exist.
        own_files: What the bridge itself loads.
    """
    names = [plain(part) for part in place.split("/")]
    for name in names:
        if name.startswith(".") and name not in HARMLESS_HIDDEN:
            return "is hidden, and hidden files decide what editors, shells and git start"
        if name in RUN_BY_THEMSELVES or name.endswith(_ENDINGS):
            return "decides which programs are started"
    target = root / place
    if _is_one_of(target, own_files):
        return "is a file that this bridge itself loads or starts"
    if _is_imported(target):
        return "is where this bridge imports Python code from"
    if _lists_servers(target):
        return "lists MCP servers, which are programs that are started"
    return None


def plain(name: str) -> str:
    """Return a name as file systems compare it that ignore case and invisible characters (HFS+)."""
    if not name.isascii():
        name = "".join(c for c in name if unicodedata.category(c) != "Cf")
    return name.casefold()


def _starts(end: int) -> Iterable[int]:
    """Return where an entry of `KEPT_SECRET` could begin that ends there: none has more than three parts."""
    return range(max(0, end - 3), end)


def _is_one_of(target: Path, own_files: Collection[Path]) -> bool:
    """Whether it is one of these files, or in one of these folders, by its place or, as a hard link, by what it is."""
    for file in own_files:
        if target == file or target.is_relative_to(os.path.realpath(file)):
            return True
    try:
        status = os.stat(target)
    except OSError:
        return False
    return status.st_nlink > 1 and any(_is_same(file, status) for file in own_files)


def _is_same(file: Path, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(file), status)
    except OSError:
        return False


def _is_imported(target: Path) -> bool:
    """Whether Python would find it when this process imports something, now or later: agents put their folders there.

    Folders that are no package, below those, are free, unless a module was loaded from there: what lies in them is not
    looked for.
    """
    if not target.name.endswith(tuple(all_suffixes())):
        return False
    for entry in sys.path:
        folder = Path(os.path.realpath(entry or os.curdir))
        if target.is_relative_to(folder):
            top, *inner = target.relative_to(folder).parts
            package = folder / top
            if not inner or top in sys.modules or not package.is_dir() or (package / "__init__.py").exists():
                return True
    return False


def _lists_servers(target: Path) -> bool:
    """Whether a file says what another bridge, or an editor, starts."""
    if not target.name.lower().endswith((".json", ".jsonc", ".json5")):
        return False
    try:
        return _LISTS_SERVERS in read_regular(str(target), _LARGEST_LIST)
    except OSError:
        return False
