"""Language models for agents: one client for every server that speaks OpenAI's protocol."""

from __future__ import annotations

from gaia.llm.model import ChatModel
from gaia_bridge.chats import Reply, ToolCall, Usage

__all__ = ["ChatModel", "Reply", "ToolCall", "Usage"]
