"""The OpenAI-compatible API as its users have it: a real server process, and OpenAI's own client."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gaia_bridge.server.http.token import load_or_create_token
from tests.cli.running import Running, running
from tests.process.driving import BOUND
from tests.support.on_demand import mcp, openai, openai_chat

AGENTS = Path(__file__).with_name("chat_agents.py")
ADD: Any = {"type": "function", "function": {"name": "ask", "parameters": {"type": "object"}}}
BORROW: Any = {"type": "mcp", "server_label": "code"}


def said(text: str) -> list[openai_chat.ChatCompletionMessageParam]:
    return [{"role": "user", "content": text}]


@contextmanager
def serving(tmp_path: Path, *options: str) -> Generator[tuple[Running, str]]:
    """The server, and its base URL for OpenAI's client as the banner tells it."""
    with running("serve", "--port", "0", *options, str(AGENTS), cwd=tmp_path) as bridge:
        line = bridge.until_error("/v1  for clients of OpenAI's API")
        bridge.until_error("Access: ")
        found = re.search(r"http://\S+", line)
        assert found is not None
        yield bridge, found[0]


def client_of(url: str, api_key: str = "none") -> openai.OpenAI:
    return openai.OpenAI(base_url=url, api_key=api_key, max_retries=0)


def test_openais_client_lists_models_chats_and_uses_tools(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, url), client_of(url) as client:
        models = {model.id: model.model_dump() for model in client.models.list()}
        assert list(models) == ["gaia-code", "gaia-borrower", "gaia-hanging"]
        assert models["gaia-code"]["max_input_tokens"] == 32768

        answer = client.chat.completions.create(model="gaia-code", messages=said("hi"))
        assert answer.choices[0].message.content == "I analysed nothing; you said hi."
        assert answer.usage is not None and answer.usage.total_tokens == 3

        messages = said("how much?")
        first = client.chat.completions.create(model="gaia-code", messages=messages, tools=[ADD]).choices[0]
        assert first.finish_reason == "tool_calls"
        [call] = first.message.tool_calls or []
        assert call.type == "function"
        assert json.loads(call.function.arguments) == {"question": "how much?"}
        function: Any = {"name": call.function.name, "arguments": call.function.arguments}
        calls: list[Any] = [{"id": call.id, "type": "function", "function": function}]
        messages.append({"role": "assistant", "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "five"})
        second = client.chat.completions.create(model="gaia-code", messages=messages, tools=[ADD]).choices[0]
        assert second.message.content == "I analysed nothing; you said five."


@pytest.mark.anyio
async def test_openais_asynchronous_client_streams(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, url):
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            stream = await client.chat.completions.create(
                model="gaia-code", messages=said("hi"), stream=True, stream_options={"include_usage": True}
            )
            chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == (
        "I analysed nothing; you said hi."
    )
    assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == 2


def test_a_failure_is_the_exception_that_it_should_be(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, url), client_of(url) as client:

        def ask(text: str = "hi", **fields: Any) -> Any:
            request: dict[str, Any] = {"model": "gaia-code", "messages": said(text), **fields}
            create: Any = client.chat.completions.create
            return create(**request)

        with pytest.raises(openai.NotFoundError, match="there are gaia-code, gaia-borrower, gaia-hanging"):
            ask(model="gpt-9")
        with pytest.raises(openai.BadRequestError, match="temperature: 9 came"):
            ask(temperature=9)
        with pytest.raises(openai.InternalServerError, match="No model server answers. Start one.") as unreachable:
            ask("unreachable")
        assert unreachable.value.status_code == 503
        with pytest.raises(openai.InternalServerError, match="The agent failed") as broken:
            ask("broken")
        assert "secret" not in str(broken.value)
        with pytest.raises(openai.PermissionDeniedError):
            client.with_options(default_headers={"Origin": "https://evil.example"}).models.list()


@pytest.mark.requirement("S-3")
def test_the_generated_token_is_the_api_key(tmp_path: Path) -> None:
    token, _ = load_or_create_token()
    with serving(tmp_path, "--auth") as (_, url):
        with client_of(url, token) as client:
            assert len(client.models.list().data) == 3
        with client_of(url, "wrong") as client, pytest.raises(openai.AuthenticationError):
            client.models.list()


@pytest.mark.anyio
@pytest.mark.requirement("S1-9")
async def test_one_agent_is_an_mcp_server_and_a_chat_model(tmp_path: Path) -> None:
    """Document 001, example 3."""
    with serving(tmp_path) as (_, url):
        async with mcp.Client(url.removesuffix("/v1") + "/agents/code/mcp") as client:
            result = await client.call_tool("analyze-code", {"file_path": "app.py"})
            assert result.structured_content == {"quality_score": 85, "issues": 3, "analysed": 1}
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            answer = await client.chat.completions.create(model="gaia-code", messages=said("hi"))
            assert answer.choices[0].message.content == "I analysed app.py; you said hi."
            lent = await client.chat.completions.create(model="gaia-borrower", messages=said("go"), tools=[BORROW])
            assert lent.choices[0].message.content == (
                'analyze-code: {"quality_score": 85, "issues": 3, "analysed": 2}'
            )


@pytest.mark.requirement("F-115")
def test_a_signal_ends_a_stream_with_its_reason_and_one_that_is_left_is_cancelled(tmp_path: Path) -> None:
    with serving(tmp_path) as (bridge, url), client_of(url) as client:
        with client.chat.completions.create(model="gaia-hanging", messages=said("hi"), stream=True) as left:
            assert next(iter(left)).choices[0].delta.role == "assistant"
            bridge.until_error("hanging")
        bridge.until_error("cancelled")

        stream = client.chat.completions.create(model="gaia-hanging", messages=said("hi"), stream=True)
        bridge.until_error("hanging")
        bridge.process.send_signal(signal.SIGTERM)
        with pytest.raises(openai.APIError, match="shutting down"):
            for _ in stream:
                pass
        assert bridge.process.wait(BOUND) == 0
        assert "Traceback" not in bridge.all_errors()
