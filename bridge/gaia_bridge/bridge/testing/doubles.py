"""A user and a model for tests: they give the answers of the test, and record the questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gaia_bridge.bridge.embedding.delegate import UserAnswer
from gaia_bridge.errors import INTERNAL_ERROR, ProtocolError
from gaia_bridge.text.json_types import JSON, is_array, is_object


class FakeUser:
    """Answers forms, one after the other.

        FakeUser({"sure": True}, False)  # accepts the first form, and declines the second

    Args:
        *answers: The answers, in this order. A function is given the message and the schema of the form.

    Attributes:
        asked: The message and the schema of each form so far.
    """

    def __init__(self, *answers: UserAnswer | Callable[[str, JSON], UserAnswer]) -> None:
        self.asked: list[tuple[str, JSON]] = []
        self._answers = answers

    def __call__(self, message: str, schema: JSON) -> UserAnswer:
        """Answer a form."""
        self.asked.append((message, schema))
        answer: UserAnswer | Callable[[str, JSON], UserAnswer]
        answer = _next(self._answers, len(self.asked), "user", message)
        return answer(message, schema) if callable(answer) else answer


class FakeModel:
    """Answers `sampling/createMessage`, once after the other.

        FakeModel("Paris")

    Args:
        *answers: The answers, in this order: text, or a wire `CreateMessageResult`. A function is given the parameters
            of the request.

    Attributes:
        asked: The parameters of each request so far.
    """

    def __init__(self, *answers: str | JSON | Callable[[JSON], str | JSON]) -> None:
        self.asked: list[JSON] = []
        self._answers = answers

    @property
    def prompts(self) -> list[str]:
        """The text of the last message of each request."""
        return [_text(params) for params in self.asked]

    def __call__(self, params: JSON) -> str | JSON:
        """Answer a request."""
        self.asked.append(params)
        answer: str | JSON | Callable[[JSON], str | JSON]
        answer = _next(self._answers, len(self.asked), "model", _text(params))
        return answer(params) if callable(answer) else answer


def _next(answers: tuple[Any, ...], number: int, who: str, question: str) -> Any:
    if number > len(answers):
        raise ProtocolError(
            INTERNAL_ERROR,
            f"the {who} of this test was asked {number} times, and has {len(answers)} answers; the last question was "
            f"{question!r}: give Fake{who.title()}(...) an answer to it",
        )
    return answers[number - 1]


def _text(params: JSON) -> str:
    messages = params.get("messages")
    content = messages[-1].get("content") if is_array(messages) and messages and is_object(messages[-1]) else None
    blocks = content if is_array(content) else [content]
    return "\n".join(str(block["text"]) for block in blocks if is_object(block) and "text" in block)
