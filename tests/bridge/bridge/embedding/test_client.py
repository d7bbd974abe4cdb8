"""A client of any server, in both eras, whatever is named as the target."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from gaia_bridge import (
    AgentLoadError,
    Bridge,
    Client,
    ConfigError,
    Elicited,
    HttpServerSpec,
    Progress,
    ProtocolError,
    ServerUnavailableError,
    StdioServerSpec,
    ToolError,
    completion,
    get_request_context,
    prompt,
    resource,
    tool,
)
from tests.support.on_demand import mcp_server
from tests.support.upstreams import raw_server
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.anyio

ERAS = ("legacy", "modern")
REVISIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}
SERVER = """
from gaia_bridge import tool

@tool
def add(a: int, b: int) -> int:
    "Add."
    return a + b
"""


class Desk:
    """An agent that has and asks everything."""

    def __init__(self) -> None:
        self.publisher: Any = None

    def on_mcp_published(self, publisher: Any) -> None:
        self.publisher = publisher

    def on_mcp_unpublished(self, publisher: Any) -> None:
        self.publisher = None

    @tool
    def add(self, a: int, b: int) -> int:
        """Add."""
        return a + b

    @tool
    def fail(self) -> str:
        """Fail."""
        raise ToolError("no paper left")

    @tool
    def sign(self, name: str) -> str:
        """Ask the user."""
        request = get_request_context()
        request.report_progress(1, 2, "asking")
        request.log(f"asking {name}", "warning")
        answer = request.elicit(f"Sign, {name}?", {"yes": {"type": "boolean"}})
        return f"{answer.action} {dict(answer.content)}"

    @tool
    def think(self) -> str:
        """Ask the model."""
        question = {"role": "user", "content": {"type": "text", "text": "What is it?"}}
        return str(get_request_context().sample([question], max_tokens=5)["content"]["text"])

    @tool
    def look(self) -> str:
        """Ask for roots."""
        return str([root["uri"] for root in get_request_context().list_roots()])

    @tool
    async def wait(self) -> str:
        """Wait for ever."""
        await anyio.sleep_forever()
        return ""

    @prompt
    def letter(self, to: str) -> str:
        """A letter."""
        return f"Dear {to},"

    @completion("letter", "to")
    def suggest(self, value: str) -> list[str]:
        """Names."""
        return [name for name in ("Ada", "Alan") if name.startswith(value)]

    @resource("desk://drawer")
    def drawer(self) -> str:
        """What is in it."""
        return "a pen"

    @resource("desk://drawer/{number}")
    def numbered(self, number: int) -> str:
        """What is in that one."""
        return f"drawer {number}"


@pytest.mark.parametrize("era", ERAS)
async def test_everything_that_a_server_offers_is_there_in_each_era(era: Any) -> None:
    async with Client(Desk(), era=era) as client:
        assert client.revision == REVISIONS[era]
        assert client.server_info["name"] == "GAIA Desk"
        assert {"tools", "prompts", "resources"} <= client.capabilities.keys()
        assert [item["name"] for item in await client.list_tools()][:2] == ["add", "fail"]
        assert [item["name"] for item in await client.list_prompts()] == ["letter"]
        assert [item["uri"] for item in await client.list_resources()] == ["desk://drawer"]
        assert [item["uriTemplate"] for item in await client.list_resource_templates()] == ["desk://drawer/{number}"]
        result = await client.call_tool("add", a=1, b=2)
        assert (result.text, result.structured_content, result.is_error) == ("3", {"result": 3}, False)
        assert (await client.call_tool("add", {"a": 3}, b=4)).text == "7"
        filled = await client.get_prompt("letter", to="Ada")
        assert filled["messages"][0]["content"]["text"] == "Dear Ada,"
        assert (await client.read_resource("desk://drawer"))[0]["text"] == "a pen"
        assert (await client.read_resource("desk://drawer/7"))[0]["text"] == "drawer 7"
        assert await client.complete("to", "Al", prompt="letter") == ["Alan"]
        assert await client.ping() >= 0


@pytest.mark.parametrize("era", ERAS)
async def test_questions_are_answered_by_functions_and_coroutines(era: Any) -> None:
    heard: list[Any] = []

    async def fill_in(message: str, schema: Any) -> dict[str, Any]:
        heard.append((message, list(schema["properties"])))
        return {"yes": True}

    async def told(progress: Progress) -> None:
        heard.append(progress.message)

    async with Client(
        Desk(),
        era=era,
        on_elicitation=fill_in,
        on_sampling=lambda params: params["messages"][0]["content"]["text"].upper(),
        roots=["file:///desk"],
        on_log=lambda message: heard.append(message["data"]),
    ) as client:
        await client.set_log_level("warning")
        answer = await client.call_tool("sign", {"name": "Ada"}, on_progress=told)
        assert answer.text == "accept {'yes': True}"
        assert sorted(map(str, heard)) == sorted(["('Sign, Ada?', ['yes'])", "asking", "asking Ada"])
        assert (await client.call_tool("think")).text == "WHAT IS IT?"
        assert (await client.call_tool("look")).text == "['file:///desk']"


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (True, "accept {}"),
        (False, "decline {}"),
        (None, "decline {}"),
        (Elicited("cancel"), "cancel {}"),
        (Elicited("accept", {"yes": False}), "accept {'yes': False}"),
    ],
)
async def test_a_form_is_answered_in_each_way(given: Any, answer: str) -> None:
    async with Client(Desk(), on_elicitation=lambda message, schema: given) as client:
        assert (await client.call_tool("sign", {"name": "Ada"})).text == answer


@pytest.mark.parametrize("era", ERAS)
async def test_what_nobody_answers_is_not_declared(era: Any) -> None:
    async with Client(Desk(), era=era) as client:
        for name, arguments in (("sign", {"name": "Ada"}), ("think", {}), ("look", {})):
            with pytest.raises((ToolError, ProtocolError), match="did not declare"):
                await client.call_tool(name, arguments)


@pytest.mark.parametrize("era", ERAS)
async def test_failures_are_raised_in_the_words_of_the_server(era: Any) -> None:
    async with Client(Desk(), era=era) as client:
        with pytest.raises(ToolError, match="no paper left"):
            await client.call_tool("fail")
        assert (await client.call_tool("fail", raise_on_error=False)).is_error
        with pytest.raises(ToolError, match='"b" is a required'):
            await client.call_tool("add", a=1)
        with pytest.raises(ProtocolError, match="Unknown tool: none"):
            await client.call_tool("none")
        with pytest.raises(ProtocolError, match="desk://none"):
            await client.read_resource("desk://none")
        with pytest.raises(ServerUnavailableError, match=r"server 'desk': it did not answer tools/call within 0\.05 s"):
            await client.call_tool("wait", timeout=0.05)
        with pytest.raises(TypeError, match="prompt= or template="):
            await client.complete("to")


@pytest.mark.parametrize("era", ERAS)
async def test_changes_are_told(era: Any) -> None:
    heard: list[Any] = []
    changed = anyio.Event()

    def hear(method: str, params: Any) -> None:
        heard.append((method, params.get("uri")))
        changed.set()

    desk: Any = Desk()
    async with Client(desk, era=era, on_change=hear) as client:
        await client.subscribe("desk://drawer")
        desk.publisher.resource_updated("desk://drawer")
        with anyio.fail_after(PATIENCE):
            await changed.wait()
        assert heard == [("notifications/resources/updated", "desk://drawer")]
        await client.unsubscribe("desk://drawer")


@pytest.mark.parametrize("era", [*ERAS, None])
async def test_a_bridge_of_three_sources_is_a_target(era: Any, tmp_path: Path) -> None:
    """An agent, a program and a server object of the SDK."""
    (tmp_path / "sums.py").write_text(SERVER)
    server: Any = mcp_server.MCPServer("times")

    def multiply(a: int, b: int) -> int:
        return a * b

    server.tool()(multiply)

    command = [sys.executable, "-m", "gaia_bridge", "serve", "--stdio", str(tmp_path / "sums.py")]
    bridge = Bridge(Desk(), server, servers={"program": command})
    async with bridge, Client(bridge, era=era) as client:
        assert client.server_info["name"] == "gaia-mcp-bridge"
        found = {item["name"] for item in await client.list_tools()}
        assert {"add", "times__multiply", "program__add"} <= found
        assert (await client.call_tool("add", a=2, b=3)).text == "5"
        assert (await client.call_tool("times__multiply", a=2, b=3)).text == "6"
        assert (await client.call_tool("program__add", a=2, b=3)).text == "5"
        async with Client(bridge, endpoint="times", era=era) as alone:
            assert [item["name"] for item in await alone.list_tools()] == ["multiply"]
        with pytest.raises(ServerUnavailableError, match="nothing is published under that name"):
            await Client(bridge, endpoint="gone").__aenter__()
        assert bridge.is_open
    assert not bridge.is_open


async def test_a_program_that_ends_says_why_in_the_exception() -> None:
    code = "import sys; print('reading settings', file=sys.stderr); sys.exit('no database at /srv')"
    with pytest.raises(ServerUnavailableError) as failure:
        await Client([sys.executable, "-c", code]).__aenter__()
    assert failure.value.problem == (
        "it exited with code 1 before it completed the handshake; its last lines of error output:"
        "\n  reading settings\n  no database at /srv"
    )


async def test_a_bridge_that_is_not_open_is_opened_for_the_client_again_and_again() -> None:
    bridge = Bridge(Desk())
    for _ in range(2):
        async with Client(bridge) as client:
            assert bridge.is_open
            assert (await client.call_tool("add", a=1, b=1)).text == "2"
        assert not bridge.is_open


async def test_files_commands_addresses_and_entries_are_targets(tmp_path: Path) -> None:
    file = tmp_path / "sums.py"
    file.write_text(SERVER)
    command = [sys.executable, "-m", "gaia_bridge", "serve", "--stdio", str(file)]
    targets: list[Any] = [file, str(file), command, StdioServerSpec("sums", command[0], tuple(command[1:]))]
    for target in targets:
        async with Client(target) as client:
            assert (await client.call_tool("add", a=2, b=2)).text == "4"
    async with Bridge(Desk()) as bridge, anyio.create_task_group() as tasks:
        [url] = await tasks.start(bridge.serve_http, "127.0.0.1", 0)
        for target in (f"{url}/mcp", HttpServerSpec("desk", f"{url}/sse", sse=True)):
            async with Client(target) as client:
                assert (await client.call_tool("add", a=2, b=2)).text == "4"
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("target", "kind", "words"),
    [
        ("", ConfigError, "the command is empty"),
        ("'open", ConfigError, "quot"),
        ("no-such-program-here", ServerUnavailableError, "server 'no-such-program-here': it cannot be started"),
        ("http://127.0.0.1:9/mcp", ServerUnavailableError, "Connection refused"),
        (Desk, TypeError, r"write Desk\(\)"),
        (5, TypeError, "expected a URL, a command"),
        (Path("/no/such/file.py"), AgentLoadError, "there is no file"),
    ],
)
async def test_what_is_no_target_is_refused_with_what_to_write(target: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        await Client(target).__aenter__()


async def test_a_file_of_several_agents_names_them(tmp_path: Path) -> None:
    file = tmp_path / "two.py"
    two = "".join(f"class {name}:\n    @tool\n    def run(self) -> str: return '{name}'\n" for name in ("One", "Two"))
    file.write_text(f"from gaia_bridge import tool\n{two}")
    with pytest.raises(AgentLoadError, match="two.py:One, .*two.py:Two"):
        await Client(file).__aenter__()


async def test_wrong_uses_say_what_is_right() -> None:
    with pytest.raises(ValueError, match="'legacy', 'modern' or None"):
        Client(Desk(), era="old")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="part of a Bridge"):
        Client(Desk(), endpoint="desk")
    client = Client(Desk())
    with pytest.raises(RuntimeError, match="not open"):
        await client.list_tools()
    async with client:
        with pytest.raises(RuntimeError, match="open already"):
            await client.__aenter__()
        for use in (client.call_tool, client.get_prompt):
            with pytest.raises(TypeError, match="expected a mapping, got 'tea'; give each by its name"):
                await use("stamp", "tea")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="headers: only for a URL or a command"):
        await Client(Desk(), headers={"a": "b"}).__aenter__()


async def test_arguments_that_are_nested_deeply_or_no_json_are_passed_on_or_refused_in_words() -> None:
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    async with Client(Bridge(Desk())) as client:
        with pytest.raises(ToolError, match="do not fit the input schema"):
            await client.call_tool("add", {"a": deep, "b": 1})
        with pytest.raises(ServerUnavailableError, match="a value that JSON does not have"):
            await client.call_tool("add", {"a": float("nan"), "b": 1})


async def test_what_the_program_raises_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with Client(Bridge(Desk())):
            raise KeyError("mine")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("target", ["an agent", "a server"])
def test_a_forked_process_that_exits_inside_the_client_ends_and_leaves_the_server_alone(
    target: str, tmp_path: Path
) -> None:
    spec = raw_server()
    named = "add" if target == "an agent" else f'StdioServerSpec("up", {spec.command!r}, {spec.args!r})'
    program = tmp_path / "program.py"
    program.write_text(
        SERVER
        + f"""
import asyncio, os, selectors, sys, warnings
from gaia_bridge import Client, StdioServerSpec

warnings.simplefilter("ignore", DeprecationWarning)

async def main():
    async with Client({named}) as client:
        await client.list_tools()
        child = os.fork()
        if child == 0:
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(len(await client.list_tools()) > 0, flush=True)

def loop():  # both would share an epoll, out of which a fork that exits takes all files: the parent would wait for ever
    return asyncio.SelectorEventLoop(selectors.PollSelector())

with asyncio.Runner(loop_factory=loop) as runner:
    runner.run(main())
""",
        "utf-8",
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.split() == ["3", "True"], done.stderr
