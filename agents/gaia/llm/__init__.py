"""Language models for agents: one client for every server that speaks OpenAI's protocol. Loaded when it is used."""

from __future__ import annotations

from gaia_bridge.version import import_member

TYPE_CHECKING = False  # see gaia_bridge
if TYPE_CHECKING:
    from gaia.llm.limits import ModelLimits
    from gaia.llm.model import ChatModel
    from gaia.llm.openai_model import OpenAIModel
    from gaia_bridge.chat_types import Reply, ToolCall, Usage
    from gaia_bridge.errors import (
        ContextOverflowError,
        ModelBusyError,
        ModelCredentialsError,
        ModelError,
        ModelNotFoundError,
        ModelUnreachableError,
    )

__all__ = [
    "ChatModel", "ContextOverflowError", "ModelBusyError", "ModelCredentialsError", "ModelError", "ModelLimits",
    "ModelNotFoundError", "ModelUnreachableError", "OpenAIModel", "Reply", "ToolCall", "Usage",
]  # fmt: skip

_PLACES = ("gaia_bridge.errors", "gaia_bridge.chat_types", "gaia.llm.limits", "gaia.llm.model", "gaia.llm.openai_model")


def __getattr__(name: str) -> object:
    return import_member(__name__, __all__, _PLACES, name)
