"""The owners of calls that are over, and of the tasks and links that those made.

A server may still send messages for a call after its end: for one that was given up, because it does not know yet;
for one that was answered, because it does something later. A task outlives the call that made it, and a link for a
user outlives the question.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import anyio

from gaia_bridge.contract import ClientRequest
from gaia_bridge.protocol.meta import RELATED_TASK_KEY, TASK_ID, made_task
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.sources.upstream.relayed_request import Relay
from gaia_bridge.text.json_types import JSON, value_at

_REMEMBERED: Final = 256
"""Calls that were given up, tasks, and links; of more of a kind, the oldest is dropped."""
_NOBODY: Final = object()
"""The client of tasks without a known owner."""
_LINK_ID: Final = "elicitationId"


class PastCalls:
    """The calls, tasks and links that a server may still refer to, though no call is in flight for them."""

    def __init__(self, limits: UpstreamLimits) -> None:
        self._limits = limits
        self._given_up: deque[tuple[float, Hashable]] = deque(maxlen=_REMEMBERED)
        """The owners of calls that ended without an answer, each with the time until which it counts."""
        self._answered: dict[Hashable, float] = {}
        """The last two principals whose calls were answered: if one differs from a given principal, it is among them.

        Not the owners: a request without a session would get no messages after each other one of the same program."""
        self._last: Hashable = None
        """The last of these principals."""
        self._tasks: dict[object, Hashable] = {}
        self._links: dict[object, Hashable] = {}

    def note_given_up(self, owner: Hashable) -> None:
        """Remember a call that ended without an answer, by its owner."""
        self._given_up.append((anyio.current_time() + self._limits.given_up_grace, owner))

    def note_answer(
        self, principal: Hashable, now: float, request: ClientRequest | None = None, result: JSON | None = None
    ) -> None:
        """Remember the principal of a call that was answered at that time, and the task that the call made."""
        if principal != self._last:
            self._answered.pop(principal, None)
        self._last = principal
        self._answered[principal] = now + self._limits.answered_grace
        if len(self._answered) > 2:
            del self._answered[next(iter(self._answered))]
        if request is not None and result and "task" in result and (task := made_task(result)) is not None:
            _remember(self._tasks, task, request.client)

    def note_links(self, relay: Relay, *asked: Mapping[str, Any]) -> None:
        """Remember the client that a server asks to open links."""
        for link in asked:
            if isinstance(identifier := link.get(_LINK_ID), str):
                _remember(self._links, identifier, relay.request.client)

    def others_given_up(self, relays: Sequence[Relay]) -> bool:
        """Return whether the server may still work on a call that was given up, of another owner than one of these."""
        now = anyio.current_time()
        while self._given_up and self._given_up[0][0] <= now:
            self._given_up.popleft()
        return any(owner != relay.owner for _, owner in self._given_up for relay in relays)

    def others_answered(self, relays: Sequence[Relay]) -> bool:
        """Return whether a call of another principal than one of these was answered just now."""
        now = anyio.current_time()
        recent = [principal for principal, until in self._answered.items() if until > now]
        return any(principal != relay.request.principal for principal in recent for relay in relays)

    def about(self, task: str, relays: Mapping[int, Relay]) -> dict[int, Relay]:
        """Return the calls that a task may belong to: those that ask for it, else all of the client that made it."""
        asking = {number: relay for number, relay in relays.items() if relay.params.get(TASK_ID) == task}
        maker = self._tasks.get(task, _NOBODY)
        return asking or {number: relay for number, relay in relays.items() if relay.request.client == maker}

    def knows(self, task: str | None) -> bool:
        """Return whether a call of a client made a task."""
        return task in self._tasks

    def maker_of(self, task: str) -> Hashable:
        """Return the client that made a task; a placeholder if that is not known."""
        return self._tasks.get(task, _NOBODY)

    def asked_to_open(self, params: JSON) -> Hashable:
        """Return the client that a server asked to open the link that was opened; `None` if it asked none."""
        return self._links.get(params.get(_LINK_ID))


def related_task(params: JSON) -> str | None:
    """Return the task that a question or a message belongs to (2025-11-25, basic/utilities/tasks)."""
    identifier = value_at(params, "_meta", RELATED_TASK_KEY, TASK_ID)
    return identifier if isinstance(identifier, str) else None


def _remember(clients: dict[object, Hashable], key: object, client: Hashable) -> None:
    clients.pop(key, None)
    clients[key] = client
    if len(clients) > _REMEMBERED:
        del clients[next(iter(clients))]
