"""What comes back when a client calls a tool."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from gaia_bridge.text.json_types import JSON
from tests.interaction.connecting import Link
from tests.interaction.everything_agent import CONTENT
from tests.interaction.results import call, text_of, wire
from tests.support.on_demand import mcp

pytestmark = pytest.mark.anyio

INVALID_PARAMS = -32602
TRACE: Any = {"example.org/trace": {"id": 7}}
BOOKING: JSON = {
    "guests": 3,
    "seat": None,
    "place": {"street": "Straße 1", "zip": "12345"},
    "friends": [{"name": "Zoë"}, {"name": "\u2028 🎉"}],
    "$odd name": 1.5,
}


@pytest.mark.requirement("S1-6", "S1-11", "S1-18", "S1-19", "P-11", "P-12")
async def test_what_an_agent_returns_arrives_as_what_it_is(link: Link) -> None:
    async with link.client() as client:
        booked = await call(client, "book-table", **BOOKING)
        assert booked["structuredContent"] == {"booked": BOOKING}
        assert json.loads(text_of(booked)) == {"booked": BOOKING}
        assert not booked.get("isError")

        taken = await call(client, "take-anything", a=[1, None])
        assert taken["structuredContent"] == {"arguments": {"a": [1, None]}}
        assert await call(client, "say") == {"content": [{"type": "text", "text": "Grüße 🎉\nsecond line\u2028third"}]}
        assert await call(client, "say-nothing") == {"content": []}
        assert (await call(client, "measure", n=21))["structuredContent"] == {"double": 42}

        counted = await call(client, "count", n=3)
        assert text_of(counted) == "[0,1,2]"
        assert counted.get("structuredContent") == ([0, 1, 2] if link.modern_throughout else None)

        shown = wire(await client.call_tool("show"))
        assert shown["content"] == CONTENT
        assert shown["structuredContent"] == {"kinds": len(CONTENT), "none": None}
        assert shown["_meta"]["example.org/m"] == 1

        who = await client.call_tool("who-asks", meta=TRACE)
        assert who.structured_content is not None
        assert who.structured_content["meta"]["example.org/trace"] == {"id": 7}


@pytest.mark.requirement("S1-13", "F-082", "F-100", "F-101", "F-103", "F-104", "F-105")
async def test_every_failure_has_its_own_answer_and_the_next_call_works(
    link: Link, caplog: pytest.LogCaptureFixture
) -> None:
    references: list[str] = []
    async with link.client() as client:
        for how, said in {
            "tool error": "the oven is cold",
            "value error": "no such dish",
            "error result": "the kitchen is closed",
            "flagged": "burnt",
            "no json": "the agent returned a value that has no JSON form",
            "exit": "tool 'fail' failed with SystemExit",
            "interrupt": "tool 'fail' failed with KeyboardInterrupt",
            "crash": "tool 'fail' failed with RuntimeError",
        }.items():
            failed = await call(client, "fail", how=how)
            text = text_of(failed)
            assert failed["isError"] is True
            assert said in text
            assert "hunter2" not in text
            assert "Traceback" not in text
            references += re.findall(r"under reference (\w+)", text)

        with pytest.raises(mcp.MCPError, match="Unknown tool: no-such-tool") as unknown:
            await client.call_tool("no-such-tool")
        assert unknown.value.code == INVALID_PARAMS

        broken = await call(client, "break-promise")
        assert broken["isError"] is True
        assert "/double" in text_of(broken)

        odd = await call(client, "fail", how="odd")
        assert odd["structuredContent"] == {"nan": None, "surrogate": "?", "nul": "\x00"}

    logged = link.take_errors() if link.transport == "stdio" else caplog.text
    assert len(references) == 3
    assert all(reference in logged for reference in references)
    assert "hunter2" in logged


@pytest.mark.requirement("S1-12", "S1-23", "F-083")
async def test_arguments_that_do_not_fit_the_schema_never_reach_the_agent(link: Link) -> None:
    async with link.client() as client:
        for arguments, pointer in (
            ({}, "guests"),
            ({"guests": 0}, "/guests"),
            ({"guests": "3"}, "/guests"),
            ({"guests": 3, "secret-extra": 1}, "secret-extra"),
            ({"guests": 3, "seat": "roof"}, "/seat"),
            ({"guests": 3, "place": {"zip": "1234"}}, "/place/zip"),
            ({"guests": 3, "friends": [{"name": "A"}, {}]}, "/friends/1"),
        ):
            refused = await call(client, "book-table", **arguments)
            assert refused["isError"] is True
            assert pointer in text_of(refused)
            assert "booked" not in text_of(refused)
        assert (await call(client, "book-table", guests=1))["structuredContent"] == {"booked": {"guests": 1}}
        assert (await call(client, "measure", kwargs={"n": 4}))["structuredContent"] == {"double": 8}
