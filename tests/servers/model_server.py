"""A model server without a model: it speaks OpenAI's protocol, in the dialect of a known server, and plays a script.

    python -m tests.servers.model_server < script.json

It prints its URL as a line, and ends when its standard input does. `tests/support/scripted_model.py` starts it and
writes scripts; this is what they mean. A script is one JSON object, and everything in it may be left out:

    {"dialect": "openai",            who it behaves like: see `model_dialects`
     "quirks": {"indexes": "zero"},  fields of the dialect that are different
     "models": ["scripted"],         the list of models; an item may be an object. Requests for another are refused
     "list": "{",                    this text instead of the list of models
     "api_key": "...",               what clients have to show
     "refuses": ["stream_options"],  also `streaming`, `streaming_tools`, `tools`: answered with status 400
     "context": 100000,              prompt tokens, beyond which a request is refused
     "record": true,                 keep the requests for `/control/requests`
     "order": "conversation",        or "requests": what "in order" means for the replies below
     "replies": [REPLY, ...],        played in order
     "rules": [{"when": "add (\\d+) and (\\d+)", "on": "user", "loop": false, "replies": [REPLY, ...]}, ...]}

**Replies in order.** `conversation`: the reply's number is the count of assistant messages in the request, so every
conversation plays the whole list, however many run at once. `requests`: each request takes the next.

**Rules** come first, and the first that matches wins. `on` says what `when`, a regular expression, is searched in:
`user` is the last message of the user, and its replies are played in order until the turn is over (the number is the
count of assistant messages since); `tool` is a tool result that is the last message, answered with the first reply.
With `loop`, the replies begin again after the last.

**A reply** says or does one thing:

    {"text": "It is $result."}                                   text, in one chunk per word
    {"text": ["It ", "is"]}                                      these chunks
    {"calls": [{"name": "add", "arguments": {"a": "$1"}}, ...]}  tool calls, after `text` if there is any
    {"calls": [{"name": "add", "arguments": "{\\"a\\": $1"}]}    arguments as text, here malformed
    {"fault": "rate_limited", "times": 2, "retry_after": 0}      a failure: see `FAULTS`. The reply after it is played
                                                                 when the client tries again
    {"events": [{...}, "text"], "done": true}                    these events, as they are
    {"raw": {"status": 200, "headers": {}, "body": ""}}          this answer, as it is

and beside any of these: `finish` (the finish reason; null for no finishing chunk), `usage` (figures, or null for none),
`reasoning`, `piece` (characters of a tool call's arguments per chunk), `stream` (false: a whole JSON answer, also to
who asked for a stream), `done` (false: no `[DONE]`), `hold` (the name of a gate: nothing is sent until it is released;
with `hold_after`, after so many events).

In texts, names and arguments, `$1` and `$name` are the groups of the rule's match, `$0` all of it, `$user` the last
message of the user, `$result` the last message, `$results` all tool results since the model spoke, one a line.

**Control**, under `/control/`: `PUT script` (begins anew), `GET requests`, `GET state`, `POST release {"gate"}`,
`POST wait {"what": "requests" | "held" | "ended", "count", "gate", "outcome"}`, which answers once that many are.

Usage figures are a fixed function of the texts: see `model_script.prompt_tokens`. As the strictest of the servers do,
it refuses conversations in which tool calls and their results do not belong together.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import socket
import sys
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gaia_bridge.text.json_types import JSON, is_array, is_object
from tests.servers.model_dialects import DIALECTS, Dialect, Failure
from tests.servers.model_script import Player, ScriptError, count_tokens, filled, prompt_tokens

__all__ = ["FAULTS", "ModelServer"]

FAULTS = (
    "unauthorized",
    "forbidden",
    "unknown_model",
    "rate_limited",
    "quota",
    "context_overflow",
    "server_error",
    "loading",
    "bad_request",
    "no_route",
    "error_in_stream",  # after `text`, an error object in a stream that began well
    "cut_off",  # after `text`, the connection breaks
    "ended_early",  # after `text`, the stream ends without a word
    "html",  # a web page with status 200
    "bad_gateway",  # a web page with status 502
    "garbage",  # status 200 and an event that is no JSON
    "endless",  # text that does not end
)
"""What a reply's `fault` may be. The dialect says how the first ten look."""

WAIT = 10.0
"""Seconds after which `/control/wait` gives up."""

PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Please sign in to the network.</body></html>"


@dataclass(slots=True)
class Exchange:
    """One request, as it is recorded."""

    number: int
    client: str
    """The connection: the port at the other end."""
    method: str
    path: str
    headers: dict[str, str]
    body: JSON
    outcome: str = "answering"
    """Then `finished`, or `disconnected` where the client went away first."""
    status: int = 0

    def as_json(self) -> JSON:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class Gate:
    """Where answers wait."""

    opened: asyncio.Event = field(default_factory=asyncio.Event)
    held: int = 0


class ModelServer:
    """The server as an ASGI application.

    Args:
        script: See the module.
    """

    def __init__(self, script: JSON) -> None:
        self._changed = asyncio.Condition()
        self._begin(script)
        self.app = Starlette(
            routes=[
                Route("/control/script", self._put_script, methods=["PUT"]),
                Route("/control/requests", self._get_requests),
                Route("/control/state", self._get_state),
                Route("/control/release", self._release, methods=["POST"]),
                Route("/control/wait", self._wait, methods=["POST"]),
                Route("/{path:path}", _Answering(self)),
            ]
        )

    def _begin(self, script: JSON) -> None:
        self.script = script
        dialect = DIALECTS[script.get("dialect", "openai")]
        self.dialect: Dialect = replace(dialect, **script.get("quirks", {}))
        self.player = Player(script)
        self.requests: list[Exchange] = []
        self.counts: Counter[str] = Counter()
        self.gates: dict[str, Gate] = {}
        self.problems: list[str] = []
        self.peak = 0
        self.models = [
            {"object": "model", **self.dialect.model, **(item if is_object(item) else {"id": item})}
            for item in script.get("models", ["scripted"])
        ]

    # Control

    async def _put_script(self, request: Request) -> Response:
        for gate in self.gates.values():
            gate.opened.set()
        self._begin(await request.json())
        return JSONResponse({})

    async def _get_requests(self, request: Request) -> Response:
        return JSONResponse([exchange.as_json() for exchange in self.requests])

    async def _get_state(self, request: Request) -> Response:
        return JSONResponse(
            {
                "counts": self.counts,
                "held": {name: gate.held for name, gate in self.gates.items()},
                "peak": self.peak,
                "problems": self.problems,
            }
        )

    async def _release(self, request: Request) -> Response:
        self._gate((await request.json())["gate"]).opened.set()
        return JSONResponse({})

    async def _wait(self, request: Request) -> Response:
        wanted: JSON = await request.json()

        count: int = wanted.get("count", 1)

        def come() -> bool:
            if wanted["what"] == "held":
                return self._gate(wanted["gate"]).held >= count
            return self.counts[str(wanted.get("outcome", wanted["what"]))] >= count

        try:
            async with asyncio.timeout(WAIT), self._changed:
                await self._changed.wait_for(come)
        except TimeoutError:
            return JSONResponse({"error": f"waited {WAIT:g} s for {wanted}; counts are {dict(self.counts)}"}, 408)
        return JSONResponse({})

    def _gate(self, name: str) -> Gate:
        return self.gates.setdefault(name, Gate())

    # What `_Answering` uses

    async def count(self, what: str) -> None:
        """One more request, held answer or end; wakes those who wait for it."""
        self.counts[what] += 1
        async with self._changed:
            self._changed.notify_all()

    async def hold(self, name: str) -> None:
        """Wait at a gate."""
        gate = self._gate(name)
        gate.held += 1
        async with self._changed:
            self._changed.notify_all()
        try:
            await gate.opened.wait()
        finally:
            gate.held -= 1


class _Answering:
    """Answers the paths of the protocol; ends the moment the client goes away."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        server, request = self._server, Request(scope, receive)
        text = (await request.body()).decode("utf-8", "replace")
        try:
            body: JSON = json.loads(text) if text else {}
        except ValueError:
            body = {"unreadable": text}
        server.counts["in flight"] += 1
        server.peak = max(server.peak, server.counts["in flight"])
        number = server.counts["requests"]
        client = str(request.client.port if request.client else "")
        exchange = Exchange(number, client, request.method, request.url.path, dict(request.headers), body)
        if server.script.get("record", True):
            server.requests.append(exchange)
        await server.count("requests")
        work = asyncio.create_task(self._work(exchange, send))
        gone = asyncio.create_task(_disconnected(receive))
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        exchange.outcome = "finished" if work.done() else "disconnected"
        for task in (work, gone):
            task.cancel()
        server.counts["in flight"] -= 1
        await server.count(exchange.outcome)
        await server.count("ended")
        with contextlib.suppress(asyncio.CancelledError):
            await work  # a broken connection is an exception, which makes uvicorn break it

    async def _work(self, exchange: Exchange, send: Send) -> None:
        server = self._server
        dialect = server.dialect
        key = server.script.get("api_key")
        shown = exchange.headers.get("authorization", "").removeprefix("Bearer ")
        answer = _Answer(server, exchange, send)
        if key and shown != key:
            await answer.fail("unauthorized")
        elif (exchange.method, exchange.path) == ("GET", f"{dialect.base_path}/models"):
            await answer.models(server.script.get("list"))
        elif (exchange.method, exchange.path) == ("POST", f"{dialect.base_path}/chat/completions"):
            await self._chat(answer, exchange.body)
        else:
            await answer.fail("no_route", path=exchange.path)

    async def _chat(self, answer: _Answer, body: JSON) -> None:
        server = self._server
        if body.get("model") not in [model["id"] for model in server.models]:
            await answer.fail("unknown_model")
        elif prompt_tokens(body) > server.script.get("context", 10**9):
            await answer.fail("context_overflow")
        elif problem := next(_problems(body, server), None):
            await answer.fail("bad_request", message=problem)
        else:
            try:
                reply = server.player.reply_to(body["messages"])
            except ScriptError as error:
                server.problems.append(str(error))
                await answer.fail("bad_request", message=f"scripted model server: {error}")
            else:
                await answer.play(reply)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _problems(body: JSON, server: ModelServer) -> Iterator[str]:
    """Why a request is refused."""
    refused = server.script.get("refuses", ())
    if "stream_options" in refused and "stream_options" in body:
        yield "Unrecognized request argument supplied: stream_options"
    if "streaming" in refused and body.get("stream"):
        yield "streaming is not supported"
    if "tools" in refused and body.get("tools"):
        yield f"registry.ollama.ai/library/{body['model']} does not support tools"
    if "streaming_tools" in refused and body.get("stream") and body.get("tools"):
        yield "Cannot use tools with stream"  # what llama.cpp said before it could
    yield from _tool_problems(body.get("tools") or [], server.dialect)
    yield from _message_problems(body.get("messages") or [], server.dialect)


def _tool_problems(tools: Sequence[JSON], dialect: Dialect) -> Iterator[str]:
    if dialect.max_tools and len(tools) > dialect.max_tools:
        yield f"Invalid 'tools': array too long. Expected an array with maximum length {dialect.max_tools}."
    for number, tool in enumerate(tools):
        if not re.fullmatch("[a-zA-Z0-9_-]{1,64}", tool.get("function", {}).get("name", "")):
            yield f"Invalid 'tools[{number}].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'."


def _message_problems(messages: Sequence[JSON], dialect: Dialect) -> Iterator[str]:
    if not messages:
        yield "Invalid 'messages': empty array."
    open_calls: set[str] = set()
    for number, message in enumerate(messages):
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in open_calls:
                yield f"messages[{number}] with role 'tool' must respond to a preceding message with 'tool_calls'."
            open_calls.discard(message.get("tool_call_id", ""))
            continue
        if open_calls:
            yield f"An assistant message with 'tool_calls' must be followed by tool messages: {sorted(open_calls)}"
        calls: list[JSON] = message.get("tool_calls") or []
        open_calls = {call["id"] for call in calls}
        if len(open_calls) < len(calls):
            yield f"messages[{number}] has duplicate ids of tool calls."
        for call in calls:
            if dialect.reads_history and not _is_json_object(call["function"]["arguments"]):
                yield "invalid tool call arguments"
    if open_calls:
        yield f"An assistant message with 'tool_calls' must be followed by tool messages: {sorted(open_calls)}"


def _is_json_object(text: Any) -> bool:
    try:
        return is_object(json.loads(text))
    except (ValueError, TypeError):
        return False


class _Answer:
    """Says one thing to one client."""

    WEB_PAGES: ClassVar[Mapping[str, int]] = {"html": 200, "bad_gateway": 502}

    def __init__(self, server: ModelServer, exchange: Exchange, send: Send) -> None:
        self._server = server
        self._dialect = server.dialect
        self._exchange = exchange
        self._body = exchange.body
        self._send = send
        seed = json.dumps([exchange.body.get("messages"), exchange.number])
        self._seed = hashlib.sha256(seed.encode()).hexdigest()
        self._held_after: int | None = None
        self._gate = ""
        self._events = 0

    async def play(self, reply: JSON) -> None:
        """The reply."""
        self._gate = reply.get("hold", "")
        self._held_after = reply.get("hold_after", 0) if self._gate else None
        fault: str = reply.get("fault", "")
        if self._held_after == 0:
            await self._server.hold(self._gate)
        if raw := reply.get("raw"):
            await self._bytes(raw.get("status", 200), raw.get("body", "").encode(), raw.get("headers", {}))
        elif fault in self.WEB_PAGES:
            await self._bytes(self.WEB_PAGES[fault], PAGE, {"content-type": "text/html; charset=utf-8"})
        elif fault in ("error_in_stream", "cut_off", "ended_early", "garbage", "endless"):
            await self._broken_stream(fault, reply)
        elif fault:
            headers = {"retry-after": str(reply["retry_after"])} if "retry_after" in reply else {}
            await self.fail(fault, headers, message=reply.get("message", ""))
        elif "events" in reply:
            await self._stream(_each(reply["events"]), done=reply.get("done", True))
        elif self._body.get("stream") and reply.get("stream", True):
            await self._stream(_each(self._chunks(reply)), done=reply.get("done", True))
        else:
            await self.whole(200, self._whole_answer(reply))

    async def models(self, instead: str | None) -> None:
        """The list of models, or something else."""
        if instead is not None:
            await self._bytes(200, instead.encode(), {"content-type": "application/json"})
        else:
            await self.whole(200, {"object": "list", "data": self._server.models, **self._dialect.list_beside})

    async def fail(self, name: str, headers: Mapping[str, str] | None = None, **values: str) -> None:
        """Say no, in the dialect's words."""
        failure: Failure = self._dialect.failure(name)
        known = {
            "model": str(self._body.get("model")),
            "key": self._exchange.headers.get("authorization", "").removeprefix("Bearer "),
            "models": "\n".join(model["id"] for model in self._server.models),
            "tokens": str(prompt_tokens(self._body)),
            "limit": str(self._server.script.get("context", 4096)),
            **values,
        }
        body: JSON = filled(failure.body, known)
        if failure.in_stream and self._body.get("stream"):
            await self._stream(_each([body]), event=failure.event, done=False)
        else:
            await self.whole(failure.status, body, headers)

    async def whole(self, status: int, body: JSON, headers: Mapping[str, str] | None = None) -> None:
        """A whole JSON answer."""
        await self._bytes(status, json.dumps(body).encode(), {"content-type": "application/json", **(headers or {})})

    async def _bytes(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        await self._head(status, headers)
        await self._send({"type": "http.response.body", "body": body})

    async def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self._exchange.status = status
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def _stream(self, events: AsyncGenerator[Any], *, event: str = "", done: bool, end: bool = True) -> None:
        await self._head(200, {"content-type": "text/event-stream; charset=utf-8"})
        async for item in events:
            if self._held_after and self._events == self._held_after:
                await self._server.hold(self._gate)
            self._events += 1
            data = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
            name = f"event: {event}\n" if event else ""
            await self._send(
                {
                    "type": "http.response.body",
                    "body": f"{name}data: {data}\n\n".encode("utf-8", "replace"),
                    "more_body": True,
                }
            )
        tail = b"data: [DONE]\n\n" if done else b""
        await self._send({"type": "http.response.body", "body": tail, "more_body": not end})

    async def _broken_stream(self, fault: str, reply: JSON) -> None:
        begun = list(self._chunks({"finish": None, "usage": None, **reply}))
        if fault == "error_in_stream":
            error = {"message": reply.get("message") or "something broke in the middle", "type": "server_error"}
            await self._stream(_each([*begun, {"error": error}]), done=False)
        elif fault == "garbage":
            await self._stream(_each([*begun, '{"choices": [{"delta": {"con']), done=False)
        elif fault == "endless":
            await self._stream(_endless(self._chunk({"content": "and so on " * 100})), done=False)
        else:
            await self._stream(_each(begun), done=reply.get("done", False), end=fault == "ended_early")
            if fault == "cut_off":
                raise ConnectionAbortedError

    # Answers in OpenAI's shape

    def _chunks(self, reply: JSON) -> Iterator[JSON]:
        dialect = self._dialect
        calls = self._calls(reply)
        if not (calls and reply.get("text") is None):
            yield self._chunk({"role": "assistant", "content": dialect.opening_content})
        else:
            yield self._chunk({"role": "assistant", "content": None})
        if reasoning := reply.get("reasoning"):
            yield self._chunk({dialect.reasoning: reasoning})
        for piece in _pieces(reply.get("text")):
            yield self._chunk({"content": piece})
        for number, call in enumerate(calls):
            for delta in self._call_deltas(number, call, reply.get("piece", 5)):
                yield self._chunk({"tool_calls": [delta]})
        if finish := reply.get("finish", dialect.call_finish if calls else "stop"):
            yield self._chunk({}, finish)
        options: JSON = self._body.get("stream_options") or {}
        asked = options.get("include_usage", False)
        if reply.get("usage", True) and (dialect.usage == "always" or (dialect.usage == "asked" and asked)):
            yield {**self._chunk({}), "choices": [], "usage": self._usage(reply, calls)}

    def _chunk(self, delta: JSON, finish: str | None = None) -> JSON:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**self._envelope("chat.completion.chunk"), "choices": [choice], **self._dialect.extra}

    def _envelope(self, kind: str) -> JSON:
        return {
            "id": f"chatcmpl-{self._seed[:29]}",
            "object": kind,
            "created": 1_700_000_000,
            "model": self._body.get("model"),
        }

    def _calls(self, reply: JSON) -> list[JSON]:
        """Tool calls, complete."""
        found: list[JSON] = []
        for number, call in enumerate(reply.get("calls", [])):
            arguments = call.get("arguments", {})
            if self._dialect.arguments == "text" and not isinstance(arguments, str):
                arguments = json.dumps(arguments, ensure_ascii=False)
            function = {"name": call["name"], "arguments": arguments}
            found.append({"id": call.get("id", self._id(number)), "type": "function", "function": function})
        return found

    def _id(self, number: int) -> str:
        digest = hashlib.sha512(f"{self._seed} {number}".encode()).digest()
        letters = self._dialect.id_letters
        random = "".join(letters[byte % len(letters)] for byte in digest)
        return self._dialect.id_prefix + random[: self._dialect.id_length]

    def _call_deltas(self, number: int, call: JSON, piece: int) -> Iterator[JSON]:
        dialect, arguments = self._dialect, call["function"]["arguments"]
        index = {} if dialect.indexes == "missing" else {"index": number if dialect.indexes == "counted" else 0}
        if dialect.calls == "whole" or not isinstance(arguments, str):
            yield {**index, **call}
            return
        yield {**index, **call, "function": {"name": call["function"]["name"], "arguments": ""}}
        for start in range(0, len(arguments), piece):
            yield {**index, "function": {"arguments": arguments[start : start + piece]}}

    def _whole_answer(self, reply: JSON) -> JSON:
        calls = self._calls(reply)
        text = "".join(_pieces(reply.get("text")))
        message: JSON = {"role": "assistant", "content": text or (self._dialect.silent_content if calls else "")}
        if calls:
            message["tool_calls"] = calls
        if reasoning := reply.get("reasoning"):
            message[self._dialect.reasoning] = reasoning
        finish = reply.get("finish", self._dialect.call_finish if calls else "stop")
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        answer = {**self._envelope("chat.completion"), "choices": [choice], **self._dialect.extra}
        return {**answer, "usage": self._usage(reply, calls)} if reply.get("usage", True) else answer

    def _usage(self, reply: JSON, calls: Sequence[JSON]) -> JSON:
        given = reply.get("usage")
        if is_object(given):
            return given
        prompt = prompt_tokens(self._body)
        said = "".join(_pieces(reply.get("text"))) + (json.dumps(calls) if calls else "")
        completion = count_tokens(said)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _pieces(text: Any) -> list[str]:
    return text if is_array(text) else re.findall(r"\S+\s*|\s+", text or "")


async def _each(items: Iterable[Any]) -> AsyncGenerator[Any]:
    for item in items:
        yield item


async def _endless(item: Any) -> AsyncGenerator[Any]:
    while True:
        yield item
        await asyncio.sleep(0)


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


async def _main() -> None:
    script: JSON = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    config = uvicorn.Config(ModelServer(script).app, log_config=None, log_level="critical", lifespan="off")
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")  # it may be connected to from here on
    sys.stdout.flush()
    await uvicorn.Server(config).serve([listener])


if __name__ == "__main__":
    asyncio.run(_main())
