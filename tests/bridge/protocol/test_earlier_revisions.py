"""What clients of earlier revisions cannot be told or asked."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gaia_bridge.errors import AnswerError
from gaia_bridge.protocol.earlier_revisions import answer_for, declares_context, has_notification, question_for
from gaia_bridge.protocol.revisions import HANDSHAKE_REVISIONS, LATEST_HANDSHAKE
from gaia_bridge.text.json_types import JSON

EARLIER: Final = HANDSHAKE_REVISIONS[:-1]
LINES: Final[JSON] = {"type": "array", "items": {"enum": ["a", "b"]}}


def form(**properties: Any) -> JSON:
    return {"message": "?", "requestedSchema": {"type": "object", "properties": properties, "required": ["name"]}}


def sampled(*content: Any) -> JSON:
    return {"messages": [{"role": "user", "content": item, "_meta": {"a": 1}} for item in content], "maxTokens": 1}


@pytest.mark.parametrize("method", ["notifications/elicitation/complete", "notifications/tasks/status"])
def test_only_the_last_revision_has_what_it_added_to_the_notifications(method: str) -> None:
    assert [revision for revision in HANDSHAKE_REVISIONS if has_notification(revision, method)] == [LATEST_HANDSHAKE]
    assert all(has_notification(revision, "notifications/message") for revision in HANDSHAKE_REVISIONS)


def test_clients_of_the_last_revision_are_asked_as_it_was_said() -> None:
    for method, params in (("elicitation/create", form(name=LINES)), ("sampling/createMessage", sampled([{}]))):
        assert question_for(LATEST_HANDSHAKE, method, params) is params
    assert [revision for revision in HANDSHAKE_REVISIONS if declares_context(revision)] == [LATEST_HANDSHAKE]


@pytest.mark.parametrize("revision", EARLIER)
def test_a_form_goes_without_lists_that_need_not_be_filled_in(revision: str) -> None:
    asked = question_for(revision, "elicitation/create", form(name={"type": "string"}, lines=LINES))
    assert asked == form(name={"type": "string"})


@pytest.mark.parametrize("revision", EARLIER)
def test_a_form_with_a_list_that_has_to_be_filled_in_cannot_be_asked(revision: str) -> None:
    with pytest.raises(AnswerError, match=f"MCP {revision} has no fields of several values, as name would be"):
        question_for(revision, "elicitation/create", form(name=LINES))


@pytest.mark.parametrize("revision", EARLIER)
def test_what_a_message_says_at_once_is_said_one_after_the_other(revision: str) -> None:
    one, two = {"type": "text", "text": "1"}, {"type": "image", "data": "", "mimeType": "image/png"}
    assert question_for(revision, "sampling/createMessage", sampled([one, two], one)) == sampled(one, two, one)


@pytest.mark.parametrize(("revision", "kind"), [("2024-11-05", "audio"), *((each, "tool_use") for each in EARLIER)])
def test_a_model_is_given_no_content_that_its_client_does_not_know(revision: str, kind: str) -> None:
    with pytest.raises(AnswerError, match=f"MCP {revision} has no {kind} in messages"):
        question_for(revision, "sampling/createMessage", sampled({"type": kind}))


def answer(content: Any) -> JSON:
    return {"role": "assistant", "model": "m", "content": content}


@pytest.mark.parametrize("revision", EARLIER)
def test_a_server_is_answered_by_a_model_with_one_block(revision: str) -> None:
    one, two = {"type": "text", "text": "1"}, {"type": "text", "text": "2"}
    both = {"type": "text", "text": "1\n2"}
    for given, said in ((one, one), ([one], one), ([one, two], both), ([], {"type": "text", "text": ""})):
        assert answer_for(revision, "sampling/createMessage", answer(given)) == answer(said)
        assert answer_for(LATEST_HANDSHAKE, "sampling/createMessage", answer(given)) == answer(given)
    with pytest.raises(AnswerError, match="one block of content"):
        answer_for(revision, "sampling/createMessage", answer([one, {"type": "image"}]))
    with pytest.raises(AnswerError, match=f"MCP {revision} has no tool_use in messages"):
        answer_for(revision, "sampling/createMessage", answer([{"type": "tool_use"}]))
    assert answer_for(revision, "elicitation/create", {"content": [one]}) == {"content": [one]}


@pytest.mark.parametrize("params", [{}, {"requestedSchema": 1}, {"requestedSchema": {"properties": None}}])
def test_what_makes_no_sense_is_left_to_who_looks_at_it(params: JSON) -> None:
    assert question_for("2025-06-18", "elicitation/create", params) == params
    assert question_for("2025-06-18", "sampling/createMessage", {"messages": ["?"]}) == {"messages": ["?"]}
    assert question_for("2025-06-18", "roots/list", {}) == {}
