"""The models of the API: the agents that are offered as models, each under an id of its own."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Iterator
from typing import Any, Final

from gaia_bridge.chat_types import ChatRequest, OfferedAsModel
from gaia_bridge.errors import RequestError
from gaia_bridge.server.http.error_bodies import NEVER_AGAIN
from gaia_bridge.settings import ChatEndpointLimits
from gaia_bridge.sources.agent.source import AgentSource
from gaia_bridge.text.json_types import JSON, is_object
from gaia_bridge_doors.conversation.errors import ChatError
from gaia_bridge_doors.conversation.turn import ANSWER_METHODS, Turn, can_answer

logger = logging.getLogger(__name__)

_MAX_ID: Final = 256
"""Characters of a model's id."""

_OWNER: Final = "gaia"


class Model:
    """One agent as a model.

    Args:
        own_id: The agent's own id.
        info: The agent's own model info.
        source: The agent, as it is published.
        limits: The limits of its turns.
    """

    def __init__(self, own_id: str, info: JSON, source: AgentSource, limits: ChatEndpointLimits) -> None:
        self.id = own_id
        self.source = source
        self._info = info
        self._limits = limits
        self._created = int(time.time())
        self._turns: set[Turn] = set()

    @property
    def turns(self) -> int:
        """The number of turns that run now."""
        return len(self._turns)

    def to_json(self) -> JSON:
        """Return the `model` object of the API, with the agent's own info in it."""
        return {**self._info, "id": self.id, "object": "model", "created": self._created, "owned_by": _OWNER}

    def open_turn(self) -> Turn:
        """Make room for one more turn; the caller begins and ends it.

        Raises:
            ChatError: As many turns as allowed are running.
        """
        if len(self._turns) >= self._limits.turns:
            message = f"Model '{self.id}' is busy: {len(self._turns)} turns are running. Try again in a moment."
            raise ChatError(429, message, "rate_limit_exceeded", headers={"retry-after": "1"})
        turn = Turn(self.id, self._limits, self._turns.discard)
        self._turns.add(turn)
        return turn

    def begin(self, turn: Turn, request: ChatRequest) -> None:
        """Let the agent answer.

        Raises:
            ChatError: The agent cannot answer.
        """
        agent = self.source.agent
        if not can_answer(agent):
            methods = " nor ".join(f"{name}()" for name in ANSWER_METHODS)
            message = f"The agent of model '{self.id}' cannot answer: it has neither {methods}. Add one of them to it."
            raise ChatError(501, message, "agent_cannot_answer", headers=NEVER_AGAIN)
        turn.begin(agent, self.source.chats, request)

    def take_turns_of(self, other: Model) -> None:
        """Take over the turns of the model that this one replaces."""
        self._turns = other._turns

    def end_turns(self) -> None:
        """End the model's turns: the agent is no longer published."""
        for turn in list(self._turns):
            message = f"Model '{self.id}' is no longer published."
            turn.end(ChatError(503, message, "model_gone", headers=NEVER_AGAIN))

    def say_goodbye(self) -> None:
        """Give the turns some seconds to finish: the server is about to end."""
        for turn in list(self._turns):
            message = "The server is shutting down, and did not wait for the end of this turn."
            turn.end_later(self._limits.farewell, ChatError(503, message, "shutting_down", headers=NEVER_AGAIN))


class Models:
    """The models, in the order in which their agents were published. Only on the event loop.

    Args:
        limits: The limits of the turns of each model.
    """

    def __init__(self, limits: ChatEndpointLimits) -> None:
        self._limits = limits
        self._models: dict[str, Model] = {}

    def __iter__(self) -> Iterator[Model]:
        return iter(list(self._models.values()))

    async def read(self, source: AgentSource) -> Model | None:
        """Ask an agent for its model. Bounded, and never raises.

        Args:
            source: The agent, which runs.

        Returns:
            The model for `add`, or `None` if the agent is not offered as a model, or gives no valid id.
        """
        if not isinstance(source.agent, OfferedAsModel):
            return None
        try:
            own_id: Any = await source.ask("get_model_id")
            info: Any = await source.ask("get_model_info")
        except RequestError as error:
            logger.warning("%s is not offered as a model: %s", source.name, error)
            return None
        if not isinstance(own_id, str) or not 0 < len(own_id) <= _MAX_ID or not own_id.isprintable():
            expected = f"a text of 1 to {_MAX_ID} printable characters"
            logger.warning("%s is not offered as a model: expected of get_model_id() %s", source.name, expected)
            return None
        return Model(own_id, info if is_object(info) else {}, source, self._limits)

    def add(self, model: Model) -> None:
        """Offer a model, under a qualified id if another agent has the same id."""
        if model.id in self._models:
            own_id, name = model.id, model.source.name
            others = (f"{name}/{own_id}-{number}" for number in range(2, len(self._models) + 3))
            candidates = itertools.chain([f"{name}/{own_id}"], others)
            model.id = next(candidate for candidate in candidates if candidate not in self._models)
            logger.warning("model %s of %s is offered as %s: its own id is taken", own_id, name, model.id)
        if not can_answer(model.source.agent):
            logger.warning(
                "model %s cannot answer: its agent has neither %s()", model.id, "() nor ".join(ANSWER_METHODS)
            )
        self._models[model.id] = model

    def exchange(self, name: str, model: Model | None) -> None:
        """Replace the model of an agent, or remove it with `None`; running turns may finish."""
        for old in self:
            if old.source.name == name:
                del self._models[old.id]
                if model is not None:
                    model.take_turns_of(old)
        if model is not None:
            self.add(model)

    def remove(self, name: str) -> None:
        """Remove the model of an agent, and end its turns.

        Args:
            name: The published name of the agent; if it is no model, nothing happens.
        """
        for model in self:
            if model.source.name == name:
                del self._models[model.id]
                model.end_turns()

    def find(self, model_id: str) -> Model:
        """Return the model of that id.

        Raises:
            ChatError: There is no such model; the message lists the existing ones.
        """
        model = self._models.get(model_id)
        if model is None:
            there = ", ".join(self._models) or "none: publish an agent with get_model_id() and get_model_info()"
            message = f"The model {ascii(model_id[:_MAX_ID])} does not exist; there are {there}."
            raise ChatError(404, message, "model_not_found", "model")
        return model

    def say_goodbye(self) -> None:
        """Give all turns some seconds to finish."""
        for model in self:
            model.say_goodbye()
