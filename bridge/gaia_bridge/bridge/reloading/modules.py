"""The modules that agents are made of, as far as their author can change them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import sysconfig
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

from gaia_bridge.constants import OWN_PACKAGES
from gaia_bridge.runtime.unloading import unload

_NEVER: Final = frozenset({"__main__", "__mp_main__", *OWN_PACKAGES})
"""The program, and the bridge: whoever changes these starts it again."""

_PACKAGES: Final = frozenset({"site-packages", "dist-packages"})


class OwnModules:
    """Which modules those are. What was imported before this object was made is none of them."""

    def __init__(self) -> None:
        self._before = frozenset(sys.modules)
        self._count = 0
        self._files: frozenset[Path] = frozenset()

    def loaded(self) -> dict[str, ModuleType]:
        """The modules by name, as they are now."""
        return {
            name: module
            for name, module in sys.modules.copy().items()
            if name not in self._before and _file_of(module) is not None and name.partition(".")[0] not in _NEVER
        }

    @property
    def files(self) -> frozenset[Path]:
        """Their files. Agents may import more of them at any time."""
        if len(sys.modules) != self._count:
            self._count = len(sys.modules)
            self._files = frozenset(file for module in self.loaded().values() if (file := _file_of(module)))
        return self._files

    def unload(self, changed: Iterable[Path]) -> Unloaded:
        """Have all of them imported anew by whoever imports them next.

        Args:
            changed: The files that changed.
        """
        modules = self.loaded()
        for file in changed:  # Python takes what it compiled in the same second for current if the length is the same
            with suppress(OSError, NotImplementedError):
                Path(importlib.util.cache_from_source(str(file))).unlink()
        for name in modules:
            del sys.modules[name]
        importlib.invalidate_caches()
        self._count = 0
        return Unloaded(modules)


class Unloaded:
    """What was unloaded, for the case that it cannot be imported anew."""

    def __init__(self, modules: Mapping[str, ModuleType]) -> None:
        self._modules = modules
        self._remember = unload(modules)

    def put_back(self, but: Collection[str] = ()) -> None:
        """Have the modules be as they were that nobody has imported anew.

        Args:
            but: Modules that have gone for good.
        """
        missing = [name for name in self._modules if name not in sys.modules and name not in but]
        self._remember(missing)
        for name in missing:
            sys.modules[name] = self._modules[name]


def _file_of(module: ModuleType) -> Path | None:
    """The source file of a module that its author can change."""
    name = getattr(module, "__file__", None)
    return Path(name) if isinstance(name, str) and name.endswith(".py") and _is_own(name) else None


@cache
def _is_own(name: str) -> bool:
    path = Path(name)
    if not _PACKAGES.isdisjoint(path.parts):
        return False
    return not any(path.is_relative_to(folder) for folder in _libraries())


@cache
def _libraries() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple(paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))
