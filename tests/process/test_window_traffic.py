"""What windows say to one bridge at the same time, of every kind and size: each is answered what it asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psutil
import pytest

from gaia_bridge.text.json_types import JSON
from tests.process.windows import AGENT, User, Window, user
from tests.support.installed_programs import needs, required
from tests.support.waiting import eventually
from tests.upstreams.servers import TYPESCRIPT, node, script

SERVERS = Path(__file__).parents[1] / "servers"
ERAS = (False, True, False)
"""Of three windows."""


@pytest.fixture(scope="module")
@needs(*TYPESCRIPT)
def me() -> Generator[User]:
    """A user with an agent, a server of the SDK, and one that is written in TypeScript."""
    with required("MCP servers written in TypeScript"):
        everything = [node(), script("server-everything")]
    with user() as made:
        made.has_servers(
            {
                "sdk": {"command": sys.executable, "args": [str(SERVERS / "stdio_upstream.py")]},
                "everything": {"command": everything[0], "args": [everything[1], "stdio"]},
            }
        )
        yield made


@pytest.fixture
def windows(me: User) -> Generator[list[Window]]:
    """Three, which see all three sources."""
    words = ("--config", str(me.config), "--agent", str(AGENT))
    opened = [me.window(*words, modern=modern) for modern in ERAS]

    def are_there() -> bool:
        names = {tool["name"] for tool in opened[0].result_of("tools/list")["tools"]}
        return {"process", "sdk__add", "everything__get-sum"} <= names

    eventually(are_there)
    yield opened
    for window in opened:
        window.leave()


def test_progress_is_told_to_the_window_whose_call_it_is(windows: list[Window]) -> None:
    """All three use the same token, for calls to each kind of source."""
    for tool, arguments in (
        ("steps", {"name": ""}),
        ("sdk__progress", {}),
        ("everything__trigger-long-running-operation", {"duration": 0.3, "steps": 3}),
    ):
        calls = [
            window.ask(
                "tools/call",
                name=tool,
                arguments=arguments | ({"name": str(number)} if tool == "steps" else {}),
                _meta={"progressToken": "one"},
            )
            for number, window in enumerate(windows)
        ]
        for number, (window, call) in enumerate(zip(windows, calls, strict=True)):
            assert "result" in window.answer(call)
            told = [it["params"] for it in window.others if it.get("method") == "notifications/progress"]
            window.heard()
            assert [it["progressToken"] for it in told] == ["one"] * 3, (tool, number)
            if tool == "steps":
                assert {it["message"] for it in told} == {str(number)}


def test_a_call_that_is_cancelled_is_the_one_of_its_window_though_all_have_the_same_id(windows: list[Window]) -> None:
    names = [f"cancel-{number}" for number in range(3)]
    for window, name in zip(windows, names, strict=True):
        window.write(
            json.dumps(message(window, 7_000_000, "tools/call", name="hang", arguments={"name": name})).encode() + b"\n"
        )
    eventually(lambda: set(names) <= set(windows[0].told("given-up")["begun"]))
    windows[1].notify("notifications/cancelled", requestId=7_000_000, **meta_of(windows[1]))
    given_up: list[str] = []

    def is_given_up() -> bool:
        given_up[:] = [it for it in windows[0].told("given-up")["names"] if it in names]
        return bool(given_up)

    eventually(is_given_up)
    assert given_up == [names[1]]
    for window in (windows[0], windows[2]):
        window.notify("notifications/cancelled", requestId=7_000_000)
    eventually(lambda: set(names) <= set(windows[0].told("given-up")["names"]))
    assert all("7000000" not in window.heard() for window in windows), "who cancels is not answered"


def test_ten_megabytes_arrive_whole_in_each_window_at_once(windows: list[Window]) -> None:
    size = 10 * 1024 * 1024
    calls = [
        window.begin_call("large", letter=letter, size=size) for window, letter in zip(windows, "abc", strict=True)
    ]
    for window, call, letter in zip(windows, calls, "abc", strict=True):
        text = window.answer(call)["result"]["content"][0]["text"]
        assert (len(text), set(text)) == (size, {letter})
    for window in windows:
        assert psutil.Process(window.pid).memory_info().rss < 64 * 1024 * 1024


def test_a_thousand_calls_of_one_window_are_answered_and_hold_up_no_other(windows: list[Window]) -> None:
    busy, *others = windows
    lines = [
        message(busy, 10_000 + number, "tools/call", name="sdk__add", arguments={"a": number})
        for number in range(1_000)
    ]
    busy.write("".join(json.dumps(line) + "\n" for line in lines).encode())
    for window in others:
        assert window.told("process")
    sums = {10_000 + number: number for number in range(1_000)}
    while sums:
        answer = busy.answer_to_any(sums.keys())
        assert answer["result"]["structuredContent"]["sum"] == sums.pop(answer["id"])


def test_lines_that_are_no_messages_are_answered_and_the_next_one_as_well(windows: list[Window]) -> None:
    for window in windows:
        window.write(b'{"jsonrpc": "2.0", "id": 1, "method": \n')
        window.write(b"\xff\xfe\n\n   \n[]\n7\n")
        assert window.told("process")
        codes = [it["error"]["code"] for it in window.others if "error" in it]
        assert codes and set(codes) <= {-32700, -32600}, codes
        window.others.clear()


def test_a_batch_is_one_line_for_who_may_send_one(me: User) -> None:
    words = ("--config", str(me.config), "--agent", str(AGENT))
    old = me.window(*words, begin=False)
    old.begin(protocolVersion="2025-03-26")
    calls = [message(old, number, "tools/call", name="process", arguments={}) for number in (501, 502)]
    old.write(json.dumps(calls).encode() + b"\n")
    answers: Any = old.bridge.receive()
    assert sorted(answer["id"] for answer in answers) == [501, 502]


def test_a_request_without_an_end_of_line_is_answered_at_the_end_of_input_and_half_of_one_is_nothing(me: User) -> None:
    words = ("--config", str(me.config), "--agent", str(AGENT))
    whole, half = (me.window(*words) for _ in range(2))
    whole.write(json.dumps(message(whole, 900, "tools/call", name="process", arguments={})).encode())
    half.write(b'{"jsonrpc": "2.0", "id": 900, "meth')
    assert [whole.leave(), half.leave()] == [0, 0]
    assert whole.answer(900)["result"]
    assert half.bridge.rest_of_output() == ""


def test_a_window_that_stops_reading_in_the_middle_of_a_large_answer_holds_up_no_other(windows: list[Window]) -> None:
    stuck, *others = windows
    psutil.Process(stuck.pid).suspend()
    try:
        calls = [stuck.begin_call("large", letter="x", size=10 * 1024 * 1024) for _ in range(6)]
        for window in others:
            assert len(window.told("large", letter="y", size=1_000_000)) == 1_000_000
    finally:
        psutil.Process(stuck.pid).resume()
    for call in calls:
        assert len(stuck.answer(call)["result"]["content"][0]["text"]) == 10 * 1024 * 1024


def message(window: Window, number: int, method: str, **params: Any) -> JSON:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, **meta_of(window)}}


def meta_of(window: Window) -> JSON:
    if not window.modern:
        return {}
    return {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "window", "version": "1"},
        }
    }
