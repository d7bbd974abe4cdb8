"""What an agent says to its client, and asks of it, while a tool runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest
from pydantic import FileUrl

from gaia_bridge.model import LOG_LEVELS
from gaia_bridge.text.json_types import JSON
from tests.interaction.connecting import Link
from tests.interaction.results import call, older, text_of, wire
from tests.support.on_demand import mcp, mcp_types

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

CHOSEN: Final = "warning"


class Person:
    """Whoever sits in front of the client: answers everything, and remembers what was asked.

    Args:
        action: What is done with every form and link.
    """

    def __init__(self, action: str = "accept") -> None:
        self.asked: list[JSON] = []
        self.action: Any = action

    @property
    def callbacks(self) -> Mapping[str, Any]:
        """Options of a client in front of which the person sits."""
        return {
            "elicitation_callback": self._elicited,
            "sampling_callback": self._sampled,
            "list_roots_callback": self._roots,
        }

    async def _elicited(self, context: object, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
        self.asked.append(wire(params))
        if isinstance(params, mcp_types.ElicitRequestURLParams) or self.action != "accept":
            return mcp_types.ElicitResult(action=self.action)
        answers: dict[str, Any] = {"integer": 42, "boolean": True}
        fields: Mapping[str, JSON] = params.requested_schema["properties"]
        content = {name: answers.get(field["type"], f"some {name}") for name, field in fields.items()}
        return mcp_types.ElicitResult(action="accept", content=content)

    async def _sampled(
        self, context: object, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult:
        self.asked.append(wire(params))
        return mcp_types.CreateMessageResult(
            role="assistant", model="m-1", content=mcp_types.TextContent(text="for fun")
        )

    async def _roots(self, context: object) -> mcp_types.ListRootsResult:
        self.asked.append({"roots": "asked"})
        return mcp_types.ListRootsResult(roots=[mcp_types.Root(uri=FileUrl("file:///home/ada"), name="home")])


@pytest.mark.requirement("P-12")
async def test_progress_and_logs_arrive_in_order_before_the_result(link: Link) -> None:
    told: list[tuple[Any, ...]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async def on_log(params: mcp_types.LoggingMessageNotificationParams) -> None:
        told.append((params.level, params.data, params.logger))

    async with link.client(logging_callback=on_log, log_level=CHOSEN if link.modern else None) as client:
        if not link.modern:
            await older(client).set_logging_level(CHOSEN)
        result = await client.call_tool("narrate", progress_callback=on_progress)
        at_the_end = list(told)
        assert text_of(wire(result)) == "done"

    wanted = LOG_LEVELS[LOG_LEVELS.index(CHOSEN) :]
    logs = [item for item in at_the_end if isinstance(item[0], str)]
    progress = [item for item in at_the_end if not isinstance(item[0], str)]
    assert progress == [(step, 8, f"step {step}") for step in range(1, 9)]
    assert logs == [(level, {"level": level, "step": LOG_LEVELS.index(level) + 1}, "narrator") for level in wanted]
    assert told == at_the_end


@pytest.mark.requirement("P-12", "S-32")
async def test_an_agent_asks_the_user_the_model_and_the_client(link: Link) -> None:
    person = Person()
    async with link.client(**person.callbacks) as client:
        form = await call(client, "ask-user")
        assert form["structuredContent"] == {"action": "accept", "content": {"size": 42, "color": "some color"}}
        sure = await call(client, "ask-user-async")
        assert sure["structuredContent"] == {"action": "accept", "content": {"sure": True}}
        assert (await call(client, "ask-user-to-visit"))["structuredContent"] == {"action": "accept"}
        answer = (await call(client, "ask-model"))["structuredContent"]["answer"]
        assert (answer["model"], answer["content"]) == ("m-1", {"type": "text", "text": "for fun"})
        roots = (await call(client, "ask-roots"))["structuredContent"]
        assert roots == {"roots": [{"uri": "file:///home/ada", "name": "home"}]}

    asked_form, asked_sure, asked_link, asked_model, asked_roots = person.asked
    assert asked_form["message"] == "Which one?"
    assert asked_form["requestedSchema"]["properties"]["color"] == {
        "type": "string",
        "enum": ["red", "green"],
        "default": "red",
    }
    assert asked_sure["requestedSchema"]["required"] == ["sure"]
    assert (asked_link["mode"], asked_link["url"]) == ("url", "https://example.org/in")
    assert (asked_model["maxTokens"], asked_model["systemPrompt"]) == (50, "Be brief")
    assert asked_roots == {"roots": "asked"}


async def test_questions_progress_and_rounds_mix(link: Link) -> None:
    person = Person()
    told: list[str | None] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with link.client(**person.callbacks) as client:
        interview = await client.call_tool("interview", progress_callback=on_progress)
        assert interview.structured_content == {"words": ["some word", "some word"]}
        assert told == ["before the first question", "between the questions", "after the last question"]

        trip = await call(client, "plan-trip")
        assert trip["structuredContent"] == {
            "city": "some city",
            "reason": "for fun",
            "root": "file:///home/ada",
            "day": "some day",
        }
        prompt = await client.get_prompt("needs-form")
        assert wire(prompt)["messages"] == [
            {"role": "user", "content": {"type": "text", "text": "It is about some topic."}}
        ]

    assert [asked.get("message") for asked in person.asked if "roots" not in asked and "maxTokens" not in asked] == [
        "First?",
        "Second?",
        "Where to?",
        "When?",
        "About what?",
    ]


@pytest.mark.requirement("S-32")
async def test_a_refusal_is_an_answer_and_a_client_that_cannot_be_asked_is_not_asked(link: Link) -> None:
    person = Person("decline")
    async with link.serving() as connect:
        async with connect(elicitation_callback=person.callbacks["elicitation_callback"]) as client:
            declined = await call(client, "ask-user")
            assert declined["structuredContent"] == {"action": "decline", "content": {}}
            assert (await call(client, "ask-user-to-visit"))["structuredContent"] == {"action": "decline"}
            if link.modern_throughout:
                with pytest.raises(mcp.MCPError, match="sampling"):
                    await call(client, "ask-model")
            else:
                refused = await call(client, "ask-model")
                assert refused["isError"] is True
                assert "sampling" in text_of(refused)
            assert (await call(client, "measure", n=1))["structuredContent"] == {"double": 2}
    assert len(person.asked) == 2
