"""Whatever is sent is one line of JSON in UTF-8 that every parser reads."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.errors import ProtocolError
from gaia_bridge.protocol.encoding import (
    encoded,
    encoded_error,
    encoded_notification,
    encoded_request,
    encoded_result,
)

texts = st.text(st.characters())
"""Lone surrogates among them."""
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | texts
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))
ids = st.integers(-(2**53), 2**53) | texts


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
    for line in (encoded_result(identifier, {"ok": True}), encoded_error(identifier, ProtocolError(-32603, "no"))):
        answer = strict(line)
        assert (type(answer["id"]), answer["id"]) == (type(identifier), identifier)


@given(ids | st.none(), st.integers(-40_000, 0), texts, values)
def test_an_error_has_data_exactly_where_there_are_some(identifier: Any, code: int, message: str, data: Any) -> None:
    answer = strict(encoded_error(identifier, ProtocolError(code, message, data)))
    assert answer.keys() == {"jsonrpc", "id", "error"}
    assert answer["error"]["code"] == code
    assert ("data" in answer["error"]) == (data is not None)


def test_messages_without_parameters_have_none() -> None:
    assert strict(encoded_request(7, "ping", None)) == {"jsonrpc": "2.0", "id": 7, "method": "ping"}
    assert strict(encoded_notification("x", None)) == {"jsonrpc": "2.0", "method": "x"}
    assert strict(encoded_notification("x", {}))["params"] == {}
    assert strict(encoded_request(7, "x", {"a": 1}))["params"] == {"a": 1}
