"""What each step of a composition makes of an offer, alone and after others, and where names lead afterwards."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gaia_bridge import Composition, source
from gaia_bridge.errors import ProtocolError, ResourceNotFoundError, ToolError
from gaia_bridge.model import ListPage, ServerFeatures, ServerInfo, SourceKind
from gaia_bridge.sources.composition.offer import Offer, Offers
from gaia_bridge.sources.composition.steps import Step
from gaia_bridge.sources.functions.marks import TAGS_META_KEY
from gaia_bridge.text.json_types import JSON
from tests.support.agents import tool
from tests.support.fixed_sources import FixedSource

IT = source(None)
"""Nothing in particular, to be composed."""


def offered(*tools: str | JSON, **more: Any) -> ServerFeatures:
    return FixedSource("any").offering(*tools, **more)


def composed(features: ServerFeatures, description: Composition) -> Offers:
    return Offers(features, description.steps, SourceKind.AGENT)


def offer(features: ServerFeatures, description: Composition) -> Offer:
    return composed(features, description).of_era(modern=True)


def names(features: ServerFeatures, kind: str = "tools") -> list[str]:
    key = {"tools": "name", "prompts": "name", "resources": "uri", "templates": "uriTemplate"}[kind]
    return [item[key] for item in getattr(features, kind)]


def reasons(features: ServerFeatures) -> dict[tuple[str, str], str]:
    return {(item.kind, item.name): item.reason for item in features.left_out}


def tagged(name: str, **meta: Any) -> JSON:
    return {**tool(name), "_meta": meta}


EVERYTHING = offered("a", "b", prompts=("p", "q"), resources=("demo://x",), templates=("demo://x/{n}",))


def test_a_prefix_is_for_tools_and_prompts_and_not_for_uris() -> None:
    found = composed(EVERYTHING, IT.prefixed("my_"))
    assert (names(found.features), names(found.features, "prompts")) == (["my_a", "my_b"], ["my_p", "my_q"])
    assert (found.features.resources, found.features.templates) == (EVERYTHING.resources, EVERYTHING.templates)
    of_era = found.of_era(modern=True)
    assert (of_era.tool("my_a", {"x": 1}), of_era.prompt("my_q")) == (("a", {"x": 1}), "q")
    for name in ("a", "my_c", "my_my_a", ""):
        with pytest.raises(ProtocolError, match=f"Unknown tool: {name}"):
            of_era.tool(name, {})
        with pytest.raises(ProtocolError, match=f"Unknown prompt: {name}"):
            of_era.prompt(name)


def test_a_name_that_would_be_longer_than_names_may_be_is_left_out() -> None:
    found = composed(offered("a" * 125, "a" * 124, "b" * 300), IT.prefixed("my__"))
    assert names(found.features) == ["my__" + "a" * 124, "my__" + "b" * 300]
    [reason] = reasons(found.features).values()
    assert "129 characters; at most 128" in reason


@pytest.mark.parametrize(
    ("description", "kept"),
    [
        (IT.filtered(allow=["get_*"]), ["get_x", "get_admin"]),
        (IT.filtered(allow=["get_*"], deny=["*_admin"]), ["get_x"]),
        (IT.filtered(deny=["get_?"]), ["get_admin", "put"]),
        (IT.filtered(allow=["p[ou]t", "GET_*"]), ["put"]),
        (IT.filtered(allow=[]), []),
        (IT.filtered(deny=["*"], kinds=["prompt"]), ["get_x", "get_admin", "put"]),
        (IT.filtered(when=lambda kind, item: item["name"] == "put"), ["put"]),
        (IT.filtered(allow=["get*"], when=lambda kind, item: item["name"] != "get_x"), ["get_admin"]),
    ],
)
def test_a_filter_keeps_what_fits_all_that_it_says(description: Composition, kept: list[str]) -> None:
    of_era = offer(offered("get_x", "get_admin", "put"), description)
    assert [name for name in ("get_x", "get_admin", "put") if _is_called(of_era, name)] == kept
    found = composed(offered("get_x", "get_admin", "put"), description)
    assert (names(found.features), found.features.left_out) == (kept, ())


def _is_called(of_era: Offer, name: str) -> bool:
    try:
        return of_era.tool(name, {}) == (name, {})
    except ProtocolError:
        return False


def test_a_filter_looks_at_all_kinds_unless_it_says_at_which() -> None:
    none = composed(EVERYTHING, IT.filtered(allow=["a"])).features
    assert [names(none, kind) for kind in ("tools", "prompts", "resources", "templates")] == [["a"], [], [], []]
    tools = composed(EVERYTHING, IT.filtered(allow=["a"], kinds=["tool"])).features
    assert (names(tools), tools.prompts, tools.resources) == (["a"], EVERYTHING.prompts, EVERYTHING.resources)


def test_a_filter_knows_tags_of_decorators_and_of_fastmcp() -> None:
    ours, theirs = tagged("ours", **{TAGS_META_KEY: ["safe"]}), tagged("theirs", fastmcp={"tags": ["x", "safe"]})
    older, other = tagged("older", _fastmcp={"tags": ["safe"]}), tagged("other", **{TAGS_META_KEY: ["odd"]})
    odd: list[str | JSON] = [
        tagged("odd1", fastmcp=5),
        tagged("odd2", **{TAGS_META_KEY: "safe"}),
        {**tool("odd3"), "_meta": 1},
        "none",
    ]
    found = composed(offered(ours, theirs, older, other, *odd), IT.filtered(tags=["safe", "quick"]))
    assert names(found.features) == ["ours", "theirs", "older"]


def test_what_a_filter_fails_at_is_left_out_with_the_reason() -> None:
    def when(kind: str, definition: Any) -> bool:
        return bool(definition["_meta"])

    found = composed(offered(tagged("a", x=1), "b"), IT.filtered(when=when, kinds=["tool"])).features
    assert names(found) == ["a"]
    assert reasons(found) == {("tool", "b"): "it is not known whether it is wanted: KeyError: '_meta'"}


RESOURCES = offered(
    resources=("file:///a", "file:///secret/b", "web://c"), templates=("file:///{path}", "file:///secret/{name}")
)


@pytest.mark.parametrize(
    ("description", "read"),
    [
        (IT.prefixed("p_"), "a, new, secret, newer, web, unknown"),
        (IT.filtered(deny=["*secret*"]), "a, new, web"),
        (IT.filtered(allow=["file:*"]), "a, new, secret, newer"),
        (IT.filtered(deny=["file:///secret/{name}"], kinds=["resource template"]), "a, new, secret, web"),
        (IT.filtered(allow=["file:///secret/*"]), "secret, newer"),
        (IT.filtered(deny=["*"], kinds=["resource"]), ""),
        (IT.filtered(deny=["*"], kinds=["resource template"]), "a, secret, web"),
        (IT.filtered(when=lambda kind, item: item.get("uri") != "file:///a"), "new, secret, newer, web"),
    ],
)  # fmt: skip
def test_what_is_not_listed_is_read_only_where_a_template_of_what_is_left_describes_it(
    description: Composition, read: str
) -> None:
    uris = {
        "a": "file:///a",
        "new": "file:///new",
        "secret": "file:///secret/b",
        "newer": "file:///secret/new",
        "web": "web://c",
        "unknown": "other://d",
    }
    of_era = offer(RESOURCES, description)
    assert ", ".join(name for name, uri in uris.items() if of_era.reads(uri)) == read
    for uri in uris.values():
        if not of_era.reads(uri):
            with pytest.raises(ResourceNotFoundError):
                of_era.resource(uri)


def test_of_templates_that_describe_a_uri_the_most_particular_decides() -> None:
    features = offered(templates=("docs://{+any}", "docs://private/{page}", "docs://private/{+page}"))
    without_any = offer(features, IT.filtered(deny=["docs://{+any}"], kinds=["resource template"]))
    assert [without_any.reads(uri) for uri in ("docs://private/x", "docs://other")] == [True, False]
    only_any = offer(features, IT.filtered(allow=["docs://{+any}"], kinds=["resource template"]))
    assert [only_any.reads(uri) for uri in ("docs://private/x", "docs://other")] == [False, True]
    one_of_two = offer(features, IT.filtered(deny=["docs://private/{page}"], kinds=["resource template"]))
    assert [one_of_two.reads(uri) for uri in ("docs://private/x", "docs://private/x/y")] == [False, True]


def test_a_template_that_cannot_be_understood_describes_nothing() -> None:
    of_era = offer(offered(templates=("odd://{",)), IT.filtered(deny=["x"]))
    assert (of_era.reads("odd://x"), of_era.template("odd://{")) == (False, "odd://{")


def test_only_templates_and_resources_that_are_left_are_completed() -> None:
    of_era = offer(RESOURCES, IT.filtered(deny=["*secret*"]))
    assert of_era.template("file:///{path}") == "file:///{path}"
    assert of_era.template("file:///a") == "file:///a"
    for uri in ("file:///secret/{name}", "file:///secret/b", "file:///new"):
        with pytest.raises(ResourceNotFoundError):
            of_era.template(uri)


def test_tools_and_prompts_are_renamed_and_may_change_places() -> None:
    features = offered("a", "b", "c", prompts=("a", "p"))
    found = composed(features, IT.renamed({"a": "b", "b": "a", "p": "greet"}))
    assert (names(found.features), names(found.features, "prompts")) == (["b", "a", "c"], ["b", "greet"])
    of_era = found.of_era(modern=True)
    assert [of_era.tool(name, {})[0] for name in "abc"] == ["b", "a", "c"]
    assert (of_era.prompt("b"), of_era.prompt("greet"), found.features.left_out) == ("a", "p", ())


def test_what_cannot_be_renamed_is_left_out_with_the_reason() -> None:
    features = offered("a", "b", "c", prompts=("p", "q"))
    found = composed(features, IT.renamed({"a": "c", "b": "new", "p": "q", "gone": "there"}))
    assert (names(found.features), names(found.features, "prompts")) == (["new", "c"], ["q"])
    wants = "it cannot be as the composition wants it"
    assert reasons(found.features) == {
        ("tool", "a"): f"{wants}: another tool is called 'c' already",
        ("prompt", "p"): f"{wants}: another prompt is called 'q' already",
        ("tool", "gone"): "there is no tool and no prompt of that name to be called 'there'",
    }
    of_era = found.of_era(modern=True)
    assert (of_era.tool("c", {}), of_era.prompt("q")) == (("c", {}), "q")
    twice = composed(offered("a", "b"), IT.renamed({"a": "x", "b": "x"}))
    assert (names(twice.features), list(reasons(twice.features))) == (["x"], [("tool", "b")])


def test_nothing_is_missed_of_a_server_that_was_not_reached_yet() -> None:
    unknown = ServerFeatures(ServerInfo("up", ""), declared={}, is_known=False)
    for features in (unknown, replace(unknown, is_known=True)):
        found = composed(features, IT.renamed({"a": "b"}).with_defaults({"c": {"x": 1}}))
        assert found.features.left_out == ()


TIMED = {
    "name": "now",
    "inputSchema": {
        "type": "object",
        "properties": {"zone": {"type": "string"}, "form": {"type": "string"}},
        "required": ["zone", "form"],
    },
}


def test_a_default_is_shown_and_sent_where_the_client_gives_none() -> None:
    found = composed(offered(TIMED), IT.with_defaults({"now": {"zone": "UTC"}}))
    [definition] = found.features.tools
    schema = definition["inputSchema"]
    assert (schema["required"], schema["properties"]["zone"]) == (["form"], {"type": "string", "default": "UTC"})
    of_era = found.of_era(modern=True)
    assert of_era.tool("now", {"form": "x"}) == ("now", {"form": "x", "zone": "UTC"})
    assert of_era.tool("now", {"zone": "CET"}) == ("now", {"zone": "CET"})


def test_a_hidden_argument_is_not_shown_and_cannot_be_given() -> None:
    found = composed(
        offered(TIMED),
        IT.with_defaults({"now": {"zone": "UTC"}}, hidden=True).renamed({"now": "n"}).prefixed("my_"),
    )
    [definition] = found.features.tools
    assert definition["inputSchema"]["properties"].keys() == {"form"}
    of_era = found.of_era(modern=True)
    assert of_era.tool("my_n", {"form": "x"}) == ("now", {"form": "x", "zone": "UTC"})
    with pytest.raises(ToolError, match="tool 'my_n' has no argument 'zone'"):
        of_era.tool("my_n", {"zone": "CET"})


@pytest.mark.parametrize("kind", SourceKind)
def test_arguments_in_the_envelope_of_vs_code_reach_an_agent_with_the_defaults(kind: SourceKind) -> None:
    steps = IT.with_defaults({"now": {"zone": "UTC"}}, hidden=True).steps
    of_era = Offers(offered(TIMED), steps, kind).of_era(modern=True)
    given: JSON = {"kwargs": {"form": "x"}}
    taken = {"form": "x"} if kind is SourceKind.AGENT else given
    assert of_era.tool("now", given) == ("now", {**taken, "zone": "UTC"})
    if kind is SourceKind.AGENT:
        with pytest.raises(ToolError, match="tool 'now' has no argument 'zone'"):
            of_era.tool("now", {"kwargs": '{"zone": "CET"}'})


def test_a_default_that_does_not_fit_leaves_its_tool_out() -> None:
    features = offered(TIMED, "other")
    found = composed(features, IT.with_defaults({"now": {"zone": 5}, "gone": {"x": 1}})).features
    assert names(found) == ["other"]
    wants = "it cannot be as the composition wants it"
    assert reasons(found) == {
        ("tool", "now"): f"{wants}: the default of its argument 'zone' does not fit the schema of that argument",
        ("tool", "gone"): f"{wants}: there is no such tool",
    }


def test_later_steps_see_the_names_that_earlier_ones_gave() -> None:
    one = composed(EVERYTHING, IT.prefixed("my_").filtered(allow=["my_a"]).renamed({"my_a": "x"}))
    assert (names(one.features), one.of_era(modern=True).tool("x", {})) == (["x"], ("a", {}))
    other = composed(EVERYTHING, IT.filtered(allow=["my_a"]).prefixed("my_"))
    assert names(other.features) == []
    freed = composed(EVERYTHING, IT.filtered(deny=["b"]).renamed({"a": "b"}))
    assert (names(freed.features), freed.of_era(modern=True).tool("b", {})) == (["b"], ("a", {}))
    twice = composed(EVERYTHING, IT.prefixed("i_").prefixed("o_"))
    assert twice.of_era(modern=True).tool("o_i_b", {}) == ("b", {})


def test_pages_have_what_is_left_under_the_new_names() -> None:
    pages = {
        "tool": (ListPage(None, ("a", "b"), {"nextCursor": "2"}), ListPage("2", ("c",), {})),
        "prompt": (ListPage(None, ("p", "q"), {}),),
    }
    features = replace(offered("a", "b", "c", prompts=("p", "q")), pages=pages)
    found = composed(features, IT.filtered(deny=["b", "p"]).renamed({"c": "b", "q": "p"}).prefixed("x"))
    keys = {kind: [page.keys for page in cut] for kind, cut in found.features.pages.items()}
    assert keys == {"tool": [("xa",), ("xb",)], "prompt": [("xp",)]}
    assert found.features.pages["tool"][0].more == {"nextCursor": "2"}


def test_each_era_has_its_own_lists() -> None:
    old = replace(offered("a", "old"), modern=False)
    both = replace(offered("a", "new"), modern=True, other=old)
    found = composed(both, IT.renamed({"new": "n", "old": "o", "none": "x"}).prefixed("my_"))
    assert names(found.features.for_era(modern=True)) == ["my_a", "my_n"]
    assert names(found.features.for_era(modern=False)) == ["my_a", "my_o"]
    assert [name for _, name in reasons(found.features)] == ["none"]
    assert found.of_era(modern=True).tool("my_n", {}) == ("new", {})
    assert found.of_era(modern=False).tool("my_o", {}) == ("old", {})
    for name, modern in (("my_o", True), ("my_n", False)):
        with pytest.raises(ProtocolError):
            found.of_era(modern=modern).tool(name, {})


def test_a_page_that_nobody_read_before_has_only_what_is_offered() -> None:
    of_era = offer(EVERYTHING, IT.filtered(deny=["b", "demo://x"]).prefixed("my_"))
    page = {"tools": [tool("b"), tool("a"), tool("unheard"), 5], "nextCursor": "3"}
    assert of_era.page("tool", page) == {"tools": [tool("my_a")], "nextCursor": "3"}
    assert of_era.page("prompt", {"prompts": [{"name": "q"}]}) == {"prompts": [{"name": "my_q"}]}
    assert of_era.page("resource", {"resources": [{"uri": "demo://x"}]}) == {"resources": []}
    assert of_era.page("tool", {"odd": 1}) == {"odd": 1}


@pytest.mark.parametrize(
    ("step", "given", "error", "words"),
    [
        ("prefixed", {"prefix": ""}, ValueError, "the prefix is ''; expected 1 to 128 of"),
        ("prefixed", {"prefix": "a b"}, ValueError, "the prefix is 'a b'"),
        ("prefixed", {"prefix": 5}, ValueError, "the prefix is 5"),
        ("renamed", {"names": {"a": "b c"}}, ValueError, "the new name of 'a' is 'b c'; expected"),
        ("filtered", {}, ValueError, "expected one of allow, deny, tags and when"),
        ("filtered", {"allow": "a*"}, TypeError, "allow is 'a\\*'; expected several texts"),
        ("filtered", {"tags": "safe"}, TypeError, "tags is 'safe'"),
        ("filtered", {"deny": [5]}, TypeError, "deny is \\[5\\]"),
        (
            "filtered",
            {"deny": ["a"], "kinds": ["tools"]},
            ValueError,
            "no kind 'tools'; expected some of: tool",
        ),
        ("with_defaults", {"defaults": {"t": {"x": None}}}, ValueError, "argument 'x' of tool 't' is of type NoneType"),
        (
            "with_defaults",
            {"defaults": {"t": {"x": float("nan")}}},
            ValueError,
            "is of type float; expected a JSON value",
        ),
        ("with_defaults", {"defaults": {"t": {"x": object()}}}, ValueError, "of type object; expected a JSON value"),
    ],
)
def test_a_step_that_cannot_be_is_refused_where_it_is_written(
    step: str, given: JSON, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        getattr(IT, step)(**given)


def test_a_description_is_not_changed_by_what_is_made_of_it() -> None:
    first = source(EVERYTHING, "one").prefixed("a_")
    second = first.prefixed("b_")
    again = source(second, "two")
    assert [len(it.steps) for it in (first, second, again)] == [1, 2, 2]
    assert [(it.target, it.name) for it in (second, again)] == [(EVERYTHING, "one"), (EVERYTHING, "two")]
    with pytest.raises(AttributeError):
        first.name = "other"  # type: ignore[misc]


def test_a_default_is_what_it_was_when_it_was_preset() -> None:
    zones = ["UTC"]
    of_era = offer(offered("now"), IT.with_defaults({}))
    assert of_era.tool("now", {}) == ("now", {})
    definition = tool("now", zones={"type": "array"})
    of_era = offer(offered(definition), IT.with_defaults({"now": {"zones": zones}}))
    zones.append("CET")
    assert of_era.tool("now", {}) == ("now", {"zones": ["UTC"]})
    assert offer(offered(definition), IT.with_defaults({"now": {"zones": ("a", "b")}})).tool("now", {}) == (
        "now",
        {"zones": ["a", "b"]},
    )


def test_a_description_does_not_show_values_that_may_be_secret() -> None:
    assert "s3cret" not in repr(IT.with_defaults({"t": {"key": "s3cret"}}, hidden=True))


NAMES = st.sampled_from(["a", "b", "c", "ab", "a_b", "x"])
OLD_NAMES = NAMES | st.sampled_from(["p_a", "p_b"])
PATTERNS = st.sampled_from(["a", "a*", "*b", "?", "[ab]*", "p_*", "*"])
STEPS = st.one_of(
    st.sampled_from(["p_", "a", "x"]).map(lambda prefix: IT.prefixed(prefix).steps),
    st.dictionaries(OLD_NAMES, NAMES, max_size=3).map(lambda names: IT.renamed(names).steps),
    st.lists(PATTERNS, max_size=2).map(lambda allow: IT.filtered(allow=allow).steps),
    st.lists(PATTERNS, max_size=2).map(lambda deny: IT.filtered(deny=deny).steps),
    st.dictionaries(NAMES, st.just({"key": 1})).map(lambda preset: IT.with_defaults(preset, hidden=True).steps),
)


@given(st.lists(NAMES, unique=True), st.lists(NAMES, unique=True), st.lists(STEPS, max_size=5))
def test_what_is_listed_reaches_its_original_and_nothing_else_does(
    tools: list[str], prompts: list[str], steps: list[tuple[Step, ...]]
) -> None:
    definitions: list[JSON] = [
        {"name": name, "inputSchema": {"type": "object", "properties": {"key": {}}}, "_meta": {"own": name}}
        for name in tools
    ]
    features = replace(offered(*definitions), prompts=tuple({"name": name, "_meta": {"own": name}} for name in prompts))
    found = Offers(features, tuple(chain.from_iterable(steps)), SourceKind.SERVER)
    of_era = found.of_era(modern=False)
    listed = names(found.features)
    assert len(set(listed)) == len(listed)
    for item in found.features.tools:
        own, arguments = of_era.tool(item["name"], {})
        assert own == item["_meta"]["own"]
        assert ("key" in arguments) == ("key" not in item["inputSchema"]["properties"])
    for prompt in found.features.prompts:
        assert of_era.prompt(prompt["name"]) == prompt["_meta"]["own"]
    everything = {*tools, *prompts, *listed, "none", *(f"p_{name}" for name in tools)}
    for name in everything - set(listed):
        with pytest.raises(ProtocolError):
            of_era.tool(name, {})
    for name in everything - set(names(found.features, "prompts")):
        with pytest.raises(ProtocolError):
            of_era.prompt(name)
