"""Headers repeat parts of a body, and a request is refused where both differ."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.protocol import meta
from gaia_bridge.protocol.codes import HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_REVISION
from gaia_bridge.protocol.headers import (
    METHOD_HEADER,
    NAME_HEADER,
    REVISION_HEADER,
    ParameterHeaders,
    annotation_problem,
    decoded_value,
    encoded_value,
    envelope_problem,
    header_map,
    name_header,
    parameter_headers,
    repeated_header,
)
from gaia_bridge.text.json_types import JSON

MODERN = "2026-07-28"
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def call(name: Any = "work", **about: Any) -> JSON:
    told: JSON = {meta.PROTOCOL_VERSION_KEY: MODERN, meta.CLIENT_CAPABILITIES_KEY: {}, **about}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "_meta": told}}


def schema(**properties: JSON) -> JSON:
    return {"type": "object", "properties": properties}


def asked(name: str, kind: str = "string") -> JSON:
    return {"type": kind, "x-mcp-header": name}


def problem_of(headers: dict[str, str], arguments: JSON, described: JSON) -> str | None:
    sent = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    return ParameterHeaders(described).problem(arguments, sent)


@given(names)
def test_every_text_goes_through_a_header_and_comes_back(text: str) -> None:
    value = encoded_value(text)
    assert value.isascii()
    assert value.isprintable()
    assert value == value.strip()
    assert decoded_value(value) == text


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=30))
def test_a_plain_word_is_sent_as_it_is_unless_it_looks_encoded(word: str) -> None:
    assert (encoded_value(word) == word) == (not (word.startswith("=?base64?") and word.endswith("?=")))


@pytest.mark.parametrize("value", ["=?base64?!?=", "=?base64?/w==?=", "=?base64?YQ?=", "=?base64?YR==?=", None])
def test_what_is_no_base64_of_a_text_in_its_one_spelling_stands_for_nothing(value: str | None) -> None:
    assert decoded_value(value) is None


@pytest.mark.requirement("S-5")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, None),
        ({REVISION_HEADER: None}, HEADER_MISMATCH),
        ({REVISION_HEADER: "2025-11-25"}, HEADER_MISMATCH),
        ({METHOD_HEADER: None}, HEADER_MISMATCH),
        ({METHOD_HEADER: "tools/list"}, HEADER_MISMATCH),
        ({NAME_HEADER: None}, HEADER_MISMATCH),
        ({NAME_HEADER: "Work"}, HEADER_MISMATCH),
        ({NAME_HEADER: "=?base64?d29yaw==?="}, None),
        ({NAME_HEADER: "=?base64?d29yaw?="}, HEADER_MISMATCH),
    ],
)
def test_a_request_is_refused_unless_each_header_agrees_with_its_body(change: dict[str, Any], code: int | None) -> None:
    told = {REVISION_HEADER: MODERN, METHOD_HEADER: "tools/call", NAME_HEADER: "work", **change}
    refusal = envelope_problem(call(), {name: value for name, value in told.items() if value is not None})
    assert (None if refusal is None else (refusal.code, refusal.id)) == (None if code is None else (code, 1))


@given(names)
def test_the_headers_that_we_send_agree_with_the_body(name: str) -> None:
    message = call(name)
    headers = {REVISION_HEADER: MODERN, METHOD_HEADER: "tools/call", **name_header(message)}
    assert envelope_problem(message, headers) is None


@pytest.mark.requirement("S-8")
def test_an_envelope_says_its_revision_and_what_the_client_can_do() -> None:
    def code_of(message: JSON) -> int | None:
        refusal = envelope_problem(message)
        return None if refusal is None else refusal.code

    assert code_of(call()) is None
    assert code_of({"jsonrpc": "2.0", "id": 1, "method": "ping"}) == INVALID_PARAMS
    assert code_of(call(**{meta.PROTOCOL_VERSION_KEY: 7})) == INVALID_PARAMS
    for key in (meta.PROTOCOL_VERSION_KEY, meta.CLIENT_CAPABILITIES_KEY):
        lacking = call()
        del lacking["params"]["_meta"][key]
        refusal = envelope_problem(lacking)
        assert refusal is not None
        assert (refusal.code, refusal.message) == (INVALID_PARAMS, f"params._meta lacks {key}")
    refusal = envelope_problem(call(**{meta.PROTOCOL_VERSION_KEY: "2099-01-01"}))
    assert refusal is not None
    assert (refusal.code, refusal.data["requested"]) == (UNSUPPORTED_REVISION, "2099-01-01")


def test_a_routing_header_that_comes_twice_is_named() -> None:
    once = [(REVISION_HEADER.encode(), b"a"), (NAME_HEADER.encode(), b"b"), (b"accept", b"c"), (b"accept", b"c")]
    assert repeated_header(once) is None
    assert repeated_header([*once, (NAME_HEADER.encode(), b"b")]) == NAME_HEADER


@pytest.mark.requirement("S-6")
@pytest.mark.parametrize(
    ("described", "said"),
    [
        (schema(city=asked("City")), None),
        (schema(at=schema(city=asked("City"))), None),
        (schema(city={"type": "number", "x-mcp-header": "City"}), "needs the type"),
        (schema(city=asked("a b")), "must be a name of a header"),
        (schema(city={"type": "string", "x-mcp-header": 7}), "must be a name of a header, not a int"),
        (schema(a=asked("City"), b=asked("city")), "is that of property"),
        (asked("City"), "no chain of properties"),
        (schema(cities={"type": "array", "items": asked("City")}), "no chain of properties"),
        (schema(a={"anyOf": [asked("City")]}), "no chain of properties"),
        ({"$defs": {"a": asked("City")}}, "no chain of properties"),
    ],
)
def test_an_annotation_stands_at_a_property_that_headers_can_repeat(described: JSON, said: str | None) -> None:
    problem = annotation_problem(described)
    assert (problem is None) if said is None else (problem is not None and said in problem)


SHOP = schema(city=asked("City"), many=asked("Many", "integer"), on=asked("On", "boolean"), at=schema(x=asked("X")))


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "city": names,
            "many": st.integers(-(2**70), 2**70),
            "on": st.booleans(),
            "at": st.fixed_dictionaries({}, optional={"x": names}),
        },
    )
)
def test_the_parameter_headers_that_we_send_agree_with_the_arguments(arguments: JSON) -> None:
    headers = parameter_headers(header_map(SHOP), arguments)
    assert problem_of(headers, arguments, SHOP) is None
    for name in headers:
        assert problem_of({key: value for key, value in headers.items() if key != name}, arguments, SHOP) is not None


@pytest.mark.parametrize(
    ("headers", "arguments", "said"),
    [
        ({"Mcp-Param-City": "Rome"}, {"city": "Roma"}, "does not match"),
        ({"Mcp-Param-City": "Rome"}, {}, "is absent"),
        ({}, {"city": "Rome"}, "is missing"),
        ({"Mcp-Param-Many": "42.0"}, {"many": 42}, None),
        ({"Mcp-Param-Many": "42"}, {"many": 42.0}, None),
        ({"Mcp-Param-Many": "1"}, {"many": True}, "does not match"),
        ({"Mcp-Param-Many": "0x2a"}, {"many": 42}, "does not match"),
        ({"Mcp-Param-On": "True"}, {"on": True}, "does not match"),
        ({"Mcp-Param-X": "1"}, {"at": {"x": "1"}}, None),
        ({"Mcp-Param-X": "1"}, {"x": "1"}, "is absent"),
        ({"Mcp-Param-Other": "1"}, {}, None),
    ],
)
def test_a_parameter_header_agrees_with_its_argument(
    headers: dict[str, str], arguments: JSON, said: str | None
) -> None:
    problem = problem_of(headers, arguments, SHOP)
    assert (problem is None) if said is None else (problem is not None and said in problem)


def test_a_parameter_header_comes_once() -> None:
    twice = [(b"mcp-param-city", b"Rome"), (b"mcp-param-city", b"Rome")]
    problem = ParameterHeaders(SHOP).problem({"city": "Rome"}, twice)
    assert problem == "Mcp-Param-City header appears more than once"
