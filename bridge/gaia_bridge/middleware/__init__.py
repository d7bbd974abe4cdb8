"""Code around requests: the work of a program on the calls, lists and reads that pass its `Bridge`.

See docs/middleware.md. The members are loaded on first use, as most bridges have no middleware.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gaia_bridge.version import import_member

if TYPE_CHECKING:
    from gaia_bridge.middleware.base import CallNext, McpRequest, Middleware
    from gaia_bridge.middleware.result_cache import ResultCache
    from gaia_bridge.middleware.result_size import ResultSize
    from gaia_bridge.middleware.shipped import RateLimit, RetryReads, TimingLog

_PLACES = (".base", ".shipped", ".result_cache", ".result_size")
__all__ = [
    "CallNext",
    "McpRequest",
    "Middleware",
    "RateLimit",
    "ResultCache",
    "ResultSize",
    "RetryReads",
    "TimingLog",
]


def __getattr__(name: str) -> object:
    return import_member(__name__, __all__, _PLACES, name)
