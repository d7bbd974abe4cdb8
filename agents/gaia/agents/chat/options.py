"""The options of an agent's conversations, as its author sets them."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from gaia.agents.chat.limits import ChatLimits
from gaia.llm.model import ChatModel
from gaia_bridge.model import repr_without

__all__ = ["ChatOptions"]


class ChatOptions(Struct, frozen=True):
    """The options of `Agent` that its conversations are made of."""

    model: ChatModel | str | None = None
    base_url: str | None = None
    api_key: str | None = None
    max_steps: int | None = None

    def __repr__(self) -> str:
        return repr_without(self, "base_url", "api_key")

    deferred_tools: bool = False
    tool_threshold: int = 15
    ranked_search: bool = False
    confirm_destructive: bool = True
    session_timeout: float = 3_600.0
    max_sessions: int = 1_000
    session_file: Path | str | None = None
    limits: ChatLimits = ChatLimits()
    max_output_tokens: int | None = None

    def __post_init__(self) -> None:
        """Refuse what makes no sense.

        Raises:
            ValueError: There would be no step, no session, or no room for an answer.
        """
        bounds = {
            "max_steps": self.max_steps,
            "max_sessions": self.max_sessions,
            "max_output_tokens": self.max_output_tokens,
        }
        for name, value in bounds.items():
            if value is not None and value < 1:
                raise ValueError(f"{name} is at least 1; got {value}")
