"""The model of an agent: anything that continues a conversation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol

from gaia_bridge.chat_types import Reply, Thought
from gaia_bridge.text.json_types import JSON

__all__ = ["ChatModel"]


class ChatModel(Protocol):
    """A language model. `gaia.llm.OpenAIModel` reaches a server; tests and other providers bring their own."""

    @property
    def name(self) -> str:
        """The model's name, for messages to people."""
        ...

    def stream(
        self, messages: Sequence[JSON], tools: Sequence[JSON] = (), options: Mapping[str, Any] | None = None
    ) -> AsyncGenerator[str | Thought | Reply]:
        """Continue a conversation. Always called on the same event loop.

        Args:
            messages: In OpenAI's shape, the system message first.
            tools: In OpenAI's shape: `{"type": "function", "function": {"name", "description", "parameters"}}`.
            options: In OpenAI's words, such as `temperature`; they win over those that the model was made with.

        Yields:
            Pieces of text as they come, and at the end one `Reply` with all of it. Between them, if the model tells
            that, what it thinks.

        Raises:
            ModelError: There is no usable answer; says what to start or set.
        """
        ...

    async def aclose(self) -> None:
        """Let go of connections, on the loop that it was used on. It may be used again afterwards."""
        ...
