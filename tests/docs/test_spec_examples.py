"""Every example in `docs/examples` does what it shows: as a program, with real MCP servers and a scripted model."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from tests.cli.running import running
from tests.process.driving import initialized, url_of
from tests.support.example_programs import EXAMPLES, RUNNERS, Reader, write_runners
from tests.support.installed_programs import needs
from tests.support.on_demand import mcp, mcp_types, openai
from tests.support.scripted_model import ModelHandle, call, calls, rule, say, script, scripted_model

pytestmark = pytest.mark.timeout(600)  # many programs start, on a machine that may be busy

PAGE = EXAMPLES / "README.md"
FILES = sorted(str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py"))


@pytest.fixture(scope="module")
@needs(*RUNNERS)
def runners(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_runners(tmp_path_factory.mktemp("runners"))


@pytest.fixture(scope="module")
def model_server() -> Generator[ModelHandle]:
    with scripted_model() as server:
        yield server


@pytest.fixture
def model(model_server: ModelHandle) -> Generator[ModelHandle]:
    model_server.play(script())
    yield model_server
    assert not (problems := model_server.state()["problems"]), problems


@pytest.fixture
def reader(tmp_path: Path, runners: Path, model: ModelHandle) -> Reader:
    return Reader(tmp_path, runners, model)


def results(model: ModelHandle, request: int) -> list[Any]:
    """What the tools said that the model was told of with one of its requests."""
    return [
        json.loads(message["content"]) for message in model.requests()[request].messages if message["role"] == "tool"
    ]


# Document 000


@pytest.mark.thorough
@pytest.mark.requirement("S0-64")
def test_an_agent_uses_one_server(reader: Reader, model: ModelHandle) -> None:
    (reader.files / "milk.txt").touch()
    model.play(script(call("mcp_filesystem_list_directory", path=str(reader.files)), say("There is milk.")))
    ran = reader.run("client/single_server.py")
    assert ran.printed == ["There is milk."]
    assert "Tool: list_directory (filesystem)" in ran.errors
    first, _ = model.requests()
    assert {"mcp_filesystem_read_file", "mcp_filesystem_write_file"} <= {*first.tool_names}
    assert first.messages[-1] == {"role": "user", "content": f"List all files in {reader.files}"}
    [result] = results(model, 1)
    assert result["status"] == "success" and result["data"]["content"][0]["text"] == "[FILE] milk.txt"


@pytest.mark.thorough
@pytest.mark.requirement("S0-64", "S2-21")
def test_an_agent_uses_two_servers_and_searches_for_their_tools(reader: Reader, model: ModelHandle) -> None:
    (reader.files / "milk.txt").touch()
    model.play(
        script(
            call("tool_search_regex", pattern="list_directory|issue"),
            call("mcp_filesystem_list_directory", path=str(reader.files)),
            call("mcp_github_create_issue", title="Files", body="milk.txt"),
            say("There is an issue about milk."),
        )
    )
    ran = reader.run("client/multi_server.py", GITHUB_TOKEN="ghp_xxx")
    assert ran.printed == ["There is an issue about milk."]
    offered = [{*request.tool_names} for request in model.requests()]
    found = {"mcp_filesystem_list_directory", "mcp_filesystem_list_directory_with_sizes", "mcp_github_create_issue"}
    assert offered == [{"tool_search_regex"}, *[{"tool_search_regex"} | found] * 3]
    issue = results(model, 3)[-1]
    assert issue["data"]["content"][0]["text"] == "done: create_issue Files milk.txt GITHUB_TOKEN ghp_xxx"


@pytest.mark.requirement("S0-64")
def test_an_agent_uses_the_configured_servers(reader: Reader) -> None:
    servers = {"time": {"command": "uvx", "args": ["mcp-server-time"]}}
    (reader.here / "mcp_servers.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")
    assert reader.run("client/config_agent.py").printed == ["Loaded 1 MCP servers", "Connected to: time"]


@pytest.mark.requirement("S0-64")
def test_a_client_is_used_without_an_agent(reader: Reader) -> None:
    (reader.files / "example.txt").write_text("hello\n", "utf-8")
    first, *_, last = [line for line in reader.run("client/direct_client.py").printed if line]
    assert first.startswith("- read_file: Read the complete contents of a file as text.") and last == "hello"


@pytest.mark.thorough
@pytest.mark.requirement("S0-64")
def test_a_manager_connects_servers_and_remembers_them(reader: Reader) -> None:
    servers = {"zigbee": {"command": "uvx", "args": ["mcp-server-zigbee"]}}
    (reader.home / ".gaia").mkdir()
    (reader.home / ".gaia" / "mcp_servers.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")
    for _ in range(2):
        assert reader.run("client/client_manager.py").printed == [
            "Servers: ['filesystem']",
            "Tools available: 14",
            "Servers: ['filesystem', 'zigbee']",
        ]
    assert [*json.loads((reader.home / ".gaia" / "mcp_servers.json").read_text("utf-8"))["mcpServers"]] == [
        "zigbee",
        "filesystem",
    ]


@pytest.mark.thorough
@pytest.mark.requirement("S0-64")
def test_failures_of_servers_and_tools_are_seen(reader: Reader) -> None:
    connected, failed = reader.run("client/safe_agent.py").printed
    assert connected == "Successfully connected to MCP server"
    assert failed.startswith("Tool failed: Access denied - path outside allowed directories: /nonexistent")
    npx = reader.here / "bin" / "npx"  # before any other: servers are also looked for where installers put programs
    npx.parent.mkdir()
    npx.write_text("#!/bin/sh\necho npx does not work >&2\nexit 127\n", "utf-8")
    npx.chmod(0o755)
    ran = reader.run("client/safe_agent.py", PATH=str(npx.parent), HOME=str(reader.here))
    assert ran.printed == ["Warning: Failed to connect to MCP server"]
    assert "npx" in ran.errors


@pytest.mark.requirement("S0-64")
def test_debug_mode_says_what_happens(reader: Reader) -> None:
    ran = reader.run("client/debug_mode.py")
    assert ran.printed == []
    for line in ("'one': calling list_allowed_directories", "'server': 14 tools", "'server': disconnected"):
        assert f"DEBUG gaia.mcp.client.mcp_client: MCP server {line}" in ran.errors


@pytest.mark.thorough
@pytest.mark.requirement("S0-64")
def test_a_wrapper_of_ones_own_counts_what_is_used(reader: Reader, model: ModelHandle) -> None:
    model.play(
        script(
            calls(
                ("mcp_time_get_current_time", {"timezone": "Europe/Lisbon"}),
                ("mcp_time_get_current_time", {"timezone": "UTC"}),
            ),
            say("It is late."),
        )
    )
    assert reader.run("client/custom_wrapper.py").printed == ["It is late.", "{'get_current_time': 2}"]
    lisbon, utc = results(model, 1)
    assert (lisbon["timezone"], utc["timezone"]) == ("Europe/Lisbon", "UTC")


# Document 001


@pytest.mark.anyio
@pytest.mark.requirement("S0-64", "S1-11", "S1-14", "S1-15")
async def test_published_agents_are_used_by_the_official_client(reader: Reader) -> None:
    """And by the transport of document 000 that readers write themselves."""
    names = ("published/quick_start.py", "published/file_agent.py", "published/project_agent.py")
    with running("serve", "--port", "0", *(str(EXAMPLES / name) for name in names), cwd=reader.here) as bridge:
        url = url_of(bridge)
        async with mcp.Client(f"{url}/mcp") as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert tools == {"my-tool", "read-file", "write-file", "get-status"}
            note = str(reader.files / "note.txt")
            assert (await client.call_tool("my-tool", {"text": "milk"})).structured_content == {"result": "MILK"}
            written = await client.call_tool("write-file", {"path": note, "content": "milk"})
            assert written.structured_content == {"status": "written"}
            assert (await client.call_tool("read-file", {"path": note})).structured_content == {"content": "milk"}
            status = (await client.call_tool("get-status", {})).structured_content
            assert status == {"status": "active", "tasks": 42, "completed": 30}
            [prompt] = (await client.list_prompts()).prompts
            assert prompt.description == "Generate daily standup report"
            assert "what is done" in (await client.get_prompt(prompt.name)).model_dump_json()
            [resource] = (await client.list_resources()).resources
            [content] = (await client.read_resource(resource.uri)).contents
            assert isinstance(content, mcp_types.TextResourceContents) and json.loads(content.text) == status
        connected, *listed = (await to_thread.run_sync(reader.run, "client/custom_transport.py", f"{url}/mcp")).printed
        assert connected.startswith("Connected to ") and "- write-file: Write to a file" in listed


@pytest.mark.requirement("S1-11")
def test_a_published_agent_creates_files_in_its_folder_only(reader: Reader) -> None:
    with initialized(str(EXAMPLES / "published/create_file.py"), cwd=reader.here) as client:
        created = client.call_result("create-file", path="note.txt", content="milk")["structuredContent"]
        assert created == {"status": "created", "path": str(reader.here / "note.txt"), "size": 4}
        outside = client.call_result("create-file", path="../note.txt", content="milk")
        assert outside["isError"] and "is not in" in outside["content"][0]["text"]
    assert (reader.here / "note.txt").read_text("utf-8") == "milk" and not (reader.here.parent / "note.txt").exists()


@pytest.mark.anyio
@pytest.mark.requirement("S1-9")
async def test_one_agent_serves_mcp_clients_and_chat_clients(
    reader: Reader, model: ModelHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GAIA_BASE_URL", "GAIA_MODEL"):
        monkeypatch.setenv(name, reader.environment[name])
    model.play(script(call("analyze-code", file_path="app.py"), say("It is good, but lacks type hints.")))
    with running("serve", "--port", "0", str(EXAMPLES / "published/code_agent.py"), cwd=reader.here) as bridge:
        url = url_of(bridge)
        async with mcp.Client(f"{url}/mcp") as client:
            analysed = (await client.call_tool("analyze-code", {"file_path": "app.py"})).structured_content
            assert analysed is not None and analysed["suggestions"] == ["Add type hints", "Add docstrings"]
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as api:
            [offered] = (await api.models.list()).data
            assert offered.id == "gaia-code"
            question: Any = [{"role": "user", "content": "How good is app.py?"}]
            answer = await api.chat.completions.create(model="gaia-code", messages=question)
            assert answer.choices[0].message.content == "It is good, but lacks type hints."
            stream = await api.chat.completions.create(model="gaia-code", messages=question, stream=True)
            pieces = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
            assert "".join(pieces) == "It is good, but lacks type hints." and len(pieces) > 3
    first = model.requests()[0]
    assert first.system.startswith("You are an autonomous coding agent.") and first.tool_names == ["analyze-code"]
    assert results(model, 1) == [analysed]


# Document 002


@pytest.mark.thorough
@pytest.mark.requirement("S2-1", "S2-9", "S2-10", "S2-13", "S2-14")
def test_the_asynchronous_manager_is_used_with_a_file_and_without(reader: Reader) -> None:
    servers = {"time": {"command": "uvx", "args": ["mcp-server-time"]}}
    (reader.here / "mcp.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")
    connected, first, second, failed, *time = reader.run("runtime/manager.py").printed
    assert connected == "Connected to: time"
    assert first == "- get_current_time (time): Get current time in a specific timezone"
    assert second.startswith("- convert_time (time): ")
    assert failed.startswith("{'success': False, 'error': ") and "timezone" in failed
    assert json.loads("".join(time))["timezone"] == "Europe/Lisbon"
    inline = reader.run("runtime/inline_config.py").output
    assert re.findall(r'"timezone": "(.*?)"', inline) == ["Europe/Lisbon", "Asia/Tokyo"]


@pytest.mark.thorough
@pytest.mark.requirement("S2-16", "S2-17", "S2-24")
def test_a_chat_agent_has_tools_of_its_own_and_of_servers(reader: Reader, model: ModelHandle) -> None:
    asked = calls(("birthday_of", {"name": "Ada"}), ("get_current_time", {"timezone": "UTC"}))
    model.play(script(asked, say("She is old.")))
    ran = reader.run("runtime/chat_agent.py")
    assert ran.printed == ["She is old."] and "Tool: get_current_time (time)" in ran.errors
    first, second = model.requests()
    assert first.tool_names == ["birthday_of", "get_current_time", "convert_time"]
    birthday, now = (message["content"] for message in second.messages if message["role"] == "tool")
    assert birthday == "1815-12-10" and json.loads(now)["timezone"] == "UTC"


@pytest.mark.thorough
@pytest.mark.requirement("S2-18", "S2-21", "S2-22")
def test_many_tools_are_searched_for_and_used_in_the_same_turn(reader: Reader, model: ModelHandle) -> None:
    milk = reader.files / "milk.txt"
    milk.touch()
    model.play(
        script(
            call("tool_search_regex", pattern="^get_.*(time|info)$"),
            call("get_current_time", timezone="UTC"),
            calls(("get_file_info", {"path": str(milk)}), ("list_directory", {"path": str(reader.files)})),
            say("It is fresh."),
        )
    )
    assert reader.run("runtime/deferred_tools.py").printed == ["It is fresh.", "The agent has 16 tools"]
    found = ["tool_search_regex", "get_file_info", "get_current_time"]
    offered = [request.tool_names for request in model.requests()]
    assert offered == [found[:1], found, found, [*found, "list_directory"]]
    *_, info, listing = (message["content"] for message in model.requests()[-1].messages)
    assert "modified" in info and "milk.txt" in listing


@pytest.mark.requirement("S2-25", "S2-26", "S2-27", "S2-28", "S2-29")
def test_each_person_has_a_session(reader: Reader, model: ModelHandle) -> None:
    model.play(script(rules=[rule(r"My name is (\w+)", say("Hello $1.")), rule("What is my name", say("Ada."))]))
    assert reader.run("runtime/sessions.py").printed == [
        *("ada came", "ben came", "Hello Ada.", "Hello Ben.", "Ada."),
        "ada: 5 messages, {'plan': 'free'}",
        "ben: 3 messages, {}",
        *("ada went", "0 stale sessions"),
    ]
    *_, last = model.requests()
    assert [message["content"] for message in last.messages] == [
        *("You speak with Ada.", "My name is Ada.", "Hello Ada.", "What is my name?"),
    ]


# Document 003


@pytest.mark.requirement("S3-3", "S3-4", "S3-7")
def test_a_local_file_lies_over_the_global_one(reader: Reader) -> None:
    here, home = reader.here / "mcp_servers.json", reader.home / ".gaia" / "mcp_servers.json"
    [stacked, local] = re.findall(r"^    (\{.*\})$", (EXAMPLES / "configuration/stacked_files.py").read_text(), re.M)
    home.parent.mkdir()
    assert reader.run("configuration/stacked_files.py").printed == [
        f"New servers are written to {home}",
        "./mcp_servers.json alone has: nothing",
    ]
    home.write_text(stacked, "utf-8")
    here.write_text(local, "utf-8")
    assert reader.run("configuration/stacked_files.py").printed == [
        f"time: uvx (from {home})",
        f"acer: dotnet (from {here})",
        f"New servers are written to {here}",
        "./mcp_servers.json alone has: acer",
    ]


@pytest.mark.thorough
@pytest.mark.requirement("S3-10", "S3-11", "S3-14", "S3-18")
def test_people_are_shown_the_own_names_of_tools(reader: Reader, model: ModelHandle) -> None:
    model.play(script(call("mcp_time_get_current_time", timezone="Europe/Lisbon"), say("It is late.")))
    ran = reader.run("configuration/display_names.py")
    assert ran.printed == [
        "mcp_time_get_current_time is shown as: get_current_time (time)",
        "mcp_time_convert_time is shown as: convert_time (time)",
        "It is late.",
    ]
    assert "🔧 Executing operation\n  Tool: get_current_time (time)\n" in ran.errors
    prompt = model.requests()[0].system
    assert "- mcp_time_get_current_time: get_current_time (time)" in prompt and "[MCP:time]" not in prompt


# Document 004


@pytest.fixture(scope="module")
def web_page() -> Generator[str]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<html><body><h1>News</h1><p>There is <b>milk</b>.</p></body></html>")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.thorough
@pytest.mark.requirement("S4-26")
def test_a_search_agent_reads_a_page_of_the_web(reader: Reader, model: ModelHandle, web_page: str) -> None:
    """With the `.env` of the document's quick start."""
    for name in ("GAIA_BASE_URL", "GAIA_MODEL"):
        del reader.environment[name]
    settings = "# Works with any provider!\nPROVIDER=openai  # or ollama\nOPENAI_API_KEY=sk-xxx\n\nMCP_FETCH=True\n"
    (reader.here / ".env").write_text(f"{settings}OPENAI_BASE_URL={model.base_url}\n", "utf-8")
    model.play(script(call("fetch__fetch", url=web_page), say("There is milk."), api_key="sk-xxx"))
    ran = reader.run("toolset/search_agent.py")
    assert (ran.printed, ran.output) == (["There is milk."], "There is milk.")
    first, second = model.requests()
    assert first.tool_names == ["fetch__fetch"] and first.system.startswith("You are a research assistant.")
    assert "# News\n\nThere is **milk**." in second.messages[-1]["content"]


@pytest.mark.thorough
@pytest.mark.requirement("S4-7", "S4-26")
def test_a_home_agent_has_tools_of_every_kind_but_no_dangerous_ones(
    reader: Reader, model: ModelHandle, web_page: str
) -> None:
    model.play(
        script(
            calls(("get_weather", {"city": "Paris"}), ("fetch__fetch", {"url": web_page})),
            call("zigbee__turn_on_light", device="kitchen"),
            say("The light is on."),
        )
    )
    assert reader.run("toolset/home_agent.py", MCP_FETCH="True", MCP_ZIGBEE="True").printed == ["The light is on."]
    first, _, last = model.requests()
    lights = ["zigbee__list_devices", "zigbee__turn_on_light", "zigbee__turn_off_light"]
    assert first.tool_names == ["get_weather", "fetch__fetch", *lights]
    weather, page, light = (message["content"] for message in last.messages if message["role"] == "tool")
    assert (weather, light) == ("It is sunny in Paris.", "done: turn_on_light kitchen") and "**milk**" in page


@pytest.mark.requirement("S4-2", "S4-7")
def test_a_server_is_added_with_its_settings_in_a_file(reader: Reader, model: ModelHandle) -> None:
    (reader.here / ".env").write_text("MCP_WEATHER_API=True\nWEATHER_API_KEY=weather_xxx\n", "utf-8")
    model.play(script(call("weather_api__get_forecast", city="Paris", days=1), say("$result")))
    assert reader.run("toolset/weather_api.py").printed == ["done: get_forecast Paris 1 API_KEY weather_xxx"]
    assert model.requests()[0].tool_names == ["weather_api__get_forecast", "weather_api__get_current"]


@pytest.mark.thorough
@pytest.mark.requirement("S4-3", "S4-20")
def test_the_tools_of_the_toolset_are_listed_and_converted(reader: Reader) -> None:
    server, count, *tools = reader.run("toolset/list_tools.py", MCP_FETCH="True").printed
    assert (server, count) == ("fetch: uvx mcp-server-fetch", "Created 1 MCP tools")
    assert tools[0].startswith("  fetch__fetch: Fetches a URL from the internet")
    [converted] = reader.run("toolset/own_converter.py", MCP_FETCH="True").printed
    assert converted.startswith("fetch__fetch: {") and "'format'" not in converted


# The page


def test_every_example_is_listed_tested_and_tells_how_to_run_it() -> None:
    tests, page = Path(__file__).read_text("utf-8"), PAGE.read_text("utf-8")
    assert sorted(re.findall(r"\]\((\S+\.py)\)", page)) == FILES
    for file in FILES:
        assert f'"{file}"' in tests, f"nobody tests docs/examples/{file}"
        assert f" docs/examples/{file}" in (EXAMPLES / file).read_text("utf-8"), f"{file} does not say how to run it"
