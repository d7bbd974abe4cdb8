"""The version of the distribution, and how its packages load what they offer: loaded with each of them anyway."""

from __future__ import annotations

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from collections.abc import Iterable

__version__ = "0.1.0"


def import_member(package: str, names: Iterable[str], places: Iterable[str], name: str) -> object:
    """Import a name of a package from the module that defines it.

    Args:
        package: The package that is asked for the name.
        places: The modules that define them, in the order in which they are looked through;
            ".name" is one of the package's.

    Raises:
        AttributeError: The package does not offer it.
    """
    from importlib import import_module

    for place in places if name in names else ():
        module = import_module(place, package)
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
