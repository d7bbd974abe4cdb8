"""A model in the test's own process, and what it was asked."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from gaia.agents.base import Agent
from gaia.llm import Reply, ToolCall, Usage
from gaia_bridge.chat_types import ChatRequest
from gaia_bridge.text.json_types import JSON

__all__ = ["Answer", "Asked", "FakeModel", "call", "calls", "made", "replied", "say"]

Answer = Reply | Exception | Callable[["Asked"], Reply]
"""What the model does next: says something, fails, or makes it up from what it was asked."""


def say(text: str, **more: Any) -> Reply:
    """Text, and nothing else."""
    return Reply(text, usage=Usage(10, 2), **more)


def call(name: str, /, **arguments: Any) -> Reply:
    """One tool call."""
    return calls((name, arguments))


def calls(*wanted: tuple[str, JSON | str], text: str = "") -> Reply:
    """Several tool calls; arguments as an object, or as text that may be malformed."""
    made = tuple(
        ToolCall(f"call_{number}", name, given if isinstance(given, str) else json.dumps(given))
        for number, (name, given) in enumerate(wanted)
    )
    return Reply(text, made, "tool_calls", Usage(10, 2))


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    messages: list[JSON]
    tools: list[JSON]
    options: dict[str, Any]

    @property
    def tool_names(self) -> list[str]:
        """What was offered."""
        return [tool["function"]["name"] for tool in self.tools]

    @property
    def system(self) -> str:
        """The system message, or nothing."""
        return str(self.messages[0]["content"]) if self.messages[0]["role"] == "system" else ""

    @property
    def last(self) -> JSON:
        """The last message."""
        return self.messages[-1]

    def results(self) -> list[Any]:
        """What the tools said since the model spoke last, in order; JSON is decoded."""
        found: list[Any] = []
        for message in reversed(self.messages):
            if message["role"] != "tool":
                break
            found.insert(0, _decoded(message["content"]))
        return found


@dataclass
class FakeModel:
    """Implements `gaia.llm.model.ChatModel`: plays its answers in order; text comes word by word."""

    answers: list[Answer]
    asked: list[Asked] = field(default_factory=list[Asked])
    closed: int = 0
    name: str = "fake"

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked = []

    async def stream(
        self, messages: Sequence[JSON], tools: Sequence[JSON] = (), options: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[str | Reply]:
        """Play the next answer."""
        asked = Asked(json.loads(json.dumps(list(messages))), list(tools), dict(options or {}))
        self.asked.append(asked)
        assert self.answers, f"the model was asked once more than expected: {asked.last}"
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise copy(answer)  # one that a test keeps would keep all frames that it has passed, and so the agent
        reply = answer if isinstance(answer, Reply) else answer(asked)
        for word in reply.text.split(" ") if reply.text else ():
            yield word if reply.text.startswith(word) else f" {word}"
        yield reply

    async def aclose(self) -> None:
        """Count it."""
        self.closed += 1


def made(*answers: Answer, **options: Any) -> tuple[Agent, FakeModel]:
    """A silent agent, and the model that plays these answers to it."""
    model = FakeModel(*answers)
    return Agent(silent_mode=True, model=model, **options), model


async def replied(agent: Agent, text: str = "go", **request: Any) -> tuple[Reply, str]:
    """Ask as the bridge does: the reply, and the text that was streamed before it."""
    streamed, replies = "", list[Reply]()
    messages = request.pop("messages", [{"role": "user", "content": text}])
    async for piece in agent.answer_chat(ChatRequest(messages, **request)):
        if isinstance(piece, Reply):
            replies.append(piece)
        else:
            assert isinstance(piece, str)
            streamed += piece
    [reply] = replies
    return reply, streamed


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
