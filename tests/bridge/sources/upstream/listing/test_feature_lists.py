"""What a server says about itself and what it lists, as an offer: nothing of it is believed unseen."""

from __future__ import annotations

from typing import Any

import pytest

from gaia_bridge.client import ServerHandshake
from gaia_bridge.model import Change, ChangeKind, ServerFeatures, ServerInfo, ServerOptions
from gaia_bridge.protocol.kinds import PROMPT, TOOL
from gaia_bridge.protocol.meta import LEFT_OUT_KEY
from gaia_bridge.sources.upstream.listing.feature_lists import (
    changes,
    introduced,
    no_features,
    with_list,
    with_lists_of,
)
from gaia_bridge.sources.upstream.listing.tool_transforms import permitted
from gaia_bridge.text.json_types import JSON


def handshake(
    info: JSON | None = None, capabilities: JSON | None = None, instructions: str | None = None
) -> ServerHandshake:
    return ServerHandshake("2025-11-25", False, info or {}, capabilities or {}, instructions)


def tools(*schemas: Any) -> ServerFeatures:
    items = [{"name": f"t{number}", "inputSchema": schema} for number, schema in enumerate(schemas)]
    return with_list(no_features("up"), TOOL, items)


def test_a_server_introduces_itself() -> None:
    icons = [{"src": "https://example.com/i.png", "sizes": ["48x48"]}]
    told: JSON = {"name": "raw", "version": "9", "title": "Raw", "websiteUrl": "https://example.com", "icons": icons}
    capabilities: JSON = {"tools": {}, "logging": {}, "experimental": {}, "prompts": None}
    features = introduced("up", handshake(told, capabilities, "Be raw."))
    assert features.info == ServerInfo(
        "raw", "9", "Raw", instructions="Be raw.", website_url="https://example.com", icons=tuple(icons)
    )
    assert features.capabilities == {"tools", "logging"}


@pytest.mark.requirement("S-27")
@pytest.mark.parametrize(
    "told",
    [
        {},
        {"name": 5, "version": [], "title": {}, "description": None, "websiteUrl": 1, "icons": "x"},
        {"name": "", "icons": [5, None]},
    ],
)
def test_a_server_that_does_not_say_who_it_is_goes_by_the_name_of_its_entry(told: JSON) -> None:
    assert introduced("up", handshake(told)).info == ServerInfo("up", "")


def test_what_cannot_be_passed_on_of_an_introduction_is_left_out() -> None:
    features = introduced("up", handshake({"name": "raw", "version": "1", "icons": [{"sizes": 5}], "websiteUrl": "x"}))
    assert features.info == ServerInfo("raw", "1")


@pytest.mark.requirement("F-037")
def test_every_hostile_schema_costs_only_its_own_tool() -> None:
    twice: JSON = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(21)}
    deep: JSON = {}
    for _ in range(10_000):
        deep = {"not": deep}
    hostile: list[Any] = [
        {"$ref": "http://127.0.0.1:1/x"},
        {"$ref": "//example.com/x"},
        {"$ref": "other.json"},
        {"$ref": "#gone"},
        {"$dynamicRef": "#/gone"},
        {"properties": {"enum": {"$ref": "http://127.0.0.1:1/x"}}},
        {"anyOf": [{"items": [{"$ref": "http://127.0.0.1:1/x"}]}]},
        {"$ref": "#/$defs/a0", "$defs": {**twice, "a21": {}}},
        {"$ref": "#/$defs/0", "$defs": {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(3_000)} | {"3000": {}}},
        {"$defs": {str(n): {"a": {}, "b": [1]} for n in range(4_000)}},
        deep,
        {"description": "x" * 300_000},
        [],
        "object",
        True,
    ]
    features = tools(*hostile, {"type": "object"})
    assert [tool["name"] for tool in features.tools] == [f"t{len(hostile)}"]
    assert len(features.left_out) == len(hostile)


def test_a_tool_is_published_without_the_part_of_its_output_schema_that_leads_outside() -> None:
    output = {"type": "object", "$ref": "http://127.0.0.1:1/x"}
    item = {"name": "a", "inputSchema": {"type": "object"}, "outputSchema": output}
    features = with_list(no_features("up"), TOOL, [item])
    [left_out] = features.left_out
    assert left_out.kind == "part of the output schema of tool"
    assert left_out.reason == "not every client can compile it at /$ref: 'http://127.0.0.1:1/x'"
    assert features.tools == ({**item, "outputSchema": {"type": "object"}},)
    assert with_list(features, TOOL, []).left_out == ()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"properties": {"$ref": {"type": "string"}, "default": {"$ref": "#/properties/$ref"}}},
        {"default": {"$ref": "http://example.com"}, "properties": {"a": {"enum": [{"$ref": "x"}]}}},
        {"$ref": "#/$defs/a~1b~0c%20d", "$defs": {"a/b~c d": {}}},
        {"$ref": "#/anyOf/1", "anyOf": [{}, {"type": "object"}]},
        {"$defs": {"a": {"$anchor": "here"}}, "properties": {"a": {"$ref": "#here"}}},
        {"$id": "https://example.com/s", "$ref": "https://example.com/s#/$defs/b", "$defs": {"b": {}}},
        {"$defs": {"n": {"properties": {"l": {"$ref": "#/$defs/n"}, "r": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"},
        {"properties": {"a": {"pattern": "^(a+)+$"}}},
        {"properties": {"a": {"$ref": 5}}},
    ],
)
def test_a_schema_that_only_looks_strange_is_let_through(schema: JSON) -> None:
    features = tools(schema)
    assert (len(features.tools), features.left_out) == (1, ())


def test_no_prompt_is_too_deep_to_be_read_again() -> None:
    deep: JSON = {}
    for _ in range(10_000):
        deep = {"a": [deep]}
    features = with_list(no_features("up"), PROMPT, [{"name": "p", "_meta": deep}, {"name": "q", "_meta": {"a": [1]}}])
    assert [prompt["name"] for prompt in features.prompts] == ["q"]


def test_the_configuration_says_which_tools_there_are() -> None:
    features = tools({}, {}, {})
    for options, expected in (
        (ServerOptions(), ["t0", "t1", "t2"]),
        (ServerOptions(allowed_tools=("t1", "t9")), ["t1"]),
        (ServerOptions(allowed_tools=()), []),
        (ServerOptions(disabled_tools=("t1",)), ["t0", "t2"]),
        (ServerOptions(allowed_tools=("t0", "t1"), disabled_tools=("t0",)), ["t1"]),
    ):
        assert [tool["name"] for tool in permitted(features, options).tools] == expected


def test_lists_that_a_server_no_longer_has_are_not_kept() -> None:
    old = with_list(tools({}), PROMPT, [{"name": "p"}])
    kept = with_lists_of(introduced("up", handshake(capabilities={"tools": {}})), old)
    assert (kept.tools, kept.prompts) == (old.tools, ())


def test_a_change_is_told_by_the_list_that_changed() -> None:
    old = tools({})
    assert changes(old, old) == ()
    assert changes(old, tools({}, {})) == (Change(ChangeKind.TOOLS),)
    declared = introduced("up", handshake(capabilities={"resources": {}}))
    assert changes(no_features("up"), declared) == (Change(ChangeKind.RESOURCES), Change(ChangeKind.INTRODUCTION))


@pytest.mark.requirement("F-305")
def test_what_is_written_for_models_hides_nothing_from_people() -> None:
    hidden = "Add.\U000e0053\U000e0065\u202e\u2066 Really.\u200d"
    shown = "Add. Really.\u200d"
    schema = {
        "type": "object",
        "properties": {"description": {"type": "string", "description": hidden}, "b\u202e": {"title": hidden}},
    }
    texts = {"title": hidden, "description": hidden, "x": [{"title": hidden}]}
    definition = {"name": "t\u202e", **texts, "inputSchema": schema}
    [tool] = with_list(no_features("up"), TOOL, [definition]).tools
    assert tool["name"] == "t\u202e"
    assert (tool["title"], tool["description"], tool["x"]) == (shown, shown, [{"title": shown}])
    assert tool["inputSchema"]["properties"] == {
        "description": {"type": "string", "description": shown},
        "b\u202e": {"title": shown},
    }
    assert introduced("up", handshake(instructions=hidden)).info.instructions == shown


def test_what_is_listed_with_a_reason_not_to_be_offered_is_left_out_with_it() -> None:
    refused: JSON = {
        "name": "t",
        "inputSchema": {"type": "object"},
        "_meta": {LEFT_OUT_KEY: "it is\nXML " + "x" * 1_000},
    }
    features = with_list(no_features("up"), TOOL, [refused, {**refused, "name": "u", "_meta": {LEFT_OUT_KEY: 1}}])
    assert [tool["name"] for tool in features.tools] == ["u"]
    [item] = features.left_out
    assert (item.kind, item.name, item.reason[:12], len(item.reason) <= 510) == ("tool", "t", "it is XML xx", True)
