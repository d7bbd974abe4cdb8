"""Tools as the configuration wants them: what they accept, what reaches the server, and what is left out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gaia_bridge.errors import ProtocolError, ToolError
from gaia_bridge.json_schema.validation import SchemaValidator
from gaia_bridge.model import ArgumentTransform, ListPage, ServerFeatures, ServerInfo, ServerOptions, ToolTransform
from gaia_bridge.sources.upstream.listing.tool_transforms import TransformedTools, transformed
from gaia_bridge.text.json_types import JSON

NAMES = st.sampled_from("abcdef")
VALUES = st.sampled_from([1, "x", None, [1], {"a": 1}])
SCHEMAS: st.SearchStrategy[Any] = st.sampled_from(
    [{}, True, {"type": "integer"}, {"type": "string"}, {"$ref": "#/$defs/n"}, {"default": 5}]
)


TAILORINGS = st.builds(
    ArgumentTransform,
    name=st.none() | st.sampled_from("abcxyz"),
    description=st.none() | st.just("told"),
    default=st.none() | VALUES,
    hidden=st.booleans(),
)


@st.composite
def tailored_tools(draw: st.DrawFn) -> tuple[JSON, dict[str, ArgumentTransform]]:
    """A tool, and what is made of its arguments; mostly they fit."""
    properties = draw(st.dictionaries(NAMES, SCHEMAS, min_size=1, max_size=4))
    schema: JSON = {"type": "object", "properties": properties, "$defs": {"n": {"type": "integer"}}}
    required = draw(st.lists(NAMES, unique=True, max_size=2))
    if required:
        schema["required"] = required
    schema |= draw(
        st.sampled_from([{}, {"additionalProperties": False}, {"additionalProperties": {"type": "integer"}}])
    )
    arguments = draw(st.dictionaries(st.sampled_from(sorted(properties)), TAILORINGS, min_size=1, max_size=3))
    return {"name": "t", "inputSchema": schema, "outputSchema": {"type": "object"}, "x-own": 1}, arguments


def features(*listed: JSON) -> ServerFeatures:
    return ServerFeatures(ServerInfo("up", "1"), tools=listed, capabilities=frozenset({"tools"}))


def tool(name: str, **schema: Any) -> JSON:
    return {"name": name, "inputSchema": {"type": "object", **schema}}


def named(**transforms: ToolTransform) -> ServerOptions:
    return ServerOptions(tools=transforms)


def names(found: TransformedTools) -> list[str]:
    return [item["name"] for item in found.features.tools]


def reasons(found: TransformedTools) -> dict[str, str]:
    beginning = "it cannot be as the configuration wants it: "
    return {item.name: item.reason.removeprefix(beginning) for item in found.features.left_out}


def reason(schema: JSON, **arguments: ArgumentTransform) -> str:
    found = transformed(features({"name": "t", "inputSchema": schema}), named(t=ToolTransform(arguments=arguments)))
    assert names(found) == []
    return reasons(found)["t"]


@given(tailored_tools(), st.data())
def test_a_tailored_tool_accepts_exactly_what_its_server_accepts_by_the_servers_names(
    case: tuple[JSON, dict[str, ArgumentTransform]], data: st.DataObject
) -> None:
    definition, arguments = case
    before = repr(definition)
    found = transformed(features(definition), named(t=ToolTransform(name="new", arguments=arguments)))
    assert repr(definition) == before
    if not found.features.tools:
        assert list(reasons(found)) == ["t"]
        return
    [shown] = found.features.tools
    assert {**shown, "name": "t", "inputSchema": definition["inputSchema"]} == definition
    schema, properties = shown["inputSchema"], definition["inputSchema"]["properties"]
    public = {own: transform.name or own for own, transform in arguments.items() if not transform.hidden}
    public = {own: public.get(own, own) for own in properties if own not in arguments or own in public}
    assert list(schema["properties"]) == list(public.values())
    some = st.dictionaries(st.sampled_from([*schema["properties"], *"abz"]), VALUES, max_size=4)
    given_by_client: JSON = data.draw(some)
    accepted = SchemaValidator(schema).errors(given_by_client) is None
    try:
        own_name, sent = found.call("new", given_by_client)
    except ToolError:
        assert set(given_by_client) & (set(arguments) - set(schema["properties"]))
        assert not accepted or schema.get("additionalProperties", True) is not False
        return
    assert own_name == "t"
    assert accepted == (SchemaValidator(definition["inputSchema"]).errors(sent) is None)
    for own, name in public.items():
        if name in given_by_client:
            assert sent[own] == given_by_client[name]
    for own, transform in arguments.items():
        if transform.hidden or public[own] not in given_by_client:
            assert sent.get(own) == transform.default
    unlisted = {name: value for name, value in given_by_client.items() if name not in schema["properties"]}
    assert unlisted.items() <= sent.items()
    assert len(sent) == len(given_by_client) + sum(
        transform.default is not None and (transform.hidden or public[own] not in given_by_client)
        for own, transform in arguments.items()
    )


def test_names_of_tools_and_arguments_may_be_exchanged() -> None:
    options = named(
        a=ToolTransform(name="b", arguments={"x": ArgumentTransform(name="y"), "y": ArgumentTransform(name="x")}),
        b=ToolTransform(name="a", title="A", description="Does a."),
    )
    found = transformed(
        features(tool("a", properties={"x": {}, "y": {}}, required=["y"]), tool("b"), tool("c")), options
    )
    assert found.features.tools == (
        tool("b", properties={"y": {}, "x": {}}, required=["x"]),
        {**tool("a"), "title": "A", "description": "Does a."},
        tool("c"),
    )
    assert found.call("b", {"x": 1, "y": 2}) == ("a", {"y": 1, "x": 2})
    assert found.call("a", {"x": 1}) == ("b", {"x": 1})
    assert found.call("c", {"x": 1}) == ("c", {"x": 1})


def test_a_name_that_is_not_published_leads_nowhere() -> None:
    options = ServerOptions(
        allowed_tools=("a", "b"), tools={"a": ToolTransform(name="n"), "b": ToolTransform(hidden=True)}
    )
    found = transformed(features(tool("a"), tool("b"), tool("c")), options)
    assert names(found) == ["n"]
    assert found.features.left_out == ()
    assert found.call("n", {}) == ("a", {})
    for name in "abc":
        with pytest.raises(ProtocolError, match=f"Unknown tool: {name}"):
            found.call(name, {})


def test_a_hidden_argument_cannot_be_given_by_its_own_name() -> None:
    hidden = ToolTransform(arguments={"repo": ArgumentTransform(default="ours", hidden=True)})
    definition = tool("t", properties={"repo": {"type": "string"}}, required=["repo"])
    found = transformed(features(definition), named(t=hidden))
    assert found.features.tools == (tool("t", properties={}, required=[]),)
    assert found.call("t", {}) == ("t", {"repo": "ours"})
    with pytest.raises(ToolError, match="tool 't' has no argument 'repo'"):
        found.call("t", {"repo": "theirs"})


def test_a_default_is_shown_in_place_of_the_servers_unless_it_comes_from_elsewhere() -> None:
    properties = {"zone": {"type": "string", "default": "UTC"}, "token": {"type": "string", "default": "none"}}
    arguments = {
        "zone": ArgumentTransform(default="Europe/Rome", description="Where."),
        "token": ArgumentTransform(default="s3cr3t-value", secret=True),
    }
    found = transformed(
        features(tool("t", properties=properties, required=["zone"])), named(t=ToolTransform(arguments=arguments))
    )
    shown = {"zone": {"type": "string", "description": "Where.", "default": "Europe/Rome"}, "token": {"type": "string"}}
    assert found.features.tools == (tool("t", properties=shown, required=[]),)
    assert found.call("t", {"zone": "UTC"}) == ("t", {"zone": "UTC", "token": "s3cr3t-value"})
    assert "s3cr3t" not in repr(found) + repr(arguments)


def test_what_does_not_fit_is_left_out_and_says_why() -> None:
    rename, hide = ArgumentTransform(name="n"), ArgumentTransform(hidden=True)
    x: JSON = {"type": "object", "properties": {"x": {"type": "integer"}, "n": {}}}
    assert reason(x, y=rename) == "it has no argument 'y'"
    assert reason({"type": "object"}, y=ArgumentTransform(description="d")) == "it has no argument 'y'"
    assert reason(x, x=rename) == "two of its arguments would be called 'n'"
    unlisted = {**x, "required": ["z"]}
    assert reason(unlisted, x=ArgumentTransform(name="z")) == "two of its arguments would be called 'z'"
    assert reason({**x, "required": ["x"]}, x=hide) == "it requires its argument 'x', which is hidden without a default"
    wrong = reason(x, x=ArgumentTransform(default="s3cr3t-value"))
    assert wrong == "the default of its argument 'x' does not fit the schema of that argument"
    depends = "which may depend on the names of its arguments"
    assert reason({**x, "anyOf": [{"required": ["x"]}]}, x=hide) == f"its input schema has 'anyOf', {depends}"
    circle = {**x, "$defs": {"self": {"items": {"$ref": "#"}}}}
    assert reason(circle, x=hide) == f"its input schema refers to '#', {depends}"


def test_what_a_schema_says_of_names_does_not_matter_to_a_new_description() -> None:
    schema: JSON = {"properties": {"x": {"$ref": "#"}}, "anyOf": [{"required": ["x"]}], "examples": [{"x": {}}]}
    found = transformed(
        features(tool("t", **schema)), named(t=ToolTransform(arguments={"x": ArgumentTransform(description="d")}))
    )
    schema["properties"] = {"x": {"$ref": "#", "description": "d"}}
    assert found.features.tools == (tool("t", **schema),)


def test_examples_with_names_that_are_gone_are_not_shown() -> None:
    definition = tool("t", properties={"x": {"examples": [1]}}, examples=[{"x": 1}])
    found = transformed(features(definition), named(t=ToolTransform(arguments={"x": ArgumentTransform(name="n")})))
    assert found.features.tools == (tool("t", properties={"n": {"examples": [1]}}),)


def test_a_name_that_is_taken_stays_with_the_tool_that_has_it() -> None:
    new = ToolTransform(name="z")
    found = transformed(features(tool("a"), tool("b"), tool("c")), named(a=ToolTransform(name="c"), b=new))
    assert names(found) == ["z", "c"]
    assert reasons(found) == {"a": "another tool is called 'c' already"}
    assert found.call("c", {}) == ("c", {})
    twice = transformed(features(tool("a"), tool("b")), named(a=new, b=new))
    assert (names(twice), list(reasons(twice)), twice.call("z", {})) == (["z"], ["b"], ("a", {}))
    free = ServerOptions(disabled_tools=("c",), tools={"a": ToolTransform(name="c")})
    assert names(transformed(features(tool("a"), tool("c")), free)) == ["c"]


def test_a_tool_that_is_not_there_is_told_once_the_tools_are_known() -> None:
    options = named(gone=ToolTransform(hidden=True))
    assert reasons(transformed(features(), options)) == {}
    assert reasons(transformed(features(tool("a")), options)) == {"gone": "the server has no such tool"}


def test_a_schema_that_is_none_breaks_nothing() -> None:
    options = named(t=ToolTransform(arguments={"x": ArgumentTransform(name="n", default=1)}))
    assert names(transformed(features(tool("t", properties=[])), options)) == []
    assert names(transformed(features(tool("t", required=[[], "x"], properties={"x": 5})), options)) == ["t"]


def test_a_tool_that_is_left_out_is_on_no_page_under_the_name_that_another_has_now() -> None:
    page = ListPage(None, ("a", "b", "c"), {})
    listed = replace(features(tool("a"), tool("b"), tool("c")), pages={"tool": (page,)})
    found = transformed(listed, named(a=ToolTransform(name="c"), b=ToolTransform(name="a")))
    assert (names(found), list(reasons(found))) == (["a", "c"], ["a"])
    assert found.features.pages == {"tool": (replace(page, keys=("a", "c")),)}
