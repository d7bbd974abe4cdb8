"""The parameters of requests: what is typed by the specification is looked at, whatever else comes goes on."""

from __future__ import annotations

from typing import Any

import pytest

from gaia_bridge.protocol.meta import CLIENT_CAPABILITIES_KEY, PROTOCOL_VERSION_KEY
from gaia_bridge.protocol.parameters import parameter_problem
from gaia_bridge.protocol.revisions import PUBLISHED
from gaia_bridge.text.json_types import JSON

ENVELOPE: JSON = {PROTOCOL_VERSION_KEY: PUBLISHED.latest, CLIENT_CAPABILITIES_KEY: {}}
SAMPLED: JSON = {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}


@pytest.mark.parametrize(
    "answer", [{"action": "decline"}, {"action": "accept", "content": {"n": 1}}, SAMPLED, {"roots": []}]
)
def test_a_call_may_come_with_the_answer_to_any_question(answer: JSON) -> None:
    params = {"name": "x", "inputResponses": {"asked": answer}, "_meta": ENVELOPE}
    assert parameter_problem("tools/call", params, modern=True) == ""


@pytest.mark.parametrize("answer", [5, None, {}, {"action": "perhaps"}, {"roots": 5}, {**SAMPLED, "role": "nobody"}])
def test_an_answer_to_no_question_is_said_to_be_none(answer: Any) -> None:
    params = {"name": "x", "inputResponses": {"asked": answer}, "_meta": ENVELOPE}
    problem = parameter_problem("tools/call", params, modern=True)
    assert problem.startswith("Invalid request parameters: at /params/inputResponses/asked: got ")
    assert "expected the result of elicitation/create or roots/list or sampling/createMessage" in problem


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
def test_what_is_of_another_era_is_not_looked_at(method: str) -> None:
    params = {"name": "x", "uri": "x", "inputResponses": 5, "requestState": 5}
    assert parameter_problem(method, params, modern=False) == ""


@pytest.mark.parametrize(
    ("task", "said"), [(5, "at /params/task: got 5"), ({"ttl": "x"}, "at /params/task/ttl: got 'x'")]
)
def test_what_a_task_is_asked_for_with_is_looked_at(task: Any, said: str) -> None:
    assert said in parameter_problem("tools/call", {"name": "x", "task": task}, modern=False)
    assert parameter_problem("tools/call", {"name": "x", "task": {"ttl": 5}}, modern=False) == ""


@pytest.mark.parametrize(
    ("token", "fits"), [("x", True), (0, True), (5.0, True), (1.5, False), (True, False), ([], False)]
)
def test_a_progress_token_is_a_string_or_an_integer_however_that_is_written(token: Any, fits: bool) -> None:
    assert (parameter_problem("ping", {"_meta": {"progressToken": token}}, modern=False) == "") is fits
