"""What is called by name is called as it would be directly, on every way there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import anyio
import pytest

from gaia_bridge.text.json_types import JSON
from tests.interaction.connecting import Link
from tests.interaction.results import call, wire
from tests.interaction.test_talking import Person
from tests.support.on_demand import mcp, mcp_types

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

SAME: Final[list[tuple[str, JSON]]] = [
    ("book-table", {"guests": 2, "friends": [{"name": "Ada"}]}),
    ("book-table", {"guests": "two"}),
    ("book-table", {}),
    ("take-anything", {"arguments": {"name": "x"}, "name": "y"}),
    ("say", {}),
    ("show", {}),
    ("say-nothing", {}),
    ("measure", {"n": 4}),
    ("count", {"n": 3}),
    ("break-promise", {}),
    ("fail", {"how": "tool error"}),
    ("fail", {"how": "error result"}),
    ("fail", {"how": "flagged"}),
    ("fail", {"how": "odd"}),
    ("plan-trip", {}),
]


async def by_name(
    client: mcp.Client, name: str, arguments: Mapping[str, object], **options: Any
) -> mcp_types.CallToolResult:
    return await client.call_tool("call_tool", {"name": name, "arguments": dict(arguments)}, **options)


async def test_what_is_called_by_name_answers_as_if_it_were_called_directly(link: Link) -> None:
    link = replace(link, searches=True)
    async with link.client(**Person().callbacks) as client:
        for name, arguments in SAME:
            direct = await call(client, name, **arguments)
            assert await call(client, "call_tool", name=name, arguments=arguments) == direct, name


async def test_progress_and_questions_of_what_is_called_by_name_arrive(link: Link) -> None:
    link = replace(link, searches=True)
    person = Person()
    told: list[str | None] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with link.client(**person.callbacks) as client:
        interview = await by_name(client, "interview", {}, progress_callback=on_progress)
        assert interview.structured_content == {"words": ["some word", "some word"]}
        assert told == ["before the first question", "between the questions", "after the last question"]
        trip = await by_name(client, "plan-trip", {})
        assert trip.structured_content == {
            "city": "some city",
            "reason": "for fun",
            "root": "file:///home/ada",
            "day": "some day",
        }
    assert [question.get("message") for question in person.asked][:2] == ["First?", "Second?"]


async def test_what_is_called_by_name_is_cancelled_like_any_other_call(link: Link) -> None:
    link = replace(link, searches=True)
    async with link.client() as client, anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()

        async def wait() -> None:
            with scope:
                await by_name(client, "wait-for-cancel", {"key": "k"})

        tasks.start_soon(wait)
        assert (await call(client, "started", key="k"))["structuredContent"] == {"started": True}
        scope.cancel()
        assert (await call(client, "ended", key="k"))["structuredContent"] == {"cancelled": True}


async def test_a_tool_that_does_not_exist_is_an_error_that_the_model_can_read(link: Link) -> None:
    link = replace(link, searches=True)
    async with link.client() as client:
        result = wire(await by_name(client, "zebra", {}))
        assert result["isError"]
        assert "Unknown tool: zebra. Find the tools that there are with tool_search" in result["content"][0]["text"]
        with pytest.raises(mcp.MCPError, match="Unknown tool"):
            await client.call_tool("zebra", {})
