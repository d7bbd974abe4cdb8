"""Turns that ended with calls of a client's own tools, for clients that keep the history themselves.

Such a client sends back what it was told: the calls of its own tools, and what came of them. What the agent did before
that in the same turn, it does not know. It is remembered here under the ids of those calls, which nobody can guess.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from gaia.agents.chat.messages import call_ids
from gaia_bridge.jsontypes import JSON

__all__ = ["SuspendedTurns"]


class SuspendedTurns:
    """Usable from any thread.

    Args:
        maximum: How many are remembered; of more, the latest.
    """

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._lock = threading.Lock()
        self._turns: OrderedDict[str, list[JSON]] = OrderedDict()

    def remember(self, ids: Iterable[str], messages: Sequence[JSON]) -> None:
        """Keep what was said in a turn.

        Args:
            ids: Of the calls of the client's tools. Only these: a model may give others the same ids every time.
            messages: From the model's first words to its calls of the client's tools, with the results of others.
        """
        with self._lock:
            for name in ids:
                self._turns[name] = list(messages)
            while len(self._turns) > self._maximum:
                self._turns.popitem(last=False)

    def restored(self, messages: Iterable[JSON]) -> list[JSON]:
        """The same conversation, with what was remembered in the places where the client has only the calls."""
        found: list[JSON] = []
        with self._lock:
            for message in messages:
                names = call_ids(message) if message.get("role") == "assistant" else ()
                remembered = next((self._turns[name] for name in names if name in self._turns), None)
                found += [message] if remembered is None else remembered
        return found
