"""What a server sends at once is one message, or the messages of a batch, or an error."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.client.transport import UpstreamError
from gaia_bridge.client.transports.json_rpc import messages
from gaia_bridge.text.json_types import is_object

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
