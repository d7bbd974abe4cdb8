"""One turn with a model, and limits that let no test wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from gaia.llm import ModelError, ModelLimits, OpenAIModel, Reply
from gaia_bridge.text.json_types import JSON
from tests.support.scripted_model import ModelHandle
from tests.support.waiting import PATIENCE

__all__ = ["ADD", "QUICK", "collected", "error_of", "model_at", "reply_of", "user"]

QUICK = ModelLimits(retry_pause=0.001, load_pause=0.001, load_wait=0.003)
"""The same, without pauses that anybody would notice."""

ADD: JSON = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
    },
}


def model_at(server: ModelHandle, model: str | None = "scripted", **more: Any) -> OpenAIModel:
    """A model of the scripted server."""
    return OpenAIModel(model, more.pop("base_url", server.base_url), limits=more.pop("limits", QUICK), **more)


def user(text: str) -> list[JSON]:
    """A conversation that begins."""
    return [{"role": "user", "content": text}]


async def collected(
    model: OpenAIModel,
    messages: Sequence[JSON] | str,
    tools: Sequence[JSON] = (),
    options: Mapping[str, Any] | None = None,
) -> tuple[list[str], Reply]:
    """All pieces of text, and the reply."""
    pieces: list[str] = []
    replies: list[Reply] = []
    asked = user(messages) if isinstance(messages, str) else messages
    with anyio.fail_after(PATIENCE):
        async with aclosing(model.stream(asked, tools, options)) as stream:
            async for piece in stream:
                if isinstance(piece, Reply):
                    replies.append(piece)
                else:
                    assert not replies, "text after the reply"
                    assert isinstance(piece, str)
                    pieces.append(piece)
    assert len(replies) == 1
    assert "".join(pieces) == replies[0].text
    return pieces, replies[0]


async def reply_of(model: OpenAIModel, messages: Sequence[JSON] | str, tools: Sequence[JSON] = ()) -> Reply:
    """The reply, and the connections closed."""
    try:
        return (await collected(model, messages, tools))[1]
    finally:
        await model.aclose()


async def error_of(
    model: OpenAIModel, messages: Sequence[JSON] | str = "hello", tools: Sequence[JSON] = ()
) -> ModelError:
    """The error that there is instead of a reply."""
    with pytest.raises(ModelError) as raised:
        await reply_of(model, messages, tools)
    return raised.value
