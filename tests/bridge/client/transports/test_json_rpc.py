"""What a server sends at once, or in one line, is one message, the messages of a batch, or none or an error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.client.transports.json_rpc import Garbage, messages, messages_in_line, request_id_of
from gaia_bridge.protocol.framing import LineFramer, OversizedLine
from gaia_bridge.text.json_types import JSON, is_object

PLAIN = st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.text()
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
MESSAGES = st.one_of(
    st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "method": st.text(), "params": VALUES}),
    st.fixed_dictionaries({"id": PLAIN, "result": VALUES}),
    st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "id": PLAIN, "error": VALUES, "x-more": VALUES}),
)
OBJECTS = st.dictionaries(st.text(), st.none() | st.integers(-(10**15), 10**15) | st.text(), max_size=3)


@given(OBJECTS, st.booleans())
def test_one_object_is_one_message(message: dict[str, object], as_text: bool) -> None:
    content = json.dumps(message)
    assert messages(content if as_text else content.encode()) == [message]


@given(st.lists(OBJECTS | st.none() | st.integers(0, 9) | st.lists(OBJECTS), min_size=1, max_size=6))
@pytest.mark.requirement("P-3")
def test_the_objects_of_a_batch_are_its_messages_in_their_order(batch: list[object]) -> None:
    objects = [item for item in batch if is_object(item)]
    content = json.dumps(batch)
    if objects:
        assert messages(content) == objects
    else:
        with pytest.raises(UpstreamError, match="no JSON-RPC message"):
            messages(content)


@pytest.mark.parametrize("content", ["[]", "1", "null", '"x"', "[[]]"])
def test_json_without_an_object_is_no_message(content: str) -> None:
    with pytest.raises(UpstreamError, match="no JSON-RPC message"):
        messages(content)


@pytest.mark.parametrize("content", [b"", b"{", b"[{}", b"{}{}", b"[" * 100_000, b"\xff"])
def test_what_is_no_json_is_no_message(content: bytes) -> None:
    with pytest.raises(UpstreamError, match="no JSON"):
        messages(content)


@pytest.mark.requirement("F-038")
def test_a_batch_has_a_bound() -> None:
    assert len(messages(b"[" + b"{}," * 999 + b"{}]")) == 1_000
    with pytest.raises(UpstreamError, match="1,001 messages in one batch; at most 1,000"):
        messages(b"[" + b"{}," * 1_000 + b"{}]")


@given(st.lists(MESSAGES, max_size=5), st.data())
@pytest.mark.requirement("F-016", "F-018", "P-3")
def test_any_cutting_of_the_bytes_gives_the_same_messages(sent: list[JSON], data: st.DataObject) -> None:
    content = b"".join(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace") + b"\n" for message in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=10)))
    framer = LineFramer(1_000_000)
    found: list[JSON] = []
    for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True):
        for line in framer.feed(content[start:end]):
            assert isinstance(line, bytes)
            found += messages_in_line(line)
    assert found == [json.loads(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")) for message in sent]


@given(st.binary())
@pytest.mark.requirement("F-008", "F-011")
def test_any_bytes_are_taken_for_what_they_are(line: bytes) -> None:
    for message in messages_in_line(line):
        assert "method" in message or "id" in message


@pytest.mark.requirement("F-039")
def test_numbers_that_json_does_not_have_become_null() -> None:
    line = b'{"id": 1, "result": {"a": NaN, "b": [Infinity, -Infinity], "c": 1.5, "d": "NaN"}}'
    assert messages_in_line(line) == [{"id": 1, "result": {"a": None, "b": [None, None], "c": 1.5, "d": "NaN"}}]


@pytest.mark.parametrize("line", [b"{}", b"[]", b"null", b"7", b'"x"', b'{"id": 1}', b'{"method": 1}', b"{'id': 1}"])
def test_json_that_is_no_message_is_none(line: bytes) -> None:
    assert messages_in_line(line) == []


@given(st.integers(0, 10**15), st.booleans(), st.booleans(), st.booleans())
@pytest.mark.requirement("F-014")
def test_the_request_is_told_from_either_end_of_a_response_that_is_too_long(
    number: int, id_first: bool, compact: bool, with_version: bool
) -> None:
    result: dict[str, Any] = {"result": {"text": "x" * 5_000, "id": 77}}
    version = {"jsonrpc": "2.0"} if with_version else {}
    response = {**version, "id": number, **result} if id_first else {**result, **version, "id": number}
    separators = (",", ":") if compact else None
    framer = LineFramer(1_000)
    [line] = framer.feed(json.dumps(response, separators=separators).encode() + b"\n")
    assert isinstance(line, OversizedLine)
    assert request_id_of(line) == number


def test_what_names_no_request_is_told_apart() -> None:
    assert request_id_of(b'{"method": "x", "params": {"id": 3}}') is None
    assert request_id_of(b'noise "id": 3 noise') is None


@pytest.mark.requirement("F-009")
def test_garbage_is_within_budget_as_long_as_it_comes_slowly() -> None:
    clock = iter(float(second) for second in range(1_000))
    garbage = Garbage(3, 3.5, lambda: next(clock))
    assert [garbage.add(b"x") for _ in range(3)] == [True, True, True]
    assert not garbage.add(b"x")
    slow = Garbage(3, 2.5, lambda: next(clock))
    assert all(slow.add(b"x") for _ in range(100))
    assert slow.count == 100
