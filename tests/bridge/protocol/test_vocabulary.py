"""What the protocol's revisions can carry, judged one definition, one question and one answer at a time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.content import elicitation_request, input_required, roots_request, sampling_request, text
from gaia_bridge.model import ServerInfo
from gaia_bridge.protocol.definition_repairs import repaired
from gaia_bridge.protocol.kinds import KINDS
from gaia_bridge.protocol.vocabulary import (
    CAPABILITY_OF,
    answer_problem,
    as_declared,
    definition_problem,
    for_legacy,
    for_legacy_question,
    for_modern_questions,
    info_problem,
    missing_capability,
    question_problem,
    read_server_info,
    result_problem,
    server_info,
)
from gaia_bridge.text.json_types import JSON
from tests.support.on_demand import mcp_methods, mcp_versions

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(
    ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta", "uri", "mimeType"]
    + ["uriTemplate", "arguments", "size", "execution", "x-vendor"]
)
schemas = st.fixed_dictionaries({"type": st.just("object")}, optional={"properties": json_values, "$defs": json_values})
odd_definitions = st.dictionaries(fields, json_values | schemas, max_size=6)
kinds = st.sampled_from(sorted(KINDS.keys() - {"skill"}))  # of an extension, which the SDK does not know


def listed(kind: str, definitions: list[JSON], version: str) -> list[JSON]:
    """What a client of a revision is sent of a whole list.

    Raises:
        ValidationError: The SDK refuses all of it.
    """
    method, field = KINDS[kind].method, KINDS[kind].field
    cache = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    sent: list[JSON] = mcp_methods.serialize_server_result(method, version, {field: definitions, **cache})[field]
    return sent


@given(kinds, st.lists(odd_definitions, max_size=4))
@pytest.mark.requirement("S1-10", "S1-22")
def test_definitions_without_a_problem_never_spoil_a_list(kind: str, definitions: list[JSON]) -> None:
    definitions = [repaired(kind, definition) for definition in definitions]
    good = [definition for definition in definitions if definition_problem(kind, definition) is None]
    assert len(listed(kind, good, mcp_versions.LATEST_MODERN_VERSION)) == len(good)
    legacy = [kept for definition in good if (kept := for_legacy(kind, definition)) is not None]
    assert len(listed(kind, legacy, mcp_versions.LATEST_HANDSHAKE_VERSION)) == len(legacy)


@pytest.mark.requirement("S1-22")
@pytest.mark.parametrize(
    "properties",
    [
        {"class": {"type": "string"}, "x-y": {}, "_p": True, "": False, "a b": {"type": ["string", "null"]}},
        {"items": {"oneOf": [{"type": "integer"}, {"const": None}], "default": None}},
    ],
)
def test_odd_properties_are_carried_unchanged(properties: JSON) -> None:
    definition = {"name": "x", "inputSchema": {"type": "object", "properties": properties}}
    assert definition_problem("tool", definition) is None
    [sent] = listed("tool", [definition], mcp_versions.LATEST_MODERN_VERSION)
    assert sent["inputSchema"]["properties"] == properties


@pytest.mark.parametrize(
    ("kind", "definition", "named"),
    [
        ("tool", {"inputSchema": {"type": "object"}}, "name"),
        ("tool", {"name": 5, "inputSchema": {"type": "object"}}, "name"),
        ("tool", {"name": "x", "inputSchema": {"type": "string"}}, "inputSchema"),
        ("tool", {"name": "x", "inputSchema": True}, "inputSchema"),
        ("tool", {"name": "x", "inputSchema": {"type": "object"}, "icons": [{"theme": "light"}]}, "icons"),
        (
            "tool",
            {"name": "x", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": "?"}},
            "readOnlyHint",
        ),
        ("prompt", {"name": "x", "arguments": "a"}, "arguments"),
        ("resource", {"name": "x"}, "uri"),
        ("resource template", {"name": "x", "uri": "x"}, "uriTemplate"),
    ],
)
def test_what_the_protocol_cannot_carry_is_named(kind: str, definition: JSON, named: str) -> None:
    problem = definition_problem(kind, definition)
    assert problem is not None
    assert named in problem


@pytest.mark.requirement("S-6")
@pytest.mark.parametrize(
    "properties",
    [
        {"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}},
        {"a": {"type": "string", "x-mcp-header": "A\r\nB"}},
        {"a": {"type": "number", "x-mcp-header": "A"}},
        {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}},
    ],
)
def test_a_tool_with_an_invalid_parameter_header_has_a_problem(properties: JSON) -> None:
    definition = {"name": "x", "inputSchema": {"type": "object", "properties": properties}}
    problem = definition_problem("tool", definition)
    assert problem is not None
    assert "x-mcp-header" in problem


@pytest.mark.requirement("S-6")
def test_a_tool_with_a_valid_parameter_header_has_none() -> None:
    properties = {"a": {"type": "string", "x-mcp-header": "Region"}}
    assert (
        definition_problem("tool", {"name": "x", "inputSchema": {"type": "object", "properties": properties}}) is None
    )


@pytest.mark.requirement("S1-10")
@pytest.mark.parametrize("output", [{"type": "array"}, {"type": "string"}, True, {"anyOf": [{"type": "object"}]}])
def test_earlier_revisions_get_a_tool_without_an_output_that_they_do_not_know(output: Any) -> None:
    definition = {"name": "x", "inputSchema": {"type": "object"}, "outputSchema": output}
    assert for_legacy("tool", definition) == {"name": "x", "inputSchema": {"type": "object"}}


def test_earlier_revisions_get_an_object_output_as_it_is() -> None:
    definition = {"name": "x", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}}
    assert for_legacy("tool", definition) == definition


def test_earlier_revisions_go_without_a_tool_that_they_cannot_be_given() -> None:
    definition = {"name": "x", "inputSchema": {"type": "object", "properties": {"a": None}}}
    assert definition_problem("tool", definition) is None
    assert for_legacy("tool", definition) is None


def test_an_introduction_carries_everything_that_was_said() -> None:
    info = ServerInfo("n", "1", "T", "D", "I", "https://example.com", ({"src": "https://example.com/i.png"},))
    assert info_problem(info) is None
    assert server_info(info) == {
        "name": "n",
        "version": "1",
        "title": "T",
        "description": "D",
        "websiteUrl": "https://example.com",
        "icons": [{"src": "https://example.com/i.png"}],
    }
    assert read_server_info(server_info(info), "other", "0", "I") == (info, None)
    assert read_server_info({"name": "", "version": 3, "icons": "x"}, "n", "1") == (ServerInfo("n", "1"), None)


def test_an_introduction_that_cannot_be_made_is_named() -> None:
    problem = info_problem(ServerInfo("n", "1", icons=({"theme": "dark"},)))
    assert problem is not None
    assert "icons" in problem


FORM = elicitation_request("?", {"n": {"type": "integer"}})
QUESTIONS = [FORM, sampling_request("?", 5), roots_request()]
ANSWERS: list[JSON] = [
    {"action": "accept", "content": {"n": 1}},
    {"role": "assistant", "content": text("x"), "model": "m"},
    {"roots": [{"uri": "file:///x"}]},
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: str(question["method"]))
def test_questions_that_the_builders_make_can_be_asked(question: JSON) -> None:
    assert question_problem(question["method"], question["params"]) is None
    assert result_problem("tools/call", input_required({"q": question})) is None


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("elicitation/create", {}),
        ("elicitation/create", {"mode": "form", "message": 5, "requestedSchema": {"type": "object", "properties": {}}}),
        ("elicitation/create", {"mode": "form", "message": "?", "requestedSchema": {"type": "string"}}),
        ("sampling/createMessage", {"messages": []}),
        ("sampling/createMessage", {"messages": [{"text": "?"}], "maxTokens": 5}),
    ],
)
def test_a_question_that_clients_would_not_understand_has_a_problem(method: str, params: JSON) -> None:
    assert question_problem(method, params)
    assert result_problem("tools/call", input_required({"q": {"method": method, "params": params}}))


@pytest.mark.parametrize("result", [{"resultType": "input_required"}, input_required({"q": {"method": "ping"}})])
def test_a_request_for_nothing_or_for_something_unknown_has_a_problem(result: JSON) -> None:
    assert result_problem("tools/call", result)


def test_each_question_has_answers_of_its_own_kind() -> None:
    for question in QUESTIONS:
        fitting = [answer for answer in ANSWERS if answer_problem(question["method"], answer) is None]
        assert fitting == [ANSWERS[QUESTIONS.index(question)]]


@given(json_values)
def test_anything_may_come_as_an_answer(answer: Any) -> None:
    for method in CAPABILITY_OF:
        problem = answer_problem(method, answer)
        assert problem is None or problem


@pytest.mark.requirement("S-32")
@pytest.mark.parametrize(
    ("declared", "missing"),
    [
        ({}, {"elicitation": {}}),
        ({"elicitation": None}, {"elicitation": {}}),
        ({"sampling": {}}, {"elicitation": {}}),
        ({"elicitation": {}}, None),
        ({"elicitation": {"form": {}}}, None),
    ],
)
def test_a_form_needs_a_client_with_forms(declared: JSON, missing: JSON | None) -> None:
    assert missing_capability(FORM["method"], FORM["params"], declared) == missing


@pytest.mark.requirement("P-203")
@pytest.mark.parametrize(
    ("declared", "missing"),
    [
        ({"elicitation": {"form": {}}}, None),
        ({"elicitation": {"form": {}, "url": {}}}, None),
        ({"elicitation": {"form": None}}, None),
        ({"elicitation": {"url": {}}}, {"elicitation": {"form": {}}}),
        ({"elicitation": {"url": {}, "form": None}}, {"elicitation": {"form": {}}}),
    ],
)
def test_a_form_is_not_for_clients_that_open_links_only(declared: JSON, missing: JSON | None) -> None:
    assert missing_capability(FORM["method"], FORM["params"], declared) == missing


@pytest.mark.requirement("P-203")
@pytest.mark.parametrize("more", [{"tools": []}, {"toolChoice": {}}, {"tools": [], "toolChoice": {}}])
def test_a_model_uses_tools_only_where_the_client_said_so(more: JSON) -> None:
    params: JSON = {"messages": [], "maxTokens": 1, **more}
    without: list[JSON] = [{"sampling": {}}, {"sampling": {"context": {}}}]
    for declared in without:
        assert missing_capability("sampling/createMessage", params, declared) == {"sampling": {"tools": {}}}
    assert missing_capability("sampling/createMessage", params, {"sampling": {"tools": {}}}) is None


@pytest.mark.requirement("P-203")
def test_a_model_is_given_context_of_servers_only_where_the_client_said_so() -> None:
    asked: JSON = {"messages": [], "includeContext": "allServers"}
    assert missing_capability("sampling/createMessage", asked, {"sampling": {}}) is None
    assert as_declared("sampling/createMessage", asked, {"sampling": {"tools": {}}}) == {"messages": []}
    assert as_declared("sampling/createMessage", asked, {"sampling": {"context": {}}}) is asked
    assert as_declared("elicitation/create", FORM["params"], {}) is FORM["params"]


@pytest.mark.requirement("S-32")
def test_a_link_needs_a_client_that_opens_links() -> None:
    params = {"mode": "url", "message": "?", "url": "https://example.com", "elicitationId": "1"}
    assert missing_capability("elicitation/create", params, {"elicitation": {}}) == {"elicitation": {"url": {}}}
    assert missing_capability("elicitation/create", params, {"elicitation": {"url": {}}}) is None


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_link_has_what_its_revision_wants_and_nothing_that_only_another_one_has(revision: str) -> None:
    shown = {"mode": "url", "message": "?", "url": "https://example.com", "_meta": {"a": 1}}
    with_id = {**shown, "elicitationId": "1"}
    for asked in (shown, with_id, {**with_id, "task": {"ttl": 5}}):
        question: JSON = {"method": "elicitation/create", "params": asked}
        if revision == "2026-07-28":
            result = for_modern_questions({"resultType": "input_required", "inputRequests": {"q": question}}, {})
            assert result["inputRequests"] == {"q": {"method": "elicitation/create", "params": shown}}
            result = for_modern_questions(result, {}, with_link_ids=True)
            assert result["inputRequests"]["q"]["params"] == {**shown, "elicitationId": "q"}
        else:
            assert for_legacy_question(question["method"], asked, "1") == {**asked, "elicitationId": "1"}


def test_questions_of_2026_are_not_touched() -> None:
    asked: JSON = {"resultType": "input_required", "inputRequests": {"q": FORM, "r": {"method": "roots/list"}}}
    assert for_modern_questions(asked, {}) is asked
    assert for_modern_questions({"resultType": "input_required"}, {}) == {"resultType": "input_required"}
