"""Which agents are models, under which ids, and what is told of them."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from gaia_bridge.bridge.discovery.classes import MODEL_METHODS
from gaia_bridge.chat_types import OfferedAsModel
from gaia_bridge.settings import AgentLimits, Settings
from tests.support.agents import one_tool
from tests.support.chat_endpoint import ChatAgent, QueryAgent, chatting, saying
from tests.support.on_demand import openai

pytestmark = pytest.mark.anyio


def hello(model_id: str = "gaia-test", **info: Any) -> ChatAgent:
    return ChatAgent(saying("hello"), model_id, info)


def broken() -> str:
    raise RuntimeError("no idea")


def test_what_discovery_looks_for_is_what_the_contract_says() -> None:
    members = {name for name in vars(OfferedAsModel) if name.startswith("get_")}
    assert set(MODEL_METHODS) == members


@pytest.mark.requirement("S1-9")
async def test_models_are_listed_with_what_their_agents_say_of_themselves() -> None:
    async with chatting(hello("gaia-code", max_input_tokens=32768, id="other"), one_tool(lambda _: 1)) as server:
        async with server.openai as client:
            [model] = (await client.models.list()).data
            assert (model.id, model.object, model.owned_by) == ("gaia-code", "model", "gaia")
            assert model.model_dump()["max_input_tokens"] == 32768
            assert (await client.models.retrieve("gaia-code")) == model


async def test_an_unknown_model_is_not_found_and_those_there_are_are_named() -> None:
    async with chatting(hello("one"), hello("two")) as server, server.openai as client:
        with pytest.raises(openai.NotFoundError, match="there are one, two") as raised:
            await client.models.retrieve("three")
        assert raised.value.code == "model_not_found"
        with pytest.raises(openai.NotFoundError, match="'three' does not exist"):
            await client.chat.completions.create(model="three", messages=[{"role": "user", "content": "hi"}])


async def test_the_second_agent_of_an_id_gets_a_qualified_one_and_both_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agents = {"one": ChatAgent(saying("1"), "gaia"), "two": ChatAgent(saying("2"), "gaia")}
    async with chatting(named=agents) as server, server.openai as client:
        assert [model.id for model in (await client.models.list()).data] == ["gaia", "two/gaia"]
        assert (await client.models.retrieve("two/gaia")).id == "two/gaia"
        assert [await server.text(model=name) for name in ("gaia", "two/gaia")] == ["1", "2"]
        assert server.bridge.models == {"gaia": "one", "two/gaia": "two"}
    assert "model gaia of two is offered as two/gaia: its own id is taken" in caplog.messages


async def test_a_qualified_id_that_is_taken_too_is_numbered() -> None:
    agents = {"one": hello("two/gaia"), "first": hello("gaia"), "two": hello("gaia")}
    async with chatting(named=agents) as server:
        assert list(server.bridge.models) == ["two/gaia", "gaia", "two/gaia-2"]


async def test_an_agent_that_is_no_longer_published_is_no_model_either() -> None:
    async with chatting(named={"one": hello("one"), "two": hello("two")}) as server:
        await server.bridge.remove("one")
        assert list(server.bridge.models) == ["two"]
        assert (await server.error(model="one"))["status"] == 404
        assert (await server.text(model="two")) == "hello"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (broken, "get_model_id() failed with RuntimeError"),
        (lambda: "", "expected of get_model_id() a text of 1 to 256 printable characters"),
        (lambda: "x" * 257, "expected of get_model_id()"),
        (lambda: "a\nb", "expected of get_model_id()"),
        (lambda: None, "expected of get_model_id()"),
    ],
)
async def test_an_agent_that_does_not_say_which_model_it_is_is_published_without(
    answer: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent: Any = hello()
    agent.get_model_id = answer
    async with chatting(agent) as server:
        assert server.bridge.models == {}
        assert [source.name for source in server.bridge.sources] == ["a0"]
    assert any("a0 is not offered as a model" in line and reason in line for line in caplog.messages)


async def test_an_agent_that_hangs_when_asked_which_model_it_is_is_published_without() -> None:
    release = threading.Event()
    agent: Any = hello()
    agent.get_model_id = release.wait
    try:
        async with chatting(agent, settings=Settings(agent=AgentLimits(definitions_timeout=0.05))) as server:
            assert server.bridge.models == {}
    finally:
        release.set()


async def test_the_status_tells_the_models() -> None:
    async with chatting(named={"chat": hello("gaia-chat")}) as server:
        status = (await server.client.get("/status")).json()
        assert status["models"] == [{"id": "gaia-chat", "agent": "chat", "turns": 0}]


async def test_an_agent_that_cannot_answer_says_what_it_lacks(caplog: pytest.LogCaptureFixture) -> None:
    agent: Any = QueryAgent(lambda text: text)
    del agent.process_query
    async with chatting(agent) as server:
        error = await server.error(model="gaia-query")
        assert (error["status"], error["code"]) == (501, "agent_cannot_answer")
        assert "has neither answer_chat() nor process_query()" in error["message"]
    assert any("cannot answer" in record.message for record in caplog.records if record.levelno == logging.WARNING)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("DELETE", "/v1/models/x", 405, "method_not_allowed"),
        ("POST", "/v1/models", 405, "method_not_allowed"),
        ("POST", "/v1/embeddings", 404, "unknown_url"),
        ("GET", "/v1/", 404, "unknown_url"),
    ],
)
async def test_what_is_not_served_says_what_is(method: str, path: str, status: int, code: str) -> None:
    async with chatting(hello()) as server:
        response = await server.client.request(method, path, json={} if method == "POST" else None)
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)
        if status == 405:
            assert response.headers["allow"] in response.json()["error"]["message"]
