"""Which questions a server may put to a client, and which answers a client may give."""

from __future__ import annotations

from typing import Any

import pytest

from gaia_bridge.model import LOG_LEVELS
from gaia_bridge.protocol.questions import ANSWERS, CAPABILITIES, NOTIFICATIONS, QUESTIONS
from gaia_bridge.protocol.shapes import first_problem
from gaia_bridge.protocol.vocabulary import CAPABILITY_OF

FORM: Any = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
LINK: Any = {"message": "?", "url": "https://a.example", "mode": "url"}
SAID: Any = {"role": "user", "content": {"type": "text", "text": "hi"}}
SAMPLING: Any = {"messages": [SAID], "maxTokens": 10}


def test_there_is_an_answer_and_a_capability_for_each_question() -> None:
    assert QUESTIONS.keys() == ANSWERS.keys() == CAPABILITY_OF.keys()


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("elicitation/create", FORM),
        ("elicitation/create", {**FORM, "mode": "form"}),
        ("elicitation/create", {**LINK, "elicitationId": "1"}),
        ("elicitation/create", LINK),
        ("roots/list", {}),
        ("sampling/createMessage", SAMPLING),
        ("sampling/createMessage", {**SAMPLING, "messages": [{**SAID, "content": [SAID["content"]]}]}),
    ],
)
def test_a_question_as_the_specification_has_it_is_put(method: str, params: Any) -> None:
    assert first_problem(QUESTIONS[method], params) is None


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("elicitation/create", {**LINK, "mode": "form"}),
        ("elicitation/create", {**FORM, "mode": "url"}),
        ("elicitation/create", {**FORM, "mode": "other"}),
        ("elicitation/create", {**FORM, "requestedSchema": {"type": "array", "properties": {}}}),
        ("elicitation/create", {"message": "?"}),
        ("roots/list", []),
        ("sampling/createMessage", {**SAMPLING, "maxTokens": "10"}),
        ("sampling/createMessage", {"maxTokens": 10}),
        ("sampling/createMessage", {**SAMPLING, "messages": [{**SAID, "role": "system"}]}),
        ("sampling/createMessage", {**SAMPLING, "messages": [{**SAID, "content": {"type": "video"}}]}),
        ("sampling/createMessage", {**SAMPLING, "includeContext": "everything"}),
        ("sampling/createMessage", {**SAMPLING, "modelPreferences": {"costPriority": 2}}),
    ],
)
def test_a_question_that_no_client_could_read_is_refused(method: str, params: Any) -> None:
    assert first_problem(QUESTIONS[method], params) is not None


@pytest.mark.parametrize(
    ("method", "answer", "fits"),
    [
        ("elicitation/create", {"action": "decline"}, True),
        ("elicitation/create", {"action": "accept", "content": {"a": 1, "b": ["x"], "c": None}}, True),
        ("elicitation/create", {"action": "accept", "content": {"a": {"b": 1}}}, False),
        ("elicitation/create", {"action": "accept", "content": {"a": [1]}}, False),
        ("elicitation/create", {"action": "yes"}, False),
        ("elicitation/create", {}, False),
        ("roots/list", {"roots": [{"uri": "file:///a", "name": "a"}]}, True),
        ("roots/list", {"roots": [{"name": "a"}]}, False),
        ("roots/list", {}, False),
        ("sampling/createMessage", {**SAID, "model": "m"}, True),
        ("sampling/createMessage", SAID, False),
    ],
)
def test_an_answer_is_judged_as_the_question_wants_it(method: str, answer: Any, fits: bool) -> None:
    assert (first_problem(ANSWERS[method], answer) is None) is fits


def test_a_notification_has_the_parameters_that_its_receivers_need() -> None:
    for level in LOG_LEVELS:
        assert NOTIFICATIONS["notifications/message"].fits({"level": level, "data": None})
    for method, wrong in (
        ("notifications/message", {"level": "loud", "data": 1}),
        ("notifications/message", {"level": "info"}),
        ("notifications/progress", {"progressToken": 1, "progress": "half"}),
        ("notifications/progress", {"progressToken": None, "progress": 1}),
        ("notifications/resources/updated", {}),
        ("notifications/tasks/status", {"taskId": "t"}),
    ):
        assert not NOTIFICATIONS[method].fits(wrong), method


def test_a_capability_of_another_form_is_told_with_its_place() -> None:
    assert CAPABILITIES["tools"].fits({"listChanged": True})
    assert not CAPABILITIES["tools"].fits({"listChanged": "yes"})
    assert CAPABILITIES["tasks"].fits({"requests": {"tools": {"call": {}}}})
    assert not CAPABILITIES["tasks"].fits({"requests": {"tools": True}})
    assert not CAPABILITIES["experimental"].fits({"x": 1})
