"""What an agent declares is published as it stands; what cannot be published is left out alone, with its reason."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Generator, Iterator
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.model import LeftOut, ServerFeatures, ServerInfo
from gaia_bridge.protocol.vocabulary import definition_problem, for_legacy
from gaia_bridge.runtime.agent_runner import AgentRunner
from gaia_bridge.settings import AgentLimits
from gaia_bridge.sources.agent.definitions import Definitions, read_definitions
from gaia_bridge.text.json_types import JSON, is_array
from tests.support.waiting import PATIENCE

LIMITS = AgentLimits()

RICH_TOOL: JSON = {
    "name": "find-books",
    "title": "Find books",
    "description": "Finds books.\nSecond line, é",
    "icons": [{"src": "https://example.com/i.svg", "mimeType": "image/svg+xml", "sizes": ["48x48"]}],
    "annotations": {"title": "Find", "readOnlyHint": True, "openWorldHint": False},
    "inputSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "title": "Query",
        "properties": {
            "kind": {"type": "string", "enum": ["novel", "poem"], "default": "novel", "description": "What"},
            "year": {"type": ["integer", "null"], "minimum": 1450, "maximum": 2100},
            "author": {"$ref": "#/$defs/author"},
            "class": {"oneOf": [{"const": 1}, {"const": "x"}]},
        },
        "required": ["kind"],
        "additionalProperties": False,
        "$defs": {"author": {"type": "object", "properties": {"name": {"type": "string", "title": "Name"}}}},
    },
    "outputSchema": {"type": "object", "properties": {"books": {"type": "array", "items": {"type": "string"}}}},
    "_meta": {"ui": {"resourceUri": "ui://x"}},
}


@pytest.fixture
def runner() -> Iterator[AgentRunner]:
    made = AgentRunner("test", 2, 0)
    yield made
    made.close()


def agent(**methods: Any) -> Any:
    """An object with these methods; a list stands for a method that returns it."""
    made = SimpleNamespace(get_mcp_tool_definitions=list, execute_mcp_tool=None)
    for name, method in methods.items():
        setattr(made, name, method if callable(method) else lambda method=method: method)
    return made


async def read(
    runner: AgentRunner, limits: AgentLimits = LIMITS, known: ServerFeatures | None = None, **methods: Any
) -> Definitions:
    with anyio.fail_after(PATIENCE):
        return await read_definitions(agent(**methods), runner, limits, known)


def reasons(definitions: Definitions) -> dict[str, str]:
    return {item.name: item.reason for item in definitions.features.left_out}


@pytest.mark.anyio
@pytest.mark.requirement("S1-5", "S1-10")
async def test_a_definition_is_offered_with_every_field_it_has(runner: AgentRunner) -> None:
    read_back = await read(runner, get_mcp_tool_definitions=[RICH_TOOL])
    assert list(read_back.features.tools) == [RICH_TOOL]
    assert not read_back.features.left_out


@pytest.mark.anyio
async def test_what_an_agent_changes_later_does_not_change_what_was_read(runner: AgentRunner) -> None:
    own = json.loads(json.dumps(RICH_TOOL))
    read_back = await read(runner, get_mcp_tool_definitions=[own])
    own["inputSchema"]["properties"].clear()
    assert list(read_back.features.tools) == [RICH_TOOL]


@pytest.mark.anyio
@pytest.mark.requirement("S1-18")
async def test_an_empty_schema_becomes_an_object_schema(runner: AgentRunner) -> None:
    read_back = await read(runner, get_mcp_tool_definitions=[{"name": "a", "inputSchema": {}}, {"name": "b"}])
    assert [tool["inputSchema"] for tool in read_back.features.tools] == [{"type": "object", "properties": {}}] * 2


@pytest.mark.anyio
@pytest.mark.requirement("S1-10", "S1-22", "S-6", "S-30")
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("text", "not an object"),
        (None, "not an object"),
        ({"inputSchema": {}}, "name"),
        ({"name": "bad", "inputSchema": {"type": "string"}}, "inputSchema"),
        ({"name": "bad", "inputSchema": []}, "inputSchema"),
        ({"name": "good"}, "same name"),
        ({"name": "bad", "inputSchema": {"properties": {"x": {"type": "widget"}}}}, "/properties/x/type"),
        ({"name": "bad", "inputSchema": {"properties": {"x": {"pattern": "("}}}}, "regex"),
        ({"name": "bad", "inputSchema": {"$ref": "https://example.com/s.json"}}, "https://example.com/s.json"),
        ({"name": "bad", "outputSchema": {"type": "object", "$ref": "#/nowhere"}}, "nowhere"),
        ({"name": "bad", "inputSchema": {"description": "x" * 300_000}}, "at most 262,144"),
        ({"name": "bad", "inputSchema": {"properties": {"x": {"x-mcp-header": "X"}}}}, "x-mcp-header"),
    ],
)
async def test_one_bad_definition_is_left_out_alone(runner: AgentRunner, bad: Any, reason: str) -> None:
    read_back = await read(runner, get_mcp_tool_definitions=[{"name": "good"}, bad, {"name": "also-good"}])
    assert [tool["name"] for tool in read_back.features.tools] == ["good", "also-good"]
    assert list(read_back.tools) == ["good", "also-good"]
    [left_out] = read_back.features.left_out
    assert left_out.kind == "tool"
    assert reason in left_out.reason


@pytest.mark.anyio
@pytest.mark.requirement("S1-10")
async def test_a_pattern_that_only_python_compiles_is_checked_but_not_published(runner: AgentRunner) -> None:
    output = {"type": "object", "properties": {"code": {"type": "string", "pattern": "(?P<code>a+)"}}}
    read_back = await read(runner, get_mcp_tool_definitions=[{"name": "coded", "outputSchema": output}])
    [published] = read_back.features.tools
    assert published["outputSchema"] == {"type": "object", "properties": {"code": {"type": "string"}}}
    [left_out] = read_back.features.left_out
    assert (left_out.kind, left_out.name) == ("part of the output schema of tool", "coded")
    assert "at /properties/code/pattern" in left_out.reason
    validator = read_back.tools["coded"].output
    assert validator is not None
    assert validator.errors({"code": "b"}) is not None


@pytest.mark.anyio
async def test_a_nameless_definition_is_known_by_its_place_and_a_long_name_is_cut(runner: AgentRunner) -> None:
    read_back = await read(runner, get_mcp_tool_definitions=[{"name": "a"}, 5, {"name": "x" * 5_000, "inputSchema": 1}])
    assert [item.name for item in read_back.features.left_out] == ["#2", "x" * 100]


@pytest.mark.anyio
@pytest.mark.requirement("S1-14", "S1-15", "P-10")
async def test_capabilities_follow_what_the_agent_has(runner: AgentRunner) -> None:
    hook: Callable[..., Any] = lambda *_: None  # noqa: E731 - any callable
    bare = await read(runner)
    assert bare.features.capabilities == {"tools", "logging"}
    assert (await read(runner, get_mcp_prompts=[])).features.capabilities == bare.features.capabilities
    listed = await read(runner, get_mcp_prompts=[{"name": "p"}], get_mcp_resources=[{"uri": "u:x", "name": "x"}])
    assert listed.features.capabilities == {"tools", "logging", "prompts", "resources"}
    hooks = await read(runner, get_mcp_prompt=hook, read_mcp_resource=hook, complete_mcp_argument=hook)
    assert hooks.features.capabilities == {"tools", "logging", "prompts", "resources", "completions"}
    templates = await read(runner, get_mcp_resource_templates=[{"uriTemplate": "u:{x}", "name": "x"}])
    assert templates.features.capabilities == {"tools", "logging", "resources"}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "field", "good", "bad"),
    [
        ("get_mcp_prompts", "prompts", {"name": "p", "arguments": [{"name": "a", "required": True}]}, {"name": 5}),
        ("get_mcp_resources", "resources", {"uri": "u:x", "name": "x", "size": 3}, {"uri": "u:y"}),
        ("get_mcp_resource_templates", "templates", {"uriTemplate": "u:{x}", "name": "x"}, {"uriTemplate": "u:{x}"}),
    ],
)
@pytest.mark.requirement("S1-14", "S1-15")
async def test_prompts_resources_and_templates_are_judged_one_by_one_too(
    runner: AgentRunner, method: str, field: str, good: JSON, bad: JSON
) -> None:
    methods: dict[str, Any] = {method: [bad, good, good]}
    read_back = await read(runner, **methods)
    assert list(getattr(read_back.features, field)) == [good]
    assert len(read_back.features.left_out) == 2


@pytest.mark.anyio
async def test_definitions_may_come_from_a_generator_a_tuple_or_a_coroutine(runner: AgentRunner) -> None:
    def generator() -> Generator[JSON]:
        yield {"name": "a"}

    async def coroutine() -> tuple[JSON, ...]:
        return ({"name": "a"},)

    for method in (generator, coroutine):
        read_back = await read(runner, get_mcp_tool_definitions=method)
        assert list(read_back.tools) == ["a"]


def _raise(error: BaseException) -> Callable[[], Any]:
    def method() -> Any:
        raise error

    return method


class BadWords(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


KNOWN = ServerFeatures(ServerInfo("known", "1"), tools=({"name": "known", "inputSchema": {"type": "object"}},))


@pytest.mark.anyio
@pytest.mark.requirement("F-100", "F-101", "F-103")
@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (_raise(RuntimeError("hunter2")), "failed with RuntimeError"),
        (_raise(SystemExit(3)), "failed with SystemExit"),
        (_raise(KeyboardInterrupt()), "failed with KeyboardInterrupt"),
        (_raise(BadWords()), "failed with BadWords"),
        (lambda: {"name": "a"}, "returned dict where a list was expected"),
        (lambda: [object()], "no JSON form"),
        (lambda: _raise(SystemExit(3))(), "failed with SystemExit"),
        (lambda: (_raise(SystemExit(3))() for _ in range(1)), "failed with SystemExit"),
    ],
)
async def test_an_agent_that_fails_to_say_what_it_has_keeps_what_was_known(
    runner: AgentRunner, method: Callable[[], Any], reason: str
) -> None:
    nothing = await read(runner, get_mcp_tool_definitions=method)
    assert nothing.features.tools == ()
    read_back = await read(runner, known=KNOWN, get_mcp_tool_definitions=method)
    assert read_back.features.tools == KNOWN.tools
    assert list(read_back.tools) == ["known"]
    [(name, said)] = reasons(read_back).items()
    assert name == "all of get_mcp_tool_definitions()"
    assert reason in said
    assert "hunter2" not in said


@pytest.mark.anyio
@pytest.mark.requirement("F-107")
async def test_an_agent_that_does_not_say_in_time_keeps_what_was_known(runner: AgentRunner) -> None:
    release = threading.Event()

    def stuck() -> list[JSON]:
        release.wait(PATIENCE)
        return [{"name": "late"}]

    limits = AgentLimits(definitions_timeout=0.5)
    try:
        read_back = await read(runner, limits, KNOWN, get_mcp_tool_definitions=stuck, get_mcp_prompts=[{"name": "p"}])
        assert list(read_back.tools) == ["known"]
        assert [prompt["name"] for prompt in read_back.features.prompts] == ["p"]
        assert "within 0.5 s" in reasons(read_back)["all of get_mcp_tool_definitions()"]
        again = await read(runner, limits, KNOWN, get_mcp_tool_definitions=stuck)
        assert "within" in reasons(again)["all of get_mcp_tool_definitions()"]
        both_stuck = await read(runner, limits, KNOWN, get_mcp_tool_definitions=stuck)
        assert "earlier call" in reasons(both_stuck)["all of get_mcp_tool_definitions()"]
    finally:
        release.set()


@pytest.mark.anyio
async def test_an_attribute_that_cannot_even_be_looked_up_is_a_failure_of_the_agent(runner: AgentRunner) -> None:
    class Odd:
        def get_mcp_tool_definitions(self) -> list[JSON]:
            return [{"name": "a"}]

        @property
        def get_mcp_server_info(self) -> Any:
            raise SystemExit(3)

    read_back = await read_definitions(Odd(), runner, LIMITS)
    assert list(read_back.tools) == ["a"]
    assert read_back.features.info.name == "GAIA Odd"
    assert "SystemExit" in reasons(read_back)["all of get_mcp_server_info()"]


@pytest.mark.anyio
@pytest.mark.requirement("S1-8", "S1-16")
async def test_the_server_info_is_what_the_agent_says_with_the_documents_default(runner: AgentRunner) -> None:
    assert (await read(runner)).features.info == ServerInfo("GAIA SimpleNamespace", "2.0.0")
    icon = {"src": "https://example.com/i.png"}
    told = {
        "name": "Books",
        "version": 3,
        "title": "T",
        "description": "D",
        "instructions": "Ask first.",
        "websiteUrl": "https://example.com",
        "icons": [icon],
    }
    info = (await read(runner, get_mcp_server_info=lambda: told)).features.info
    assert info == ServerInfo("Books", "3", "T", "D", "Ask first.", "https://example.com", (icon,))


@pytest.mark.anyio
@pytest.mark.parametrize("icons", [[{"theme": "dark"}], [{"src": 5}], [{"src": "x", "sizes": "48x48"}]])
async def test_icons_that_cannot_be_carried_are_left_out_of_the_introduction(runner: AgentRunner, icons: Any) -> None:
    read_back = await read(runner, get_mcp_server_info=lambda: {"name": "Books", "icons": icons})
    assert read_back.features.info == ServerInfo("Books", "2.0.0")
    assert [item.kind for item in read_back.features.left_out] == ["server info"]


@pytest.mark.anyio
@pytest.mark.parametrize("told", [None, [], "Books", {"name": "", "version": None}, {"icons": "x", "websiteUrl": ""}])
async def test_an_introduction_that_says_nothing_is_the_default(runner: AgentRunner, told: Any) -> None:
    assert (await read(runner, get_mcp_server_info=lambda: told)).features.info == ServerInfo(
        "GAIA SimpleNamespace", "2.0.0"
    )


@pytest.mark.anyio
async def test_an_agent_that_fails_to_introduce_itself_keeps_its_introduction(runner: AgentRunner) -> None:
    read_back = await read(runner, known=KNOWN, get_mcp_server_info=_raise(RuntimeError()))
    assert read_back.features.info == KNOWN.info


@pytest.mark.anyio
@pytest.mark.requirement("S1-23")
@pytest.mark.parametrize(
    ("schema", "takes"),
    [
        ({}, False),
        ({"properties": {"kwargs": {}}}, True),
        ({"properties": {"a": {"properties": {"kwargs": {}}}}}, False),
        ({"required": ["kwargs"]}, False),
    ],
)
async def test_whether_kwargs_is_a_parameter_is_known(runner: AgentRunner, schema: JSON, takes: bool) -> None:
    read_back = await read(runner, get_mcp_tool_definitions=[{"name": "a", "inputSchema": schema}])
    assert read_back.tools["a"].takes_kwargs is takes


names = st.sampled_from(["a", "b", "", "a b", "é"]) | st.text(max_size=3)
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=3)
    | st.just(object()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
schema_like = st.fixed_dictionaries(
    {}, optional={"type": st.just("object"), "properties": anything, "$ref": st.just("#")}
)
tool_like = st.fixed_dictionaries({"name": names}, optional={"inputSchema": schema_like | anything, "x": anything})


@given(st.lists(tool_like | anything, max_size=4) | anything)
@pytest.mark.requirement("S1-10", "S1-22", "F-103")
def test_whatever_an_agent_declares_every_offered_tool_can_be_sent_and_every_other_has_a_reason(declared: Any) -> None:
    async def check() -> None:
        runner = AgentRunner("test", 1, 0)
        try:
            read_back = await read_definitions(agent(get_mcp_tool_definitions=lambda: declared), runner, LIMITS)
        finally:
            runner.close()
        assert all(definition_problem("tool", dict(tool)) is None for tool in read_back.features.tools)
        assert list(read_back.tools) == [tool["name"] for tool in read_back.features.tools]
        for tool in read_back.features.tools:
            for_legacy("tool", dict(tool))
            read_back.tools[tool["name"]].arguments.errors({})
        left_out = list(read_back.features.left_out)
        assert all(isinstance(item, LeftOut) and item.reason for item in left_out)
        if is_array(declared) and not any("all of" in item.name for item in left_out):
            assert len(read_back.features.tools) + len(left_out) == len(declared)

    anyio.run(check)


def without_end(item: JSON) -> Generator[JSON]:
    """Items for ever, each of another name."""
    for number in itertools.count():
        yield {key: f"{value}{number}" for key, value in item.items()}


ENDLESS: dict[str, tuple[str, JSON]] = {
    "tool": ("get_mcp_tool_definitions", {"name": "t"}),
    "prompt": ("get_mcp_prompts", {"name": "p"}),
    "resource": ("get_mcp_resources", {"uri": "file:///", "name": "r"}),
    "resource template": ("get_mcp_resource_templates", {"uriTemplate": "file:///", "name": "r"}),
}


@pytest.mark.anyio
@pytest.mark.requirement("F-224")
@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("limits", [AgentLimits(definitions=5, definitions_bytes=100_000), AgentLimits(definitions=50)])
async def test_definitions_without_end_are_left_out_with_the_bound_and_the_others_published(
    runner: AgentRunner, kind: str, limits: AgentLimits
) -> None:
    method, item = ENDLESS[kind]
    other = "get_mcp_prompts" if kind == "tool" else "get_mcp_tool_definitions"
    short = without_end(item) if limits.definitions_bytes < 1_000_000 else itertools.islice(without_end(item), 51)
    fine: JSON = {"name": "fine", "inputSchema": {}}
    listed: dict[str, Callable[[], Any]] = {method: lambda: (one for one in short), other: lambda: [fine]}
    with anyio.fail_after(PATIENCE):
        read = await read_definitions(agent(**listed), runner, limits)
    [left_out] = read.features.left_out
    assert (left_out.kind, left_out.name) == (kind, f"all of {method}()")
    assert ("100,000" if limits.definitions == 5 else "at most 50") in left_out.reason
    assert [definition["name"] for definition in (*read.features.tools, *read.features.prompts)] == ["fine"]
