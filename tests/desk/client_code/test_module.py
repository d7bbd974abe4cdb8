"""Generated clients: what they say, that they are Python whatever a server says, and that they work."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaia.mcp.aio import MCPClientManager
from gaia_bridge import Client, prompt, resource, tool
from gaia_bridge.client import ClientDelegate, Connection, Era, connect
from gaia_bridge.client.transports.children.stdio import StdioTransport
from gaia_bridge.model import StdioServerSpec
from gaia_bridge.settings import UpstreamLimits
from gaia_bridge.text.json_types import JSON
from gaia_bridge_desk.client_code import ServerOffer, client_module
from gaia_bridge_desk.client_code.writing import Names
from tests.support.installed_programs import needs, required
from tests.upstreams.servers import TYPESCRIPT, node, script

pytestmark = pytest.mark.anyio

NODE: JSON = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
    "required": ["value"],
}

HOSTILE = ServerOffer(
    'evil """ server \\',
    [
        {
            "name": "class",
            "description": 'Ends it: """ + 1/0 + """ \\N{BULLET} \\x \x00 \u2028 \ud800\n\tand "',
            "inputSchema": {
                "type": "object",
                "properties": {
                    **{
                        key: {"type": "string"}
                        for key in ("self", "class", "cast", "given", "dict", "str", "Any", "None")
                    },
                    "a-b": {"enum": ["x", 'y"\\\n', None]},
                    "a.b": {"type": ["integer", "null"], "description": 'Also """ \\'},
                    "a_b": {"const": True},
                    "node": {"$ref": "#/$defs/Node"},
                    "ClassResult": {},
                    "_given": {"type": "array"},
                    "__x": {"type": "number"},
                    "": {},
                    "1": {"oneOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "string"}}]},
                    "ünïcödé": {"enum": [f"a long value with the number {number}" for number in range(9)]},
                },
                "required": ["self", "a-b", "Any", 5],
                "$defs": {"Node": NODE},
            },
            "outputSchema": {**NODE, "$defs": {"Node": NODE}},
        },
        *(
            {"name": name, "inputSchema": {}}
            for name in ("a.b", "a-b", "a_b", "aB", "A b", "1", "", "list", "read", "日本")
        ),
        {"name": "free", "inputSchema": {"type": "object", "additionalProperties": {"type": "string"}}},
        {
            "name": "shadow",
            "inputSchema": {
                "properties": {"q": {"properties": {"str": {"type": "string"}, "other": {"type": "string"}, "a b": {}}}}
            },
        },
        {
            "name": "loops",
            "inputSchema": {
                "properties": {
                    "json": {"$ref": "#/$defs/Json"},
                    "self_": {"$ref": "#/properties/self_"},
                    "nowhere": {"$ref": "#/$defs/Missing"},
                    "outside": {"$ref": "file:///etc/passwd"},
                    "root": {"$ref": "#"},
                    "merged": {"allOf": [{"$ref": "#/$defs/Both"}, {"properties": {"more": {"type": "null"}}}]},
                },
                "$defs": {
                    "Json": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/Json"}}]},
                    "Both": {"properties": {"one": {"type": "integer"}}, "required": ["one"]},
                },
            },
            "outputSchema": {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "integer"}}},
        },
        {"name": "strange", "inputSchema": {"properties": 4, "required": "x", "allOf": 1}, "outputSchema": {}},
        {"name": "stranger", "inputSchema": None, "description": 3},
    ],
    [
        {"name": "list", "arguments": [{"name": "self", "required": True}, {"name": "format"}, {"name": "self"}, 4]},
        {"name": "list!", "arguments": None},
    ],
    [{"uri": 'x://"\\', "name": "class"}, {"uri": "y://", "name": "class"}, {"name": "no uri"}],
    [
        {"uriTemplate": "note://{+path}/{id}", "name": "note"},
        {"uriTemplate": "q://x{?a,b}", "name": "query"},
        {"uriTemplate": "{self}", "name": "self"},
    ],
)

SAMPLE = """
import os


class ShopAgent:
    def get_mcp_tool_definitions(self):
        item = {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}}
        return [
            {
                "name": "order-items",
                "description": "Order",
                "inputSchema": {
                    "type": "object",
                    "properties": {"items": {"type": "array", "items": item}, "class": {"type": "string"}},
                    "required": ["items"],
                },
                "outputSchema": {
                    "type": "object",
                    "properties": {"total": {"type": "integer"}, "class": {"type": ["string", "null"]}},
                    "required": ["total"],
                },
            },
            {"name": "fail", "inputSchema": {"type": "object"}},
            {"name": "say", "inputSchema": {"type": "object", "additionalProperties": True}},
        ]

    def execute_mcp_tool(self, tool_name, arguments):
        if tool_name == "fail":
            raise ValueError("no items")
        if tool_name == "say":
            return f"said {sorted(arguments)}"
        return {"total": sum(item["count"] for item in arguments["items"]), "class": arguments.get("class")}

    def get_mcp_prompts(self):
        return [{"name": "report", "arguments": [{"name": "for", "required": True}, {"name": "tone"}]}]

    def get_mcp_prompt(self, name, arguments):
        return f"{sorted(arguments.items())}"

    def get_mcp_resources(self):
        return [{"uri": "shop://stock", "name": "stock"}]

    def get_mcp_resource_templates(self):
        return [{"uriTemplate": "shop://item/{sku}", "name": "item"}]

    def read_mcp_resource(self, uri):
        return b"\\x00" if uri == "shop://stock" else uri
"""


USE = """\
from shop_client import Connection, ShopClient


async def total(connection: Connection) -> int:
    found = await ShopClient(connection).order_items(items=[{"sku": "a"}], class_="b")
    return found["total"]
"""
"""What the type checker sees of one."""


class Opened:
    """A connection of our own with the methods of a client."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def call_tool(self, name: str, arguments: JSON, /) -> JSON:
        return await self._connection.request("tools/call", {"name": name, "arguments": arguments})

    async def get_prompt(self, name: str, arguments: dict[str, str], /) -> JSON:
        return await self._connection.request("prompts/get", {"name": name, "arguments": arguments})

    async def read_resource(self, uri: str, /) -> JSON:
        return await self._connection.request("resources/read", {"uri": uri})


def ran(folder: Path, *module: str) -> None:
    """Run a program of Python, which must succeed."""
    command = [sys.executable, "-m", *module]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr


def loaded(file: Path) -> Any:
    """A module."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def methods(source: str) -> list[str]:
    """The asynchronous methods of a generated client."""
    return [node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.AsyncFunctionDef)]


def annotation(schema: JSON) -> str:
    """The type that one required parameter gets."""
    tool: JSON = {"name": "t", "inputSchema": {"properties": {"p": schema}, "required": ["p"]}}
    source = client_module(ServerOffer("s", [tool]))
    [method] = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.AsyncFunctionDef)]
    found = method.args.kwonlyargs[0].annotation
    assert found is not None
    return ast.unparse(found)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, "str"),
        ({"type": "integer"}, "int"),
        ({"type": "number"}, "float"),
        ({"type": "boolean"}, "bool"),
        ({"enum": ["a", "b"]}, "Literal['a', 'b']"),
        ({"enum": [1.5, 2]}, "float | int"),
        ({"const": "a"}, "Literal['a']"),
        ({"type": ["null", "string"]}, "str | None"),
        ({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, "list[list[int]]"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "string"}]}, "str | None"),
        ({"anyOf": [{"type": "string"}, {}]}, "Any"),
        ({"allOf": [{"minimum": 1}, {"type": "integer"}]}, "int"),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, "TP"),
        ({"type": ["object", "null"], "properties": {"a": {"type": "string"}}}, "TP | None"),
        ({"type": ["null", "object", "string"], "properties": {"a": {}}}, "TP | str | None"),
        ({"$ref": "http://127.0.0.1:9/schema"}, "Any"),
        ({}, "Any"),
        ({"type": "no such type"}, "Any"),
    ],
)
def test_a_schema_becomes_the_type_of_what_it_allows(schema: JSON, expected: str) -> None:
    assert annotation(schema) == expected


def test_hostile_definitions_make_a_module_in_which_nothing_is_lost() -> None:
    source = client_module(HOSTILE)
    found = methods(source)
    assert len(found) == len(set(found))
    assert {"class_", "list_", "a_b", "a_b_2", "a_b_3", "a_b_4", "a_b_5", "read", "read_", "free"} <= {*found}
    assert [name for name in found if name.startswith("prompt_")] == ["prompt_list", "prompt_list_2"]
    assert {"read_class", "read_class_2", "read_note", "read_self"} <= {*found}
    source.encode()


def test_only_what_the_code_of_a_module_needs_is_in_it() -> None:
    names = "base64. they're. Literal NotRequired TypedDict cast runtime_checkable quote"
    source = client_module(ServerOffer("s", [{"name": "t", "description": names, "inputSchema": {}}]))
    imported = [
        name.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    ]
    assert imported == ["annotations", "Awaitable", "Mapping", "Any", "Protocol", "cast"]
    assert "def _answer(" not in client_module(ServerOffer("s", [], [{"name": "p"}]))


def test_parameters_of_all_languages_keep_their_names() -> None:
    keys = ("größe", "名前", "ﬁ", "fi", "²", "a b", "for")
    tool: JSON = {"name": "t", "inputSchema": {"properties": {key: {} for key in keys}}}
    source = client_module(ServerOffer("s", [tool]))
    [method] = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.AsyncFunctionDef)]
    names = [argument.arg for argument in method.args.kwonlyargs]
    assert names == ["größe", "名前", "value", "fi", "value_2", "a_b", "for_"]


async def test_a_tool_that_may_answer_with_null_may_do_so() -> None:
    source = client_module(
        ServerOffer("s", [{"name": "t", "inputSchema": {}, "outputSchema": {"type": ["object", "null"]}}])
    )
    namespace: dict[str, Any] = {"__name__": "generated"}
    exec(compile(source, "generated", "exec", dont_inherit=True), namespace)

    class Nothing:
        async def call_tool(self, name: str, arguments: JSON) -> JSON:
            return {"content": [], "structuredContent": None}

    assert await namespace["SClient"](Nothing()).t() is None


def test_the_order_of_definitions_changes_nothing() -> None:
    again = ServerOffer(
        HOSTILE.server, HOSTILE.tools[::-1], HOSTILE.prompts, HOSTILE.resources[::-1], HOSTILE.templates[::-1]
    )
    assert client_module(again) == client_module(HOSTILE) == client_module(HOSTILE)


def test_a_schema_that_refers_to_itself_many_times_makes_no_endless_type() -> None:
    levels = {
        f"L{number}": {
            "anyOf": [
                {"type": "array", "items": {"$ref": f"#/$defs/L{number + 1}"}},
                {"$ref": f"#/$defs/L{number + 1}"},
            ]
        }
        for number in range(60)
    }
    deep: JSON = {"type": "string"}
    for _ in range(200):
        deep = {"type": "array", "items": deep}
    schema = {"properties": {"a": {"$ref": "#/$defs/L0"}, "deep": deep}, "$defs": levels | {"L60": {"type": "string"}}}
    source = client_module(ServerOffer("s", [{"name": "t", "inputSchema": schema}]))
    ast.parse(source)
    assert len(source) < 20_000


TEXTS = st.text(max_size=12) | st.sampled_from(
    ["self", "class", "a-b", "a_b", "__x", "None", '"""', "\\", "str", "Any", "cast", "given", "read"]
)
LEAVES: list[Any] = [
    {},
    True,
    {"type": "string"},
    {"type": ["integer", "null"]},
    {"type": 5},
    {"$ref": "#"},
    {"$ref": "#/properties/a-b"},
]


def enumeration(values: list[Any]) -> Any:
    return {"enum": values}


def within(parts: list[Any], keyword: str, names: list[str]) -> Any:
    """A schema that has others in it."""
    match keyword:
        case "items":
            return {"type": "array", "items": parts[0]}
        case "properties":
            return {"type": "object", "properties": dict(zip(names, parts, strict=False)), "required": names[:2]}
        case _:
            return {keyword: parts}


def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        within,
        st.lists(inner, min_size=1, max_size=4),
        st.sampled_from(["items", "properties", "properties", "anyOf", "allOf"]),
        st.lists(TEXTS, max_size=4),
    )


VALUES: st.SearchStrategy[Any] = TEXTS | st.none() | st.integers() | st.booleans()
SMALL: st.SearchStrategy[Any] = st.sampled_from(LEAVES) | st.lists(VALUES, min_size=1, max_size=4).map(enumeration)
SCHEMAS: st.SearchStrategy[Any] = st.recursive(SMALL, larger, max_leaves=8)
FIELDS: dict[str, st.SearchStrategy[Any]] = {"name": TEXTS, "inputSchema": SCHEMAS}
FURTHER: dict[str, st.SearchStrategy[Any]] = {"description": TEXTS, "outputSchema": SCHEMAS}
TOOLS: st.SearchStrategy[list[JSON]] = st.lists(st.fixed_dictionaries(FIELDS, optional=FURTHER), max_size=4)


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(TEXTS, TOOLS, st.lists(st.fixed_dictionaries({"name": TEXTS, "uri": TEXTS, "uriTemplate": TEXTS}), max_size=3))
def test_whatever_a_server_says_the_module_runs(server: str, tools: list[JSON], others: list[JSON]) -> None:
    source = client_module(ServerOffer(server, tools, others, others, others))
    namespace: dict[str, Any] = {"__name__": "generated"}
    exec(compile(source, "generated", "exec", dont_inherit=True), namespace)
    found = methods(source)
    assert len(found) == len(set(found))
    for line in source.splitlines():
        assert line == line.rstrip()


@pytest.mark.timeout(180)
def test_generated_clients_are_typed_strictly_and_formatted(tmp_path: Path) -> None:
    samples = {
        "hostile": HOSTILE,
        "empty": ServerOffer(""),
        "node": ServerOffer("s", [{"name": "n", "inputSchema": NODE | {"$defs": {"Node": NODE}}}]),
    }
    for name, offer in samples.items():
        (tmp_path / f"{name}.py").write_text(client_module(offer), "utf-8")
    (tmp_path / "shop_agent.py").write_text(SAMPLE, "utf-8")
    for target in ("code", "project", "shop_agent.py"):
        generated(tmp_path, target, f"{target.partition('_')[0]}_client.py")
    (tmp_path / "use.py").write_text(USE, "utf-8")
    files = [name.name for name in tmp_path.glob("*.py") if name.name != "shop_agent.py"]
    ran(tmp_path, "mypy", "--strict", "--config-file=", "--no-incremental", *files)
    formatted = {*files} - {"hostile.py"}  # whose names alone are longer than lines
    ran(tmp_path, "ruff", "format", "--isolated", "--line-length=120", "--check", *formatted)


def generated(folder: Path, target: str, file: str) -> Path:
    """A client that the command has written."""
    name = "".join(word.title() for word in file.removesuffix(".py").split("_"))
    ran(folder, "gaia_bridge", "generate", "client", target, "-o", file, "--class-name", name)
    return folder / file


class Sign:
    """Hangs in a window."""

    @tool
    def turn(self, side: str) -> str:
        return f"turned to {side}"

    @prompt
    def read_out(self) -> str:
        return "Read it out."

    @resource("shop://sign")
    def sign(self) -> str:
        return "open"


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_client_of_ours_is_a_connection_of_a_generated_one(tmp_path: Path, era: Any) -> None:
    async with Client(Sign(), era=era) as connection:
        offer = ServerOffer(
            "Shop",
            await connection.list_tools(),
            await connection.list_prompts(),
            await connection.list_resources(),
        )
        (tmp_path / "sign_client.py").write_text(client_module(offer), "utf-8")
        client = loaded(tmp_path / "sign_client.py").ShopClient(connection)
        assert await client.turn(side="closed") == {"result": "turned to closed"}
        [message] = await client.prompt_read_out()
        assert message["content"]["text"] == "Read it out."
        assert await client.read_sign() == "open"


@pytest.mark.parametrize("era", [Era.LEGACY, Era.MODERN])
async def test_a_generated_client_calls_a_real_server_in_both_eras(tmp_path: Path, era: Era) -> None:
    file = tmp_path / "shop_agent.py"
    file.write_text(SAMPLE, "utf-8")
    module = loaded(generated(tmp_path, "shop_agent.py", "shop_client.py"))
    command = ("-m", "gaia_bridge", "serve", str(file), "--stdio")
    server = StdioTransport(StdioServerSpec("shop", sys.executable, command), UpstreamLimits())
    async with connect(server, ClientDelegate(), UpstreamLimits(), era=era) as connection:
        assert connection.handshake.era is era
        client = module.ShopClient(Opened(connection))
        items = [{"sku": "a", "count": 2}, {"sku": "b", "count": 3}]
        assert await client.order_items(items=items) == {"total": 5, "class": None}
        assert await client.order_items(items=[], class_="x") == {"total": 0, "class": "x"}
        said = await client.say(arguments={"b": 1, "a": 2})
        assert (said, said.content[0]["type"]) == ("said ['a', 'b']", "text")
        with pytest.raises(module.ToolFailedError, match="no items"):
            await client.fail()
        [message] = await client.prompt_report(for_="me")
        assert message["content"]["text"] == "[('for', 'me')]"
        assert await client.read_stock() == b"\x00"
        assert await client.read_item(sku="a/b c") == "shop://item/a%2Fb%20c"


@pytest.mark.thorough
@pytest.mark.timeout(180)
@needs(*TYPESCRIPT)
async def test_a_generated_client_of_the_reference_server_is_typed_formatted_and_used_with_a_manager(
    tmp_path: Path,
) -> None:
    with required("MCP servers written in TypeScript"):
        command = [node(), script("server-everything"), "stdio"]
    options = ["-o", "everything.py", "--class-name", "Everything", "--", *command]
    for module in (
        ["gaia_bridge", "generate", "client", *options],
        ["ruff", "format", "--isolated", "--line-length=120", "--check", "everything.py"],
        ["mypy", "--strict", "--config-file=", "everything.py"],
    ):
        ran(tmp_path, *module)
    file = tmp_path / "servers.json"
    entry = {"command": command[0], "args": command[1:]}
    file.write_text(json.dumps({"mcpServers": {"everything": entry}}), "utf-8")
    async with MCPClientManager(str(file)) as manager:
        client = loaded(tmp_path / "everything.py").Everything(manager.sessions["everything"])
        assert await client.get_sum(a=2, b=3) == "The sum of 2 and 3 is 5."
        assert {"temperature", "conditions"} <= {*await client.get_structured_content(location="Chicago")}


async def test_a_connection_that_only_calls_tools_will_do_until_more_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "shop_agent.py").write_text(SAMPLE, "utf-8")
    module = loaded(generated(tmp_path, "shop_agent.py", "shop_client.py"))

    class Tools:
        async def call_tool(self, name: str, arguments: JSON) -> JSON:
            return {"content": [{"type": "text", "text": json.dumps([name, arguments])}]}

    client = module.ShopClient(Tools())
    assert await client.say() == '["say", {}]'
    with pytest.raises(module.ToolFailedError, match="without the structured content that it promised"):
        await client.order_items(items=[])
    with pytest.raises(TypeError, match="Tools has no get_prompt"):
        await client.prompt_report(for_="me")


def test_only_what_was_generated_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "shop_agent.py").write_text(SAMPLE, "utf-8")
    first = generated(tmp_path, "shop_agent.py", "shop_client.py").read_text("utf-8")
    assert generated(tmp_path, "shop_agent.py", "shop_client.py").read_text("utf-8") == first
    for options, complaint in (
        (["-o", "shop_agent.py"], "was not generated"),
        (["--class-name", "class"], "is no name of a class"),
    ):
        command = [sys.executable, "-m", "gaia_bridge", "generate", "client", "shop_agent.py", *options]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert (result.returncode, complaint in result.stderr) == (64, True), result.stderr
    assert (tmp_path / "shop_agent.py").read_text("utf-8") == SAMPLE


class _CountingSet(set[str]):
    """A set that counts how often it was looked into."""

    looks = 0

    def __contains__(self, name: object) -> bool:
        self.looks += 1
        return super().__contains__(name)


class _CountedNames(Names):
    def __init__(self) -> None:
        super().__init__()
        self._taken = self.taken = _CountingSet()


def test_many_names_that_become_one_cost_no_more_than_others() -> None:
    names = _CountedNames()
    assert [names.new("a") for _ in range(1_000)][-1] == "a_1000"
    assert names.taken.looks <= 3_000
    assert [names.new("b_2"), names.new("b"), names.new("b")] == ["b_2", "b", "b_3"]
