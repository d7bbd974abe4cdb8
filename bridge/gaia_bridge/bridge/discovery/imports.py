"""Import what a reference names: the file itself, not whatever else has its name."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def put_first_on_path(folder: Path) -> None:
    """Let modules of `folder` be found before all others."""
    if sys.path[:1] != [str(folder)]:
        sys.path.insert(0, str(folder))


def split_package(file: Path) -> tuple[Path, str]:
    """Where a file is imported from, and as what.

    Args:
        file: An absolute path.

    Returns:
        The folder that holds the outermost package around it (or the file), and the dotted name below that folder.
    """
    parts, folder = [file.stem], file.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if len(parts) > 1 and file.stem == "__init__":
        parts.pop()
    return folder, ".".join(parts)


def import_single_file(file: Path) -> ModuleType:
    """Import a file under its own name, or under one with a suffix where that would hide another module.

    Raises:
        BaseException: Whatever the file raises.
    """
    name = file.stem.replace(".", "_")
    if _is_taken(name, file):
        name = f"{name}_{hashlib.sha256(bytes(file)).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"Python has no loader for {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if sys.modules.get(name) is module:  # else it was given up, and has been imported anew
            del sys.modules[name]
        raise
    return module


def is_about(error: ModuleNotFoundError, name: str) -> bool:
    """Whether what is missing is the module `name`, or its package, and not one that it imports."""
    return error.name is not None and f"{name}.".startswith(f"{error.name}.")


def _is_taken(name: str, file: Path) -> bool:
    known = sys.modules.get(name)
    if known is None:
        return name in sys.stdlib_module_names
    return getattr(known, "__file__", None) != str(file)
