"""Language models for agents: one client for every server that speaks OpenAI's protocol."""

from __future__ import annotations

from gaia.llm.limits import ModelLimits
from gaia.llm.model import ChatModel
from gaia.llm.openai_model import OpenAIModel
from gaia_bridge.chats import Reply, ToolCall, Usage
from gaia_bridge.errors import (
    ContextOverflowError,
    ModelBusyError,
    ModelCredentialsError,
    ModelError,
    ModelNotFoundError,
    ModelUnreachableError,
)

__all__ = [
    "ChatModel",
    "ContextOverflowError",
    "ModelBusyError",
    "ModelCredentialsError",
    "ModelError",
    "ModelLimits",
    "ModelNotFoundError",
    "ModelUnreachableError",
    "OpenAIModel",
    "Reply",
    "ToolCall",
    "Usage",
]
