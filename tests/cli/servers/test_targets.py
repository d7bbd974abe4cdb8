"""What the commands take: configured servers, what a running bridge publishes, files, URLs and commands."""

from __future__ import annotations

import gc
import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from gaia_bridge_cli.servers.asked_arguments import is_secret, prompt_schema
from tests.cli.running import GLOBAL, Run, running
from tests.cli.terminals import CTRL_D, terminal

SERVER = Path(__file__).parents[2] / "servers" / "raw_server.py"
COMMAND = (sys.executable, "-S", str(SERVER))

AGENT = '''
import os


class GreeterAgent:
    """Greets."""

    def get_mcp_tool_definitions(self):
        print("printed by the agent")
        properties = {
            "name": {"type": "string"},
            "times": {"type": "integer", "minimum": 1},
            "api_key": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "integer"}},
        }
        schema = {"type": "object", "properties": properties, "required": ["name"]}
        everything = {**schema, "required": [*properties]}
        return [
            {"name": "greet", "description": "Greet", "inputSchema": schema},
            {"name": "everything", "inputSchema": everything},
            {"name": "pid", "inputSchema": {"type": "object"}},
        ]

    def execute_mcp_tool(self, tool_name, arguments):
        print("printed by the tool")
        return str(os.getpid()) if tool_name == "pid" else arguments

    def get_mcp_prompts(self):
        argument = {"name": "audience", "description": "For whom", "required": True}
        return [{"name": "report", "arguments": [argument]}]

    def get_mcp_prompt(self, name, arguments):
        return f"Explain to {arguments['audience']}."

    def get_mcp_resources(self):
        return [{"uri": "note://text", "name": "text"}, {"uri": "note://bytes", "name": "bytes"}]

    def read_mcp_resource(self, uri):
        return {"note://text": "first\\nsecond", "note://bytes": b"\\x00\\xff"}.get(uri)
'''


@pytest.fixture(autouse=True)
def agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "hello_agent", raising=False)  # that of another test
    Path("hello_agent.py").write_text(AGENT, "utf-8")


@pytest.mark.parametrize("target", ["hello_agent.py", "hello_agent.py:GreeterAgent", "hello_agent:GreeterAgent"])
def test_an_agent_in_a_file_is_run_in_this_process_and_prints_nothing_into_the_result(run: Run, target: str) -> None:
    code, out, err = run("call", target, "greet", "name=Bob", "times=2", "--json")
    assert code == 0
    assert json.loads(out)["structuredContent"] == {"name": "Bob", "times": 2}
    assert "printed by the tool" in err
    assert run("call", target, "pid")[1].strip() == str(os.getpid())
    assert run("tools", target)[1].startswith("greet(")
    assert run("test-client", target)[0] == 0


WHOLE = """
from gaia.agents.base import Agent, tool

class ShopAgent(Agent):
    @tool
    def price_of(self, flower: str) -> float:
        return 2.5
"""
FUNCTIONS = "from gaia_bridge import tool\n@tool\ndef price_of(flower: str) -> float:\n    return 2.5\n"
SERVER_OBJECT = (
    "from mcp.server.mcpserver import MCPServer\nserver = MCPServer('shop')\n"
    "@server.tool()\ndef price_of(flower: str) -> float:\n    return 2.5\n"
)


@pytest.mark.parametrize("source", [WHOLE, FUNCTIONS, SERVER_OBJECT])
def test_whatever_serve_takes_can_be_called(run: Run, source: str) -> None:
    Path("shop_file.py").write_text(source, "utf-8")
    assert "price_of" in run("tools", "shop_file.py")[1]
    assert run("call", "shop_file.py", "price_of", "flower=rose")[1].strip() == "2.5"


PAIR = """
from gaia.agents.base import MCPAgent, tool
from gaia.mcp import MCPClientMixin

class BackAgent(MCPAgent):
    made = []

    def __init__(self):
        super().__init__()
        self.made.append(self)

    @tool
    def colours(self, city: str) -> str:
        return f"{city}: red, white ({len(self.made)})"

class DeskAgent(MCPClientMixin, MCPAgent):
    def __init__(self):
        super().__init__()
        self.connect_mcp_server("helper", {"agent": "back"})

    @tool
    def flag(self, city: str) -> str:
        return self.get_mcp_client("helper").call_tool("colours", {"city": city})["content"][0]["text"]

class Unfinished(MCPAgent):
    def __init__(self, needed): ...
"""


def test_all_agents_of_a_file_are_there_so_that_they_can_use_each_other(run: Run) -> None:
    Path("pair.py").write_text(PAIR, "utf-8")
    for number, target in enumerate(("pair.py", "pair.py:DeskAgent"), 1):  # each is made once each time
        assert run("call", target, "flag", "city=Rome")[:2] == (0, f"Rome: red, white ({number})\n")
    assert run("tools", "pair.py")[1].splitlines() == ["colours(city: str) -> str", "flag(city: str) -> str"]
    assert run("tools", "pair.py:BackAgent")[1] == "colours(city: str) -> str\n"
    code, _, err = run("call", "pair.py:BackAgent", "flag")
    assert (code, "back has no tool 'flag' (there are: colours)" in err) == (64, True)
    assert "pair works" in run("test-client", "pair.py")[1]
    assert run("tools", "pair.py:Unfinished")[0] == run("tools", "pair.py:None")[0] == 66
    assert not Path(GLOBAL).exists()
    for agent in [each for each in gc.get_objects() if type(each).__name__ == "DeskAgent"]:
        agent.disconnect_mcp_server("helper")  # for a command, the end of the process does that


def test_an_agent_is_called_one_and_fails_without_a_number_of_the_protocol(run: Run) -> None:
    Path("lists.py").write_text(
        "class ListsAgent:\n"
        "    def get_mcp_tool_definitions(self):\n        return []\n"
        "    def execute_mcp_tool(self, tool_name, arguments):\n        pass\n"
        "    def get_mcp_resources(self):\n        return [{'uri': 'book:1', 'name': 'Emma'}]\n",
        "utf-8",
    )
    code, _, err = run("read", "lists.py", "book:1")
    assert code == 69
    assert err.endswith("agent 'lists': book:1 is listed, and the agent has no method read_mcp_resource\n")


def test_a_file_that_cannot_be_used_says_why(run: Run) -> None:
    Path("broken.py").write_text("import no_such_module\n", "utf-8")
    for target, complaint in (("broken.py", "no_such_module"), ("missing.py", "missing.py")):
        code, out, err = run("tools", target)
        assert (code, out, complaint in err) == (66, "", True), err


def test_a_command_is_a_target_of_every_command(run: Run) -> None:
    assert run("tools", "--", *COMMAND)[1].splitlines()[0] == "pid()"
    assert run("tools", "--", shlex.join(COMMAND))[1].splitlines()[0] == "pid()"
    assert run("call", "pid", "--json", "--", *COMMAND)[0] == 0
    assert run("test-client", "--", *COMMAND)[0] == 0
    assert run("call", "env", "a=1", "--", *COMMAND)[0] == 0
    for arguments in (["call", "--", *COMMAND], ["read", "--", *COMMAND], ["prompt", "--", *COMMAND]):
        assert run(*arguments)[0] == 64
    code, _, err = run("tools", "--")
    assert (code, "nothing follows --" in err) == (64, True)


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("mcp.example.invalid/mcp", "did you mean https://mcp.example.invalid/mcp?"),
        ("mcp.example.invalid", "did you mean https://mcp.example.invalid?"),
        ("localhost:8000/mcp", "did you mean http://localhost:8000/mcp?"),
        ("127.0.0.1:8000", "did you mean http://127.0.0.1:8000?"),
        ("ws://x.org", "is reached over ws; expected a URL of http or https"),
        ("npx -y some-server", "expected it behind --: ... -- npx -y some-server"),
        (".", "'.' is a folder; expected one agent: file.py"),
    ],
)
@pytest.mark.parametrize("command", ["tools", "call", "read", "prompt", "test-client"])
def test_what_is_nearly_a_target_is_told_what_it_should_be(run: Run, command: str, target: str, hint: str) -> None:
    code, out, err = run(command, target, *(["x"] if command in ("call", "read", "prompt") else []))
    assert (code, out, hint in err) == (64, "", True), err


def test_what_is_nothing_is_told_all_that_would_be_something(run: Run) -> None:
    code, _, err = run("tools", "nothing")
    assert code == 78
    assert "file.py[:Class], http(s)://..., or -- COMMAND" in err


def test_a_url_and_what_a_running_bridge_has_are_asked_there_and_no_second_copy_is_started(
    run: Run, tmp_path: Path
) -> None:
    name = "my/raw 1"
    entry = {"command": COMMAND[0], "args": list(COMMAND[1:])}
    Path("servers.json").write_text(json.dumps({"mcpServers": {name: entry}}), "utf-8")
    Path(".gaia").mkdir(exist_ok=True)
    (Path.home() / ".gaia").mkdir(exist_ok=True)
    (Path.home() / ".gaia" / "mcp_servers.json").write_text(json.dumps({"mcpServers": {name: entry}}), "utf-8")
    arguments = ("hello_agent.py", "--config", "servers.json", "--port", "0")
    with running("serve", *arguments, cwd=Path.cwd()) as bridge:
        port = re.findall(r":(\d+)/mcp", bridge.until_error("/mcp"))[0]
        base = f"http://127.0.0.1:{port}"
        first, second = (run("call", name, "pid", "--port", port) for _ in range(2))
        assert first[1] == second[1] != ""
        assert f"note: {name} is published by the bridge at {base}, which is asked" in first[2]
        assert run("call", name, "pid", "--port", port, "--direct")[1] not in ("", first[1])
        assert run("call", f"{base}/servers/my%2Fraw%201/mcp", "pid")[1] == first[1]
        assert run("read", "hello", "note://text", "--port", port)[0] == 78  # it is published by another name
        assert run("read", f"{base}/mcp", "note://text")[1] == "first\nsecond\n"
        assert "Explain to Bob." in run("prompt", "greeter", "report", "audience=Bob", "--port", port)[1]
        assert run("logs", f"{base}/servers/my%2Fraw%201/mcp")[0] == 0


def test_a_resource_is_printed_as_it_is(run: Run) -> None:
    assert run("read", "hello_agent.py", "note://text") == (0, "first\nsecond\n", "printed by the agent\n")
    found = json.loads(run("read", "hello_agent.py", "note://bytes", "--json")[1])
    assert found["contents"][0]["blob"] == "AP8="
    code, _, err = run("read", "hello_agent.py", "note://txt")
    assert code == 64
    assert "has no resource 'note://txt' (did you mean 'note://text'?); it says:" in err


def test_a_prompt_is_printed_and_takes_texts(run: Run) -> None:
    assert run("prompt", "hello_agent.py", "report", "audience=42")[1] == "user: Explain to 42.\n"
    assert run("prompt", "hello_agent.py", "report", '{"audience": "Bob"}')[1] == "user: Explain to Bob.\n"
    found = json.loads(run("prompt", "hello_agent.py", "report", "audience=a", "--json")[1])
    assert found["messages"][0]["content"]["text"] == "Explain to a."
    for arguments, complaint in (
        (["reprt"], "has no prompt 'reprt' (did you mean 'report'?)"),
        (["report", '{"audience": 4}'], "'audience' is int; expected a text"),
        (["report", "audience"], "'audience' is no argument; expected key=value"),
    ):
        code, out, err = run("prompt", "hello_agent.py", *arguments)
        assert (code, out, complaint in err) == (64, "", True), err


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        (["hello_agent.py"], "is an agent, whose log is that of `serve`"),
        (["https://x.org/mcp"], "keeps its error output where it runs"),
        (["--", "npx", "x"], "gaia-bridge test-client -- npx x"),
    ],
)
def test_what_has_no_log_says_where_it_is_said(run: Run, target: list[str], complaint: str) -> None:
    code, out, err = run("logs", *target)
    assert (code, out, complaint in err) == (64, "", True), err


def test_required_arguments_that_are_missing_are_asked_for_as_the_schema_says() -> None:
    with terminal("call", "hello_agent.py", "everything", "name=Bob") as screen:
        screen.until("times: ")
        screen.type("none\r")
        screen.until("error:")
        screen.until("times: ")
        screen.type("3\r")
        screen.until("api_key: ")
        screen.type("hidden-words\r")
        screen.until("tags (JSON): ")
        assert "hidden-words" not in screen.shown
        screen.type("[1, 2]\r")
        assert screen.ended() == 0
    assert '{"name":"Bob","times":3,"api_key":"hidden-words","tags":[1,2]}' in screen.shown


def test_an_argument_that_is_not_typed_ends_the_command_with_what_was_expected() -> None:
    with terminal("prompt", "hello_agent.py", "report") as screen:
        screen.until("audience: ")
        screen.type(CTRL_D)
        assert screen.ended() == 64
    assert "'audience' is required, and was not typed; expected audience=VALUE" in screen.shown


@pytest.mark.parametrize(
    ("key", "schema", "secret"),
    [
        ("apiKey", {"type": "string"}, True),
        ("github_token", {"type": "string"}, True),
        ("PASSWORD", {"type": "string"}, True),
        ("x", {"type": "string", "format": "password"}, True),
        ("max_tokens", {"type": "integer"}, False),
        ("token", {"type": "integer"}, False),
        ("tokenizer", {"type": "string"}, False),
        ("key", {"type": "string"}, False),
    ],
)
def test_secrets_are_known_by_their_schema_or_name(key: str, schema: dict[str, str], secret: bool) -> None:
    assert is_secret(key, schema) is secret


@pytest.mark.parametrize("arguments", [None, 1, [None, {"name": 1}]])
def test_a_prompt_that_says_nonsense_of_its_arguments_has_none(arguments: object) -> None:
    assert prompt_schema({"arguments": arguments}) == {"type": "object", "properties": {}, "required": []}
