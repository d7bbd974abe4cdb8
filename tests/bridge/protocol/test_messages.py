"""What is a message and what is not, and which request the refusal answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.protocol import meta
from gaia_bridge.protocol.codes import HEADER_MISMATCH, INVALID_REQUEST, PARSE_ERROR
from gaia_bridge.protocol.framing import OversizedLine
from gaia_bridge.protocol.messages import (
    Refusal,
    batch_problem,
    batched_problem,
    decoded,
    encoded,
    encoded_error,
    encoded_notification,
    encoded_request,
    encoded_result,
    era_problem,
    identifier,
    is_plain_request,
    message_problem,
    oversized,
)
from gaia_bridge.text.json_types import JSON

parts = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text(max_size=3)
members: dict[str, st.SearchStrategy[Any]] = {
    "jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0", 2.0]),
    "id": parts,
    "method": st.text(max_size=5) | parts,
    "params": st.dictionaries(st.text(max_size=2), parts, max_size=2) | st.lists(parts, max_size=2) | parts,
    "result": st.builds(dict[str, Any]) | parts,
    "error": st.just({"code": 1, "message": "no"}) | parts,
}
messages = st.fixed_dictionaries({}, optional=members) | st.lists(parts, max_size=2) | parts

texts = st.text(st.characters())
"""Lone surrogates among them."""
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | texts
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))
ids = st.integers(-(2**53), 2**53) | texts


def request(**members: Any) -> JSON:
    return {"jsonrpc": "2.0", "method": "ping", **members}


@given(messages)
def test_the_quick_look_at_a_message_and_the_thorough_one_agree(message: Any) -> None:
    if is_plain_request(message):
        assert message_problem(message) is None


@given(messages)
def test_every_refusal_of_a_message_can_be_sent_and_answers_its_request(message: Any) -> None:
    if (refusal := message_problem(message)) is not None:
        answer = json.loads(encoded_error(refusal))
        assert (answer["jsonrpc"], answer["error"]["code"]) == ("2.0", INVALID_REQUEST)
        assert answer["id"] == identifier(message)


@pytest.mark.parametrize(
    "message",
    [
        request(id=1),
        request(id="", params={}),
        request(id=-5, params=None),
        request(),
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": None, "error": {}},
    ],
)
def test_a_request_a_notification_and_a_response_are_messages(message: JSON) -> None:
    assert message_problem(message) is None


@pytest.mark.parametrize(
    ("message", "answered"),
    [
        ([request(id=1)], None),
        ({"method": "ping", "id": 1}, 1),
        (request(id=None), None),
        (request(id=True), None),
        (request(id=1.5), None),
        (request(id=1, params=[1]), 1),
        (request(id="a", method=7), "a"),
        ({"jsonrpc": "2.0", "id": 4}, None),
        ({"jsonrpc": "2.0", "id": 4, "result": 1}, None),
        ({"jsonrpc": "2.0", "id": 4, "result": {}, "error": {}}, None),
        ({"jsonrpc": "2.0", "id": None, "result": {}}, None),
    ],
)
def test_a_refusal_answers_the_request_whose_id_is_valid_and_no_response(message: Any, answered: Any) -> None:
    refusal = message_problem(message)
    assert refusal is not None
    assert (refusal.code, refusal.id) == (INVALID_REQUEST, answered)


@given(st.integers(-(10**17), 10**17) | st.text(st.characters(categories=["L", "Zs"]), max_size=20))
def test_what_is_no_json_is_refused_under_the_id_that_can_be_seen(number: int | str) -> None:
    whole = json.dumps(request(id=number)).encode()
    assert decoded(whole) == request(id=number)
    for broken in (whole[:-1] + b',"x":\xff}', whole + b"]"):
        refusal = decoded(broken)
        assert isinstance(refusal, Refusal)
        assert refusal.code == PARSE_ERROR
    refusal = decoded(whole[:-1] + b',"x":"\xff"}')
    assert (refusal.code, refusal.id) == (PARSE_ERROR, number)


def test_a_line_that_is_too_long_is_refused_under_its_id() -> None:
    refusal = oversized(OversizedLine(5_000, b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{', b"}}"))
    assert (refusal.code, refusal.id) == (INVALID_REQUEST, 7)
    assert "5,000" in refusal.message


def test_a_refusal_under_an_id_with_a_lone_surrogate_can_be_sent() -> None:
    assert json.loads(encoded_error(Refusal(1, "no", "a\ud800", {"b": 1}))) == {
        "jsonrpc": "2.0",
        "id": "a\ud800",
        "error": {"code": 1, "message": "no", "data": {"b": 1}},
    }


@pytest.mark.parametrize(
    ("revision", "count", "said"),
    [
        (None, 1, "no revision was agreed on yet"),
        ("2025-06-18", 1, "speaks 2025-06-18"),
        ("2025-03-26", 0, "empty"),
        ("2025-03-26", 3, "3 messages came in one batch; expected at most 2"),
        ("2025-03-26", 2, ""),
    ],
)
def test_a_batch_is_taken_in_the_revision_that_has_batches_and_within_its_bounds(
    revision: str | None, count: int, said: str
) -> None:
    refusal = batch_problem([request(id=1)] * count, revision, 2)
    assert (refusal is None) == (not said)
    assert refusal is None or said in refusal.message


def test_a_handshake_is_no_part_of_a_batch() -> None:
    refusal = batched_problem(request(id=3, method="initialize"))
    assert refusal is not None
    assert refusal.id == 3
    assert batched_problem(request(id=3)) is None
    assert batched_problem([]) is not None


@pytest.mark.parametrize(
    ("header", "is_refused"), [(None, True), ("2025-06-18", True), ("2026-07-28", False), ("x", False)]
)
def test_a_body_that_says_its_revision_needs_a_header_without_handshake(header: str | None, is_refused: bool) -> None:
    said = request(id=1, params={"_meta": {meta.PROTOCOL_VERSION_KEY: "2026-07-28"}})
    refusal = era_problem(said, header)
    assert (refusal is not None and (refusal.code, refusal.id) == (HEADER_MISMATCH, 1)) is is_refused
    assert era_problem(request(id=1), header) is None


def strict(line: bytes) -> Any:
    """The value of one line of JSON; `NaN` and infinities are none."""
    assert b"\n" not in line

    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(line.decode("utf-8"), parse_constant=refuse)


@given(values)
def test_every_value_becomes_one_line_of_strict_json(value: Any) -> None:
    strict(encoded(value))


@given(st.dictionaries(st.text(), st.integers(-(2**53), 2**53) | st.text() | st.booleans() | st.none()))
def test_what_json_can_carry_comes_back_as_it_was(value: dict[str, Any]) -> None:
    assert strict(encoded(value)) == value


def test_what_json_cannot_carry_is_replaced_and_the_rest_is_kept() -> None:
    written = encoded({"a": float("nan"), "b": [float("inf"), 1.5], "c": "x\ud800y"})
    assert strict(written) == {"a": None, "b": [None, 1.5], "c": "x?y"}


@given(ids)
def test_an_id_comes_back_letter_by_letter(identifier: int | str) -> None:
    for line in (encoded_result(identifier, {"ok": True}), encoded_error(Refusal(-32603, "no", identifier))):
        answer = strict(line)
        assert (type(answer["id"]), answer["id"]) == (type(identifier), identifier)


@given(ids | st.none(), st.integers(-40_000, 0), texts, values)
def test_an_error_has_data_exactly_where_there_are_some(identifier: Any, code: int, message: str, data: Any) -> None:
    answer = strict(encoded_error(Refusal(code, message, identifier, data)))
    assert answer.keys() == {"jsonrpc", "id", "error"}
    assert answer["error"]["code"] == code
    assert ("data" in answer["error"]) == (data is not None)


def test_messages_without_parameters_have_none() -> None:
    assert strict(encoded_request(7, "ping", None)) == {"jsonrpc": "2.0", "id": 7, "method": "ping"}
    assert strict(encoded_notification("x", None)) == {"jsonrpc": "2.0", "method": "x"}
    assert strict(encoded_notification("x", {}))["params"] == {}
    assert strict(encoded_request(7, "x", {"a": 1}))["params"] == {"a": 1}
