"""How an agent converses, as its author says it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gaia.agents.chat.limits import ChatLimits
from gaia.llm.model import ChatModel

__all__ = ["ChatOptions"]


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The options of `Agent` that its conversations are made of."""

    model: ChatModel | str | None = None
    base_url: str | None = None
    api_key: str | None = None
    max_steps: int | None = None
    deferred_tools: bool = False
    tool_threshold: int = 15
    ranked_search: bool = False
    confirm_destructive: bool = True
    session_timeout: float = 3_600.0
    max_sessions: int = 1_000
    session_file: Path | str | None = None
    limits: ChatLimits = ChatLimits()
