"""Answers the questions of a server with the functions of the program that made the client."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from gaia_bridge.calls.request_context import Elicited
from gaia_bridge.client import ClientDelegate
from gaia_bridge.protocol.vocabulary import LOG_MESSAGE
from gaia_bridge.text.json_types import JSON

UserAnswer = Elicited | Mapping[str, Any] | bool | None
"""A user's answer: the fields as a mapping; `True` accepts without any, `False` and `None` decline; or `Elicited`."""

OnElicitation = Callable[[str, JSON], UserAnswer | Awaitable[UserAnswer]]
"""A function that answers a form for the user, given its message and the schema of its fields."""

OnSampling = Callable[[JSON], str | JSON | Awaitable[str | JSON]]
"""A function that answers for the model, given the parameters of `sampling/createMessage`: text, or a wire
`CreateMessageResult`.
"""

OnLog = Callable[[JSON], object]
"""A function called with each log message: `level`, `data`, and `logger` where it has one. Must not block."""

OnChange = Callable[[str, JSON], object]
"""A function called with each other notification: its method, such as `notifications/tools/list_changed`, and its
parameters.
"""

_DECLARED: Final[Mapping[str, JSON]] = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}


class Delegate(ClientDelegate):
    """A `Client`'s part in the conversation with its server."""

    def __init__(
        self,
        on_elicitation: OnElicitation | None,
        on_sampling: OnSampling | None,
        roots: Sequence[str],
        on_log: OnLog | None,
        on_change: OnChange | None,
        name: str | None,
        server: str,
    ) -> None:
        self._on_elicitation = on_elicitation
        self._on_sampling = on_sampling
        self._roots = list(roots)
        self._on_log = on_log
        self._on_change = on_change
        given = {"elicitation": on_elicitation, "sampling": on_sampling, "roots": roots}
        self.capabilities = {key: value for key, value in _DECLARED.items() if given[key]}
        self.server = server
        if name is not None:
            self.info = {**self.info, "name": name}

    async def answer(self, method: str, params: JSON, during: int | None = None) -> JSON:
        """Answer a question of the server."""
        if method == "elicitation/create" and self._on_elicitation is not None:
            schema: JSON = params.get("requestedSchema") or {}
            return _elicited(await _value(self._on_elicitation(str(params.get("message", "")), schema)))
        if method == "sampling/createMessage" and self._on_sampling is not None:
            return self._sampled(await _value(self._on_sampling(params)))
        if method == "roots/list":
            return {"roots": [{"uri": uri} for uri in self._roots]}
        return await super().answer(method, params, during)

    def notified(self, method: str, params: JSON, during: int | None = None) -> None:
        """Pass on a notification."""
        if method == LOG_MESSAGE:
            if self._on_log is not None:
                self._on_log(params)
        elif self._on_change is not None:
            self._on_change(method, params)

    def _sampled(self, answer: str | JSON) -> JSON:
        if not isinstance(answer, str):
            return answer
        content = {"type": "text", "text": answer}
        return {"role": "assistant", "content": content, "model": self.info["name"], "stopReason": "endTurn"}


async def _value(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


def _elicited(answer: UserAnswer) -> JSON:
    if isinstance(answer, Elicited):
        return {"action": answer.action, **({"content": dict(answer.content)} if answer.accepted else {})}
    if answer is None or answer is False:
        return {"action": "decline"}
    return {"action": "accept", "content": {} if answer is True else dict(answer)}
