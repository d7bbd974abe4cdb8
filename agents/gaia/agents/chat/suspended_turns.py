"""Turns that ended with calls of a client's own tools, for clients that keep the history themselves.

Such a client sends back what it was told: the calls of its own tools, and what came of them. What the agent did before
that in the same turn, it does not know. It is remembered here under the ids of those calls, which nobody can guess.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from gaia.agents.chat.messages import call_ids
from gaia_bridge.text.json_types import JSON

__all__ = ["SuspendedTurns"]


class SuspendedTurns:
    """Usable from any thread.

    Args:
        maximum: How many are remembered; of more, those that were used last.
        maximum_bytes: How much all of them may hold together, as JSON.
    """

    def __init__(self, maximum: int, maximum_bytes: int) -> None:
        self._maximum = maximum
        self._maximum_bytes = maximum_bytes
        self._bytes = 0
        self._lock = threading.Lock()
        self._turns: OrderedDict[tuple[str, ...], _SuspendedTurn] = OrderedDict()
        self._by_id: dict[str, tuple[str, ...]] = {}

    def remember(self, ids: Iterable[str], messages: Sequence[JSON]) -> None:
        """Keep the messages of a turn.

        Args:
            ids: Of the calls of the client's tools. Only these: a model may give others the same ids every time.
            messages: From the model's first words to its calls of the client's tools, with the results of others.
        """
        names = tuple(ids)
        turn = _SuspendedTurn(list(messages), sum(len(json.dumps(message, default=str)) for message in messages))
        with self._lock:
            self._turns[names] = turn
            self._by_id |= dict.fromkeys(names, names)
            self._bytes += turn.size
            while self._turns and (len(self._turns) > self._maximum or self._bytes > self._maximum_bytes):
                names, turn = self._turns.popitem(last=False)
                self._bytes -= turn.size
                for name in names:
                    del self._by_id[name]

    def restored(self, messages: Iterable[JSON]) -> list[JSON]:
        """Return the conversation with the remembered messages where the client has only the calls of its own tools."""
        result: list[JSON] = []
        with self._lock:
            for message in messages:
                result += self._remembered(message) or [message]
        return result

    def _remembered(self, message: JSON) -> list[JSON] | None:
        ids = call_ids(message) if message.get("role") == "assistant" else ()
        names = next((self._by_id[name] for name in ids if name in self._by_id), None)
        if names is None:
            return None
        self._turns.move_to_end(names)
        return self._turns[names].messages


class _SuspendedTurn(Struct, frozen=True):
    messages: list[JSON]
    size: int
