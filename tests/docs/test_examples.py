"""What the README and the guide show is what happens."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from gaia.agents.chat.tool_search import ToolSearch
from gaia.mcp.client import mcp_client
from gaia.mcp.client.server_config import ConfiguredServer
from gaia_bridge.bridge.discovery import load_agent
from gaia_bridge.config import default_servers_path
from gaia_bridge.model import StdioServerSpec
from gaia_bridge.server.known_clients import known_client, tool_limit
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.program import program
from tests.support.bridges import running_bridge
from tests.support.configured import load_servers
from tests.support.forking import forked
from tests.support.gaia_clients import FakeTransport, all_tools
from tests.support.memory_transport import in_memory
from tests.support.on_demand import mcp_context, mcp_types

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README, GUIDE, CLIENTS, TOOL_SEARCH = (
    ROOT / "README.md",
    DOCS / "guide.md",
    DOCS / "clients.md",
    DOCS / "tool-search.md",
)
ADDING, CONFIGURATION, NETWORK = DOCS / "adding-servers.md", DOCS / "configuration-file.md", DOCS / "network.md"
COMMAND_LINE, IN_PYTHON, USING_AGENTS = (
    DOCS / "command-line.md", DOCS / "servers-in-python.md", DOCS / "agents-that-use-agents.md",
)  # fmt: skip
SERVERS = [
    ADDING,
    CONFIGURATION,
    DOCS / "running-servers.md",
    NETWORK,
    DOCS / "trust.md",
    COMMAND_LINE,
    IN_PYTHON,
    USING_AGENTS,
]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def example(page: Path, word: str) -> str:
    [found] = [block for block in blocks(page, "python") if word in block]
    return found


async def call(code: str, folder: Path, tool: str, arguments: dict[str, Any]) -> Any:
    """Publish the agent of an example and call one of its tools as a client would."""
    file = folder / "example_agent.py"
    file.write_text(code, encoding="utf-8")

    async def user(
        context: mcp_context.ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult:
        return mcp_types.ElicitResult(action="accept", content={"sure": True})

    [loaded] = load_agent(str(file))
    async with running_bridge(loaded.agent) as running, running.client(elicitation_callback=user) as client:
        return await client.call_tool(tool, arguments)


@pytest.mark.anyio
async def test_the_agent_of_the_readme_greets(tmp_path: Path) -> None:
    result = await call(example(README, "HelloAgent"), tmp_path, "greet", {"name": "Ada"})
    assert result.structured_content == {"result": "Hello, Ada!"}


@pytest.mark.anyio
async def test_the_agent_of_the_guide_keeps_notes(tmp_path: Path) -> None:
    result = await call(example(GUIDE, "NotesAgent"), tmp_path, "add", {"note": {"title": "a", "lines": ["b"]}})
    assert result.structured_content == {"title": "a", "lines": ["b"]}
    result = await call(example(GUIDE, "NotesAgent"), tmp_path, "add", {"note": {"title": "a"}, "stars": 6})
    assert isinstance(result.content[0], mcp_types.TextContent) and "at /stars: got 6" in result.content[0].text
    result = await call(example(GUIDE, "NotesAgent"), tmp_path, "tidy", {})
    assert result.structured_content == {"result": 0}


@pytest.mark.anyio
async def test_the_drawing_agent_of_the_guide_returns_an_image(tmp_path: Path) -> None:
    result = await call(example(GUIDE, "DrawAgent"), tmp_path, "draw", {})
    words, picture = result.content
    assert isinstance(words, mcp_types.TextContent) and words.text == "Here it is:"
    assert isinstance(picture, mcp_types.ImageContent) and picture.mime_type == "image/gif"


@pytest.mark.anyio
async def test_the_cleaning_agent_of_the_guide_asks_first(tmp_path: Path) -> None:
    result = await call(example(GUIDE, "CleanerAgent"), tmp_path, "clean", {})
    assert result.structured_content == {"deleted": 3}


@pytest.mark.anyio
async def test_the_counting_agent_of_the_guide_is_used_by_its_client(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "counter_agent.py"
    file.write_text(example(GUIDE, "CounterAgent"), encoding="utf-8")
    client: dict[str, Any] = {"__name__": "example"}
    exec(example(GUIDE, "from mcp import Client"), client)
    [loaded] = load_agent(str(file))
    async with running_bridge(loaded.agent) as running:
        await client["main"](in_memory(running.endpoint()))
    assert capsys.readouterr().out.splitlines() == [
        "{'count': 1}",
        "The counter is at 1. Explain to a child what that means.",
        '{"count": 1}',
    ]


def test_the_middleware_of_the_guide_sees_what_a_client_asks(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(example(GUIDE, "sdk_server"), encoding="utf-8")
    ran = subprocess.run([sys.executable, file], capture_output=True, text=True, cwd=tmp_path, timeout=50, check=True)
    assert {"initialize", "tools/call"} <= set(ran.stdout.split())


@pytest.mark.parametrize(
    ("page", "word", "tools"),
    [
        (GUIDE, "AgentLimits", ["nothing"]),
        (TOOL_SEARCH, "ToolSearchPolicy", ["tool_search", "call_tool"]),
        (CLIENTS, "ClientLimits", ["get-status"]),
    ],
    ids=["limits", "tool-search", "clients"],
)
def test_the_programs_of_the_pages_serve_over_stdio(page: Path, word: str, tools: list[str], tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(example(page, word), encoding="utf-8")
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    sent = "".join(json.dumps(line) + "\n" for line in lines)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, file], stdin=pipe, stdout=pipe, text=True, cwd=tmp_path) as process:
        assert process.stdin and process.stdout
        process.stdin.write(sent)
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.communicate(timeout=20)
    assert [tool["name"] for tool in answers[1]["result"]["tools"]] == tools


def test_the_servers_of_the_readme_are_understood(tmp_path: Path) -> None:
    [text] = blocks(README, "json")
    file = tmp_path / "servers.json"
    file.write_text(text, encoding="utf-8")
    [server] = load_servers(file).servers
    assert isinstance(server, StdioServerSpec)
    assert server.command == "npx" and json.loads(text)["mcpServers"].keys() == {server.name}


@pytest.mark.parametrize("page", [README, ADDING])
def test_who_has_not_the_programs_of_the_examples_is_told_what_they_belong_to(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "`uvx`, a part of\n[uv](https://" in text or "`uvx`, a part of [uv](https://" in text
    assert "`npx`, a part of\n[Node.js](https://" in text


def commands(page: Path) -> list[list[str]]:
    """Every `gaia-bridge ...` of a page's console blocks and code spans."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"`(gaia-bridge [a-z].*?)`", text) + [
        part.strip()
        for block in blocks(page, "console")
        for part in re.split("&&|\n", block)
        if part.strip().startswith("gaia-bridge ")
    ]
    return [shlex.split(command)[1:] for command in found]


@pytest.mark.requirement("S3-23")
def test_the_configuration_of_the_pages_about_servers_is_understood_and_its_stacking_order_described(
    tmp_path: Path,
) -> None:
    found: list[str] = []
    for number, text in enumerate(blocks(CONFIGURATION, "json") + blocks(NETWORK, "json")):
        file = tmp_path / f"{number}.json"
        file.write_text(text, encoding="utf-8")
        loaded = load_servers(file, {"ISSUES_TOKEN": "t", "FILES_SECRET": "s"})
        assert (loaded.skipped, loaded.warnings) == ((), ())
        found += [spec.name for spec in loaded.servers]
    assert found == ["time", "issues", "old", "tracker", "files", "issues"]
    page = " ".join(CONFIGURATION.read_text(encoding="utf-8").split())
    assert "`~/.gaia/mcp_servers.json` (global), and over it `./mcp_servers.json` (local" in page


def test_the_clients_of_the_pages_about_servers_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a server of ours in the place of the one that they name."""
    program = tmp_path / "uvx"
    server = shlex.join([sys.executable, *forked("stdio_upstream.py")])
    program.write_text(f"#!/bin/sh\nexec {server}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    exec(example(IN_PYTHON, "MCPClient.from_config"), {})
    assert len(capsys.readouterr().out.splitlines()) > 2
    page: dict[str, Any] = {}
    exec(example(IN_PYTHON, "class ClockAgent"), page)
    agent = page["ClockAgent"](silent_mode=True)
    try:
        assert agent.list_mcp_servers() == ["time"]
        assert [definition["name"] for definition in agent.get_mcp_tool_definitions()] == ["now_in"]
    finally:
        agent.disconnect_mcp_server("time")
    offices: dict[str, Any] = {}
    exec(example(USING_AGENTS, "class Office"), offices)
    back_office, front_desk = offices["back_office"], offices["front_desk"]
    try:
        offered = {tool["name"] for tool in front_desk.get_mcp_republished().get_mcp_tool_definitions()}
        assert {"mcp_back_greet", "mcp_back_mcp_time_add"} <= offered
    finally:
        front_desk.disconnect_mcp_server("back")
        back_office.disconnect_mcp_server("time")


def test_the_agents_of_the_page_about_them_use_each_other(tmp_path: Path) -> None:
    (tmp_path / "pair.py").write_text(example(USING_AGENTS, "class DeskAgent"), encoding="utf-8")
    [command] = [words for words in commands(USING_AGENTS) if words[0] == "call"]
    answered = CliRunner().invoke(
        program, [words if words != "pair.py" else str(tmp_path / words) for words in command]
    )
    assert [answered.stdout] == blocks(USING_AGENTS, "text"), answered.output


@pytest.mark.parametrize(
    "arguments",
    [command for page in (README, GUIDE, *SERVERS, TOOL_SEARCH, CLIENTS) for command in commands(page)],
    ids=" ".join,
)
def test_a_command_of_the_pages_is_one_of_ours(arguments: list[str]) -> None:
    name, *rest = arguments
    command = program.get_command(click.Context(program), name)
    assert command is not None, f"there is no command {name!r}"
    if "--help" not in rest:
        command.make_context(name, rest, parent=click.Context(program))


def test_the_page_about_the_command_line_lists_every_command_for_servers_with_its_options_and_exit_codes() -> None:
    section = COMMAND_LINE.read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in section.splitlines() if row.startswith("| `")]
    listed: dict[str, set[str]] = {}
    for first, _, last in rows:
        for name in re.findall(r"`([a-z-]+)", first):
            listed.setdefault(name, set()).update(re.findall(r"--[a-z-]+", last))
    assert listed.keys() == program.commands.keys() - {
        *("serve", "dev", "agents", "init", "new"),
        *("background", "connect", "up", "down", "restart", "ps"),
        *("acp", "bundle", "doctor", "install"),
    }
    shared = {"--config", "--json", "--help"}
    for name, options in listed.items():
        own = {
            option
            for parameter in program.commands[name].params
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        assert options == {option for option in own if option.startswith("--")} - shared, name
        assert ("--config" in own) is (name not in {"status", "completion", "search"})
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)}
    assert codes == set(ExitCode)


def test_the_page_about_searching_shows_what_a_search_answers() -> None:
    [shown] = blocks(TOOL_SEARCH, "json")
    tools = {"read_file": {"name": "read_file", "description": "Reads a file."}}
    assert ToolSearch().run("tool_search_regex", {"pattern": "git|file"}, tools, {}) == json.loads(shown)


def test_the_page_about_searching_lists_how_many_tools_clients_take() -> None:
    rows = re.findall(r"^\| (VS Code|Windsurf|Cursor).* \| (\d+) \|$", TOOL_SEARCH.read_text("utf-8"), re.MULTILINE)
    names = {"VS Code": "Visual Studio Code", "Windsurf": "Windsurf", "Cursor": "cursor-vscode"}
    assert {client: int(limit) for client, limit in rows} == {key: tool_limit(name) for key, name in names.items()}


def test_the_page_about_clients_lists_what_each_is_known_to_take() -> None:
    lines = [line for line in CLIENTS.read_text("utf-8").splitlines() if re.match(r"\| .+ \| `.+` \|", line)]
    assert len(lines) == 10
    for line in lines:
        _, name, *sizes, again = (cell.strip() for cell in line.strip("|").split("|"))
        tools, instructions, _, result = (
            int(number) if (number := size.replace(",", "")).isdecimal() else None for size in sizes
        )
        known = known_client(name.strip("`"))
        told = (tools, instructions, result, again == "yes")
        assert told == (known.tools, known.instructions, known.result, known.lists_again), name


def test_every_link_to_a_file_of_the_repository_leads_somewhere() -> None:
    for page in (README, GUIDE, *SERVERS, DOCS / "architecture.md", ROOT / "vscode-config" / "README.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_method_that_the_guide_names_exists() -> None:
    from gaia_bridge.calls.request_context import RequestContext
    from gaia_bridge.sources.agent.announcer import AnnouncesChanges

    text = GUIDE.read_text(encoding="utf-8")
    for name in re.findall(r"`(?:self\.)?(notify_mcp_\w+)\(", text):
        assert hasattr(AnnouncesChanges, name)
    table = text.partition("## Inside a call")[2].partition("Questions work")[0].rpartition("| | |")[2]
    first_column = "\n".join(row.split("|")[1] for row in table.splitlines() if row.startswith("| `"))
    names = re.findall(r"`(\w+)(?:\(|`)", first_column)
    assert len(names) > 10
    for name in names:
        assert hasattr(RequestContext, name), name


def test_the_tools_of_a_server_are_called_in_both_ways(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = [{"type": "text", "text": "12:00"}]
    transport = FakeTransport({"name": "get_current_time"}, get_current_time={"result": {"content": content}})

    def configured_server(*arguments: object) -> ConfiguredServer:
        return ConfiguredServer(transport, all_tools)

    monkeypatch.setattr(mcp_client, "configured_server", configured_server)
    shown: dict[str, Any] = {}
    exec(example(IN_PYTHON, "class ClockAgent") + example(IN_PYTHON, "agent = ClockAgent()"), shown)
    assert capsys.readouterr().out == f"{ {'content': content} }\n{content}\n"
    assert shown["agent"].now_in("Europe/Rome") == "12:00"
    assert [server.name for server in load_servers(default_servers_path()).servers] == ["time"]
    shown["agent"].disconnect_mcp_server("time")
    assert load_servers(default_servers_path()).servers == ()
