"""What a process that agent code has forked must not keep of ours: descriptors, and the way signals are handled.

A forked child (`multiprocessing`, a process pool) has copies of all our descriptors. It would hold the address that we
listen on after we are gone, keep clients waiting for the end of connections that we have closed, and servers for the
end of their input. Programs that are executed do not inherit them.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final


class Forks:
    """What happens in a forked child, before any other code runs there."""

    def __init__(self) -> None:
        self._descriptors: dict[int, tuple[int, int]] = {}
        self._callbacks: dict[object, Callable[[], object]] = {}
        self._masks: dict[int, Iterable[int]] = {}
        """The signals that threads which are forking right now had blocked before."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._begin, after_in_parent=self._end, after_in_child=self._forked)

    def conceal(self, descriptor: int) -> None:
        """Keep a descriptor from forked children. There is no need to say when it is closed."""
        self._descriptors[descriptor] = _identity(descriptor)

    def in_child(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` in every forked child; returns an idempotent function that ends this."""
        key = object()
        self._callbacks[key] = callback

        def end() -> None:
            self._callbacks.pop(key, None)

        return end

    def _begin(self) -> None:
        # A forked child must not be told to end before it has ways of its own to hear of that.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        self._masks[threading.get_ident()] = blocked

    def _end(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._masks.pop(threading.get_ident(), ()))

    def _forked(self) -> None:
        for callback in self._callbacks.values():
            with suppress(Exception):  # nobody could be told
                callback()
        self._callbacks.clear()
        with suppress(OSError):
            self._let_go()
        self._end()

    def _let_go(self) -> None:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor, identity in self._descriptors.items():
            with suppress(OSError):
                if _identity(descriptor) == identity:  # it was not closed, and its number given to another
                    os.dup2(null, descriptor, inheritable=False)  # its owners will close the number, whatever it is
        os.close(null)
        self._descriptors.clear()


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


FORKS: Final = Forks()
"""Of this process."""
