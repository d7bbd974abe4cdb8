"""What comes from an editor and is no message, or one that makes no sense; and the end of input."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest

from gaia.agents.base import get_request_context
from gaia_bridge.bridge import Bridge
from gaia_bridge.settings import AcpLimits, Settings
from gaia_bridge.text.json_types import JSON
from tests.support.fake_model import call, made, say
from tests.support.on_demand import acp_serving
from tests.support.waiting import PATIENCE, wait_in_thread

pytestmark = pytest.mark.anyio

SETTINGS = Settings(acp=AcpLimits(line_bytes=10_000))


class Lines:
    """An editor that writes what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, *lines: Any) -> None:
        """Each as a line: text as it is, all else as JSON."""
        for line in lines:
            text = line if isinstance(line, bytes) else json.dumps(line).encode()
            self._writer.write(text + b"\n")
        await self._writer.drain()

    async def receive(self) -> JSON:
        """The next line."""
        with anyio.fail_after(PATIENCE):
            line = await self._reader.readline()
        message: JSON = json.loads(line)
        return message

    async def answer(self, line: Any) -> JSON:
        """The answer to a line."""
        await self.send(line)
        return await self.receive()

    async def close(self) -> list[JSON]:
        """End the input; what is said until the agent closes its own."""
        self._writer.write_eof()
        with anyio.fail_after(PATIENCE):
            rest = await self._reader.read()
        return [json.loads(line) for line in rest.splitlines()]


@asynccontextmanager
async def lines(agent: Any, settings: Settings = SETTINGS) -> AsyncGenerator[Lines]:
    """An editor with an agent of this process; afterwards the agent serves it no more."""
    ours, theirs = socket.socketpair()
    reader, our_writer = await asyncio.open_connection(sock=ours)
    their_reader, writer = await asyncio.open_connection(sock=theirs)

    async def write(line: bytes) -> bool:
        if our_writer.is_closing():
            return False
        our_writer.write(line)
        await our_writer.drain()
        return True

    async def serve() -> None:
        await acp_serving.serve_editor(bridge, reader, write)
        our_writer.close()

    async with Bridge(agent, settings=settings) as bridge, anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        try:
            yield Lines(their_reader, writer)
        finally:
            writer.close()


def request(method: str, params: Any = None, number: Any = 1) -> JSON:
    """A request; without `params` if there are none."""
    message: JSON = {"jsonrpc": "2.0", "id": number, "method": method}
    return message if params is None else {**message, "params": params}


async def test_what_is_no_message_is_answered_and_the_rest_goes_on(nothing_left: None) -> None:
    agent, _ = made()
    async with lines(agent) as editor:
        cases: tuple[tuple[Any, int, str], ...] = (
            (b"nonsense", -32700, "not JSON"),
            (b"\xff", -32700, "not JSON"),
            (b"[]", -32600, "A batch came; expected one message in each line"),
            (b"1", -32600, ""),
            ({"id": 1, "method": "initialize"}, -32600, ""),
            ({"jsonrpc": "2.0", "id": [], "method": "initialize"}, -32600, "The id of a request"),
            ({"jsonrpc": "2.0", "id": 1, "method": 5}, -32600, "The method of a request must be a string"),
            ({"jsonrpc": "2.0", "id": 1, "method": "x", "params": [1]}, -32600, "must be an object"),
            ({"jsonrpc": "2.0", "id": {}, "result": {}}, -32600, "The id of a response"),
            (b'{"jsonrpc": "2.0", "id": 7, "method": "' + b"x" * 20_000 + b'"}', -32600, "is longer than this server"),
            (request("nothing"), -32601, "Method not found"),
            (request("session/cancel", {"sessionId": "x"}), -32601, "Method not found"),
        )
        for line, code, said in cases:
            error = (await editor.answer(line))["error"]
            assert error["code"] == code
            assert said in error["message"]
        told = await editor.answer(request("initialize", {"protocolVersion": 1}))
        assert told["result"]["protocolVersion"] == 1


async def test_parameters_that_make_no_sense_are_refused_in_one_line(nothing_left: None) -> None:
    agent, _ = made()
    async with lines(agent) as editor:
        cases: tuple[tuple[str, Any, str], ...] = (
            ("initialize", None, "protocolVersion: Field required"),
            ("initialize", {"protocolVersion": -1}, "protocolVersion: "),
            ("session/new", {"mcpServers": []}, "cwd: Field required; got"),
            ("session/new", {"cwd": "work", "mcpServers": []}, "cwd: 'work' came; expected an absolute path"),
            (
                "session/new",
                {"cwd": "/", "mcpServers": [{"name": "x"}]},
                "mcpServers: 1 of 1 cannot be read; expected each with name, command, args, env",
            ),
            (
                "session/new",
                {"cwd": "/", "mcpServers": [], "additionalDirectories": ["x"]},
                "additionalDirectories[0]: 'x' came; expected an absolute path",
            ),
            ("session/prompt", {"sessionId": "x", "prompt": []}, "sessionId: 'x' came; expected one that session/new"),
            ("session/prompt", {"sessionId": 5, "prompt": "x"}, "sessionId: Input should be a valid string; got 5"),
        )
        for method, params, said in cases:
            error = (await editor.answer(request(method, params)))["error"]
            assert error["code"] == -32602
            assert said in error["message"]
            assert "\n" not in error["message"]
            assert "pydantic" not in error["message"]


async def test_notifications_that_make_no_sense_are_ignored(nothing_left: None) -> None:
    agent, _ = made()
    async with lines(agent) as editor:
        for method, params in (
            ("session/cancel", {"sessionId": "x"}),
            ("session/cancel", {}),
            ("_other", {}),
            ("x", {}),
        ):
            await editor.send({"jsonrpc": "2.0", "method": method, "params": params})
        await editor.send({"jsonrpc": "2.0", "id": 99, "result": {}})
        assert "result" in await editor.answer(request("initialize", {"protocolVersion": 1}))


async def test_a_prompt_of_nothing_is_refused() -> None:
    agent, _ = made(say("Hello."))
    async with lines(agent) as editor:
        session = (await editor.answer(request("session/new", {"cwd": "/", "mcpServers": []})))["result"]["sessionId"]
        prompt = partial(request, "session/prompt")
        audio = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
        for blocks, said in (
            ([], "prompt: nothing came; expected a text, a file or a link"),
            ([{"type": "text", "text": ""}], "prompt: nothing came"),
            ([audio], "prompt[0].type: 'audio' came; expected one of text, resource_link, resource"),
        ):
            error = (await editor.answer(prompt({"sessionId": session, "prompt": blocks})))["error"]
            assert said in error["message"]
        hello = [{"type": "text", "text": "Hello"}]
        answers = [await editor.answer(prompt({"sessionId": session, "prompt": hello}))]
        while "result" not in answers[-1]:
            answers.append(await editor.receive())
        assert answers[-1]["result"]["stopReason"] == "end_turn"
    agent.close()


async def test_an_answer_to_a_question_that_is_no_answer_ends_the_question() -> None:
    def go_on() -> str:
        """Ask."""
        return str(get_request_context().elicit("Go on?", {"go": {"type": "boolean"}}).content)

    for answer in ({"result": None}, {"error": {"code": -32000, "message": "no"}}, {"result": {"outcome": 5}}, {}):
        agent, model = made(call("go_on"), say("Done."), tools=[go_on])
        async with lines(agent) as editor:
            made_session = await editor.answer(request("session/new", {"cwd": "/", "mcpServers": []}))
            session = made_session["result"]["sessionId"]
            prompt = [{"type": "text", "text": "go"}]
            message = await editor.answer(request("session/prompt", {"sessionId": session, "prompt": prompt}))
            while message.get("id") != 1:
                if message.get("method") == "session/request_permission":
                    await editor.send({"jsonrpc": "2.0", "id": message["id"], **answer})
                message = await editor.receive()
            assert message["result"]["stopReason"] == "end_turn"
        assert "the editor" in str(model.asked[1].results()[0])
        agent.close()


async def test_an_empty_result_is_null_as_the_protocol_has_it() -> None:
    def write() -> str:
        """Write a file of the editor."""
        editor = get_request_context().editor
        assert editor is not None
        editor.write_text_file("/a", "x")
        return "written"

    agent, model = made(call("write"), say("Done."), tools=[write])
    async with lines(agent) as editor:
        able = {"fs": {"writeTextFile": True}}
        await editor.answer(request("initialize", {"protocolVersion": 1, "clientCapabilities": able}))
        begun = await editor.answer(request("session/new", {"cwd": "/", "mcpServers": []}))
        prompt = {"sessionId": begun["result"]["sessionId"], "prompt": [{"type": "text", "text": "go"}]}
        message = await editor.answer(request("session/prompt", prompt))
        while message.get("id") != 1 or "method" in message:
            if message.get("method") == "fs/write_text_file":
                await editor.send({"jsonrpc": "2.0", "id": message["id"], "result": None})
            message = await editor.receive()
    assert model.asked[1].results() == ["written"]
    agent.close()


async def test_a_turn_that_waits_for_a_server_to_start_can_be_cancelled() -> None:
    silent = {"name": "silent", "command": sys.executable, "args": ["-S", "-c", "input(); input()"], "env": []}
    agent, model = made()
    async with lines(agent, Settings(acp=AcpLimits(starting=600))) as editor:
        begun = await editor.answer(request("session/new", {"cwd": "/", "mcpServers": [silent]}))
        of_session = {"sessionId": begun["result"]["sessionId"]}
        prompt = request("session/prompt", {**of_session, "prompt": [{"type": "text", "text": "go"}]})
        await editor.send(prompt, {"jsonrpc": "2.0", "method": "session/cancel", "params": of_session})
        assert (await editor.receive())["result"] == {"stopReason": "cancelled"}
    assert model.asked == []
    agent.close()


async def test_what_was_asked_before_the_end_of_input_is_answered(nothing_left: None) -> None:
    agent, _ = made()
    async with lines(agent) as editor:
        await editor.send(request("initialize", {"protocolVersion": 1}), request("nothing", number="b"))
        assert sorted(str(answer["id"]) for answer in await editor.close()) == ["1", "b"]


async def test_a_turn_does_not_outlive_the_editor() -> None:
    begun, ended = threading.Event(), threading.Event()

    def hang() -> str:
        """Wait until it is cancelled."""
        begun.set()
        while not get_request_context().wait_cancelled(0.01):
            pass
        ended.set()
        return "late"

    agent, _ = made(call("hang"), tools=[hang])
    async with lines(agent, Settings(stdio_grace=0.01)) as editor:
        made_session = await editor.answer(request("session/new", {"cwd": "/", "mcpServers": []}))
        session = made_session["result"]["sessionId"]
        prompt = [{"type": "text", "text": "go"}]
        await editor.send(request("session/prompt", {"sessionId": session, "prompt": prompt}))
        await wait_in_thread(begun.wait)
        await editor.close()
    await wait_in_thread(ended.wait)
    agent.close()
