"""Every failure of a model server is an error that says what to start or set; the guide has the same words."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

import gaia.llm.wire
from gaia.llm import (
    ContextOverflowError,
    ModelBusyError,
    ModelCredentialsError,
    ModelError,
    ModelLimits,
    ModelNotFoundError,
    ModelUnreachableError,
    OpenAIModel,
)
from gaia.llm.failures import Refusal, Report, error_in
from gaia.llm.servers import KNOWN, known_server
from gaia.llm.settings import Place
from gaia.llm.wire import Wire
from gaia_bridge.text.json_types import JSON
from tests.agents.llm.talking import ADD, QUICK, collected, error_of, model_at, reply_of
from tests.servers.model_dialects import DIALECTS
from tests.support.scripted_model import ModelHandle, fault, say, script

pytestmark = pytest.mark.anyio

GUIDE = Path(__file__).parents[3] / "docs" / "models.md"
KEY = "sk-secret-of-a-user-0123456789"

every_dialect = pytest.mark.parametrize("dialect", DIALECTS)

# What is in « » is the server's, or differs; the guide has "..." instead.
CASES: dict[str, tuple[JSON, dict[str, Any], type[ModelError], str]] = {
    "no key": (
        script(api_key=KEY, dialect="vllm"),
        {},
        ModelCredentialsError,
        "The model server at URL wants an API key («Unauthorized»). Set GAIA_API_KEY.",
    ),
    "wrong key": (
        script(api_key=KEY),
        {"api_key": "sk-wrong-0123456789"},
        ModelCredentialsError,
        "The model server at URL did not accept the API key («Incorrect API key provided: ***»). Set GAIA_API_KEY.",
    ),
    "forbidden": (
        script(fault("forbidden")),
        {"api_key": KEY},
        ModelCredentialsError,
        "The model server at URL does not let this key do it («Project does not have access to model `scripted`»). "
        "Set GAIA_API_KEY to one that may, or see the account.",
    ),
    "quota": (
        script(fault("quota")),
        {"api_key": KEY},
        ModelCredentialsError,
        "The model server at URL does not let this key do it («You exceeded your current quota, please check your "
        "plan and billing details»). Set GAIA_API_KEY to one that may, or see the account.",
    ),
    "unknown model": (
        script(models=["small", "large"], dialect="llamacpp"),
        {},
        ModelNotFoundError,
        "The model server at URL has no model '«scripted»'. It has «small, large». "
        "Set GAIA_MODEL, or the model argument, to one that it has.",
    ),
    "not loaded": (
        script(fault("loading"), dialect="lmstudio"),
        {},
        ModelNotFoundError,
        "The model server at URL cannot use the model '«scripted»' («No models loaded. Please load a model in the "
        "developer page»). Set GAIA_MODEL, or the model argument, to one that it has.",
    ),
    "no models": (
        script(models=[]),
        {"model": None},
        ModelNotFoundError,
        "The model server at URL has no model for chats. Get or load one.",
    ),
    "busy": (
        script(fault("rate_limited", retry_after=300)),
        {},
        ModelBusyError,
        "The model server at URL is too busy («status 429: Rate limit reached for scripted in requests per min "
        "(RPM): Limit 3»). Try again in «300» s.",
    ),
    "loading": (
        script(fault("loading"), dialect="llamacpp"),
        {},
        ModelBusyError,
        "The model server at URL is loading the model («status 503: Loading model»). Try again in a moment.",
    ),
    "overflow": (
        script(fault("context_overflow"), dialect="llamacpp"),
        {},
        ContextOverflowError,
        "The conversation is longer than «scripted» can read («the request exceeds the available context size, "
        "try increasing it»). Begin a new session, offer fewer tools or shorter results, or give the model a larger "
        "context.",
    ),
    "no room": (
        script(say("", finish="length")),
        {},
        ContextOverflowError,
        "The model server at URL had no room left for an answer. "
        "Begin a new session, allow more max_tokens, or give the model a larger context.",
    ),
    "no tools": (
        script(refuses=["tools"], dialect="ollama"),
        {},
        ModelError,
        "The model server at URL cannot call tools with «scripted» («registry.ollama.ai/library/scripted does not "
        "support tools»). Choose a model that can call tools.",
    ),
    "tools not turned on": (
        script(
            fault(
                "bad_request",
                message='"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
            ),
            dialect="vllm",
        ),
        {},
        ModelError,
        'The model server at URL cannot call tools with «scripted» («"auto" tool choice requires '
        "--enable-auto-tool-choice and --tool-call-parser to be set»). Start the server so that it can: "
        "the options that it names.",
    ),
    "web page": (
        script(fault("html")),
        {},
        ModelUnreachableError,
        "What answers at URL does not speak OpenAI's protocol: it sent a web page (status 200). "
        "Set GAIA_BASE_URL to the address of the API, which mostly ends in /v1.",
    ),
    "no such route": (
        script(fault("no_route")),
        {},
        ModelUnreachableError,
        "What answers at URL does not speak OpenAI's protocol: there is no /chat/completions (status 404). "
        "Set GAIA_BASE_URL to the address of the API, which mostly ends in /v1.",
    ),
    "failed": (
        script(fault("server_error")),
        {},
        ModelError,
        "The model server at URL failed («status 500: The server had an error while processing your request»). "
        "See its log, or try another model.",
    ),
    "gateway": (
        script(fault("bad_gateway")),
        {},
        ModelError,
        "The model server at URL failed («status 502: a web page»). See its log, or try another model.",
    ),
    "refused": (
        script(fault("bad_request", message="temperature must be at most 2")),
        {},
        ModelError,
        "The model server at URL refused the request («status 400: temperature must be at most 2»). See what it wants.",
    ),
    "broken": (
        script(fault("ended_early", text="Well, ")),
        {},
        ModelError,
        "The model server at URL stopped in the middle of its answer (the stream ended too early). "
        "Ask again; if that happens again, see its log: it may have run out of memory.",
    ),
    "garbage": (
        script(fault("garbage", text="Well, ")),
        {},
        ModelError,
        "The model server at URL stopped in the middle of its answer (it sent something that is no JSON object). "
        "Ask again; if that happens again, see its log: it may have run out of memory.",
    ),
    "silent": (
        script(say("Hello", hold="never")),
        {"limits": ModelLimits(first=0.05)},
        ModelError,
        "The model server at URL said nothing for «0.05» s. "
        "See what it is doing; a model that is that slow needs ModelLimits(first=...).",
    ),
    "too much": (
        script(fault("endless")),
        {"limits": ModelLimits(reply_bytes=100_000)},
        ModelError,
        "The model server at URL sent more than «100,000» bytes in one reply. "
        "If that is meant, build the model with ModelLimits(reply_bytes=...).",
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_failure_says_what_to_start_or_set(server: ModelHandle, name: str) -> None:
    played, arguments, kind, text = CASES[name]
    server.play(played)
    error = await error_of(model_at(server, **arguments), tools=[ADD])
    assert str(error).replace(server.base_url, "URL") == re.sub("[«»]", "", text)
    assert type(error) is kind


async def test_a_server_that_is_not_there_is_said_how_to_start() -> None:
    error = await error_of(OpenAIModel("m", "http://127.0.0.1:9/v1", limits=QUICK))
    assert type(error) is ModelUnreachableError
    assert str(error) == (
        "No model server answers at http://127.0.0.1:9/v1 (All connection attempts failed). "
        "Start it, or set GAIA_BASE_URL to where one runs."
    )


@asynccontextmanager
async def raw_server(*answers: bytes) -> AsyncGenerator[tuple[str, list[bytes]]]:
    """A server that gives each connection the next of these, and closes it."""
    left, heard = list(answers), list[bytes]()

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            heard.append(await stream.receive())
            await stream.send(left.pop(0))

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}/v1", heard
        tasks.cancel_scope.cancel()


EVENTS = b'data: {"choices": [{"delta": {"content": "Well."}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


async def test_a_connection_that_breaks_before_the_answer_is_made_again() -> None:
    async with raw_server(b"", b"HTTP/1.1 200 OK\r\n\r\n" + EVENTS) as (url, heard):
        assert (await reply_of(OpenAIModel("m", url, limits=QUICK), "Hello")).text == "Well."
    assert len(heard) == 2


async def test_a_server_that_hangs_up_each_time_is_not_reached() -> None:
    async with raw_server(*[b""] * (1 + QUICK.retries)) as (url, heard):
        error = await error_of(OpenAIModel("m", url, limits=QUICK))
    assert type(error) is ModelUnreachableError
    assert "Start it" in str(error)
    assert len(heard) == 1 + QUICK.retries


async def test_a_server_of_another_protocol_is_not_reached() -> None:
    async with raw_server(*[b"SSH-2.0-OpenSSH_9.9\r\n"] * (1 + QUICK.retries)) as (url, _):
        assert type(await error_of(OpenAIModel("m", url, limits=QUICK))) is ModelUnreachableError


async def test_a_list_of_models_that_is_cut_off_is_told() -> None:
    async with raw_server(b'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"data"') as (url, _):
        assert "stopped in the middle" in str(await error_of(OpenAIModel(None, url, limits=QUICK)))


async def test_a_refusal_that_is_cut_off_is_tried_again() -> None:
    cut = b"HTTP/1.1 500 Oh\r\ncontent-length: 100\r\n\r\n{"
    async with raw_server(cut, b"HTTP/1.1 200 OK\r\n\r\n" + EVENTS) as (url, _):
        assert (await reply_of(OpenAIModel("m", url, limits=QUICK), "Hello")).text == "Well."


@pytest.mark.parametrize("name", [row.name for row in KNOWN])
def test_the_guide_tells_how_each_known_server_is_started_and_reached(name: str) -> None:
    row, guide = known_server(name), GUIDE.read_text("utf-8")
    assert row.title in guide
    assert f"PROVIDER={row.name}" in guide
    assert all(url in guide for url in row.base_urls)
    assert row.start.removeprefix("see ") in guide


@pytest.mark.parametrize("name", CASES)
def test_the_guide_has_the_same_words(name: str) -> None:
    text = re.sub("«.*?»", "...", CASES[name][3])
    assert text in re.sub(r"\s+", " ", GUIDE.read_text("utf-8")), text


def test_the_example_of_the_guide_is_a_model() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["model"].name == "qwen3"


def test_without_the_library_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ModelError, match=re.escape("pip install 'gaia-mcp-bridge[llm]'")):
        gaia.llm.wire.Wire(Place("http://localhost:9/v1"), QUICK)


@every_dialect
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("unauthorized", ModelCredentialsError),
        ("forbidden", ModelCredentialsError),
        ("unknown_model", ModelNotFoundError),
        ("rate_limited", ModelBusyError),
        ("context_overflow", ContextOverflowError),
        ("no_route", ModelUnreachableError),
        ("server_error", ModelError),
        ("error_in_stream", ModelError),
        ("cut_off", ModelError),
    ],
)
async def test_every_servers_way_to_say_it_is_understood(
    server: ModelHandle, dialect: str, name: str, kind: type[ModelError]
) -> None:
    server.play(script(fault(name, text="Well, ") if name == "cut_off" else fault(name), dialect=dialect))
    assert type(await error_of(model_at(server, limits=ModelLimits(retries=0)))) is kind


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 4097 tokens",
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        "The number of tokens to keep is greater than the context length (n_keep: 9 >= n_ctx: 4)",
        "Trying to keep the first 9 tokens when context the overflows.",
        "Context size has been exceeded.",
        "prompt is too long: 200001 tokens > 200000 maximum",
        "max_tokens must be at least 1, got -186.",
        "Input tokens exceed the configured limit of 272000 tokens. Please reduce the length of the messages.",
        "litellm.ContextWindowExceededError: too much",
        "Requested tokens (2285) exceed context window of 2048",
    ],
)
def test_a_conversation_that_is_too_long_is_known_by_many_words(said: str) -> None:
    bodies: list[Any] = [
        {"error": {"message": said}},
        {"error": said},
        {"object": "error", "message": said, "code": 400},
        {"detail": [{"loc": ["body"], "msg": said}]},
    ]
    for body in (*map(json.dumps, bodies), said):
        error = Report(Place("http://localhost/v1"), "m").failure(Refusal(400, body))
        assert type(error) is ContextOverflowError
        assert said[:60].rstrip(".") in str(error)


def test_what_a_user_said_is_no_reason() -> None:
    body = '{"detail": [{"msg": "value is not valid", "input": "my context length is too long"}]}'
    assert type(Report(Place("http://localhost/v1"), "m").failure(Refusal(422, body))) is ModelError


def test_a_known_server_gets_advice_of_its_own() -> None:
    for row in KNOWN:
        report = Report(Place(row.base_urls[0], row), "m")
        assert row.longer in str(report.failure(Refusal(400, '{"error": "context length exceeded"}')))
        if row.is_local:
            assert f"Start {row.title} ({row.start})" in str(report.unreachable("refused"))
    ollama = Report(Place("http://localhost:11434/v1", known_server("ollama")), "llama3")
    assert "`ollama pull llama3`" in str(ollama.unknown_model([]))


async def test_a_busy_server_is_asked_again(server: ModelHandle) -> None:
    server.play(script(fault("rate_limited", times=2, retry_after=0), fault("loading"), say("at last")))
    assert (await reply_of(model_at(server), "Hello")).text == "at last"
    assert len(server.requests()) == 4


async def test_a_server_that_loads_is_waited_for(server: ModelHandle) -> None:
    server.play(script(fault("loading", times=3), say("at last"), dialect="llamacpp"))
    assert (await reply_of(model_at(server), "Hello")).text == "at last"


async def test_a_busy_server_is_not_asked_for_ever(server: ModelHandle) -> None:
    server.play(script(fault("rate_limited")))
    error = await error_of(model_at(server))
    assert isinstance(error, ModelBusyError)
    assert error.retry_after is None
    assert len(server.requests()) == 1 + QUICK.retries


async def test_a_busy_server_may_say_how_long(server: ModelHandle) -> None:
    server.play(script(fault("rate_limited", retry_after=300)))
    error = await error_of(model_at(server))
    assert isinstance(error, ModelBusyError)
    assert error.retry_after == 300
    assert len(server.requests()) == 1


async def test_an_account_without_money_is_not_asked_again(server: ModelHandle) -> None:
    server.play(script(fault("quota")))
    await error_of(model_at(server))
    assert len(server.requests()) == 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("3", 3), ("0.5", 0.5), ("-1", 0), ("soon", None), ("", None), ("nan", None), ("inf", 1e9), ("9" * 400, 1e9)],
)
def test_the_time_to_wait_is_read(header: str, seconds: float | None) -> None:
    assert Refusal(429, "", {"retry-after": header}).retry_after == seconds


def test_the_time_to_wait_may_be_a_date() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    assert 3_500 < (Refusal(429, "", {"retry-after": later}).retry_after or 0) <= 3_600
    assert Refusal(429, "", {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}).retry_after == 0


async def test_what_was_said_before_a_break_is_given_and_not_asked_for_again(server: ModelHandle) -> None:
    server.play(script(fault("cut_off", text="Well, I")))
    model = model_at(server)
    pieces: list[Any] = []
    with pytest.raises(ModelError, match="stopped in the middle"):
        async for piece in model.stream([{"role": "user", "content": "Hello"}]):
            pieces.append(piece)  # noqa: PERF401 - what came before the error counts
    await model.aclose()
    assert pieces == ["Well, ", "I"]
    assert len(server.requests()) == 1


async def test_an_answer_that_stops_is_not_waited_for(server: ModelHandle) -> None:
    server.play(script(say("one two", hold="never", hold_after=2)))
    error = await error_of(model_at(server, limits=ModelLimits(between=0.05)))
    assert "ModelLimits(between=...)" in str(error)


async def test_all_waiting_for_one_reply_has_an_end(server: ModelHandle) -> None:
    server.play(script(fault("endless")))
    error = await error_of(model_at(server, limits=ModelLimits(total=0.2, reply_bytes=2**60)))
    assert "ModelLimits(total=...)" in str(error)


@pytest.mark.parametrize("ends", [{"done": True}, {"finish": "stop"}])
async def test_a_connection_that_breaks_after_all_was_said_does_no_harm(server: ModelHandle, ends: JSON) -> None:
    server.play(script(fault("cut_off", text="Well.", **ends)))
    assert (await reply_of(model_at(server), "Hello")).text == "Well."


async def test_a_connection_that_stays_open_after_all_was_said_is_not_waited_for(server: ModelHandle) -> None:
    server.play(script({**say("Well."), "hold": "never", "hold_after": 3}))
    assert (await reply_of(model_at(server, limits=ModelLimits(ending=0.05)), "Hello")).text == "Well."


async def test_an_event_has_a_bound(server: ModelHandle) -> None:
    server.play(script(say(["x" * 100_000])))
    error = await error_of(model_at(server, limits=ModelLimits(event_bytes=50_000)))
    assert "more than 50,000 bytes in one event" in str(error)


async def test_tool_calls_have_a_bound(server: ModelHandle) -> None:
    server.play(script({"calls": [{"name": "add"}] * 5}))
    error = await error_of(model_at(server, limits=ModelLimits(tool_calls=4)), tools=[ADD])
    assert "more than 4 tool calls in one reply" in str(error)


async def test_a_refusal_has_a_bound(server: ModelHandle) -> None:
    server.play(script({"raw": {"status": 500, "body": "y" * 5_000_000}}))
    error = await error_of(model_at(server))
    assert len(str(error)) < 600


async def test_a_list_of_models_has_a_bound(server: ModelHandle) -> None:
    server.play(script(models=[f"model-{number}" for number in range(5_000)]))
    error = await error_of(model_at(server, model=None, limits=ModelLimits(models_bytes=50_000)))
    assert "more than 50,000 bytes in a list of models" in str(error)


async def test_a_long_list_of_models_is_not_shown_whole(server: ModelHandle) -> None:
    server.play(script(models=[f"model-{number}" for number in range(100)]))
    assert "model-19 and 80 more" in str(await error_of(model_at(server)))


async def test_a_server_that_moved_is_not_followed(server: ModelHandle) -> None:
    server.play(script({"raw": {"status": 307, "headers": {"location": f"{server.url}/elsewhere"}}}))
    assert isinstance(await error_of(model_at(server, api_key=KEY)), ModelUnreachableError)
    assert len(server.all_requests()) == 1


@pytest.mark.parametrize("body", ["{", "[]", "null", "3", '{"data": 3}', "<html>", "", "[" * 100_000])
async def test_a_list_of_models_that_is_none_is_told(server: ModelHandle, body: str) -> None:
    server.play(script(list=body))
    error = await error_of(model_at(server, model=None))
    assert isinstance(error, ModelUnreachableError)
    assert "its /models is no list of models" in str(error)


async def test_an_address_without_the_protocol_is_told(server: ModelHandle) -> None:
    error = await error_of(model_at(server, model=None, base_url=f"{server.url}/wrong"))
    assert isinstance(error, ModelUnreachableError)
    assert "there is no /models (status 404)" in str(error)


@pytest.mark.parametrize("body", ["{", "[]", "[" * 100_000, "null", '{"error": "no"}', ": ping\n\n", "", "data: 3\n\n"])
async def test_whatever_is_sent_instead_of_an_answer_is_told(server: ModelHandle, body: str) -> None:
    server.play(script({"raw": {"body": body}}))
    assert type(await error_of(model_at(server))) in (ModelError, ModelUnreachableError)


@every_dialect
async def test_a_key_that_the_server_repeats_is_not_shown(server: ModelHandle, dialect: str) -> None:
    server.play(script({"raw": {"status": 500, "body": f"trouble with {KEY} and Bearer {KEY}"}}, dialect=dialect))
    text = str(await error_of(model_at(server, api_key=KEY)))
    assert KEY not in text
    assert "trouble with ***" in text


async def test_user_and_password_of_the_address_are_not_shown(server: ModelHandle) -> None:
    server.play(script(fault("server_error")))
    url = server.base_url.replace("http://", "http://user:hunter22@")
    assert "hunter22" not in str(await error_of(model_at(server, base_url=url)))


async def test_a_failure_does_no_harm_to_other_chats(server: ModelHandle) -> None:
    server.play(
        script(
            rules=[
                {"when": "good", "replies": [say("one two", hold="gate", hold_after=2)]},
                {"when": "bad", "replies": [fault("html")]},
            ]
        )
    )
    model = model_at(server, model=None)
    answers: list[str] = []

    async def good() -> None:
        answers.append((await collected(model, "good"))[1].text)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(good)
        await server.until(server.wait_held, "gate")
        with pytest.raises(ModelUnreachableError):
            await collected(model, "bad")
        server.release("gate")
    await model.aclose()
    assert answers == ["one two"]


@pytest.mark.parametrize(
    ("event", "status"),
    [
        ({"error": {"message": "no", "code": 429}}, 429),
        ({"error": {"message": "no", "code": "503"}}, 503),
        ({"error": {"message": "no", "code": "rate_limit"}}, 0),
        ({"error": "no"}, 0),
        ({"object": "error", "message": "no", "code": 400}, 400),
        ({"detail": "Not Found"}, 0),
    ],
)
def test_an_error_in_a_stream_is_known_in_every_shape(event: JSON, status: int) -> None:
    refusal = error_in(event)
    assert refusal is not None
    assert (refusal.status, refusal.message) == (status, "Not Found" if "detail" in event else "no")


@pytest.mark.parametrize("event", [{"choices": [], "error": None}, {"choices": []}, {}, None, []])
def test_what_is_no_error_is_none(event: Any) -> None:
    assert error_in(event) is None


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "zstd"])
@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_that_little_could_make_huge_is_not_unpacked(
    server: ModelHandle, encoding: str, status: int
) -> None:
    server.play(script({"raw": {"status": status, "headers": {"content-encoding": encoding}, "body": "x"}}))
    error = await error_of(model_at(server))
    assert f"its answer is encoded as '{encoding}', though none was asked for" in str(error)


def test_a_socks_proxy_is_told_in_a_sentence_and_no_proxy_knows_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://me:hunter22@127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8")
    with pytest.raises(ModelError, match="ALL_PROXY names a SOCKS proxy") as caught:
        Wire(Place("https://models.example.com/v1"), ModelLimits())
    assert "hunter22" not in str(caught.value)
    Wire(Place("http://10.1.2.3:8000/v1"), ModelLimits())
