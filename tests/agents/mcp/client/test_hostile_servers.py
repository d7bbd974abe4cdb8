"""Servers that do what servers must not, used by the library alone: each costs an error that says what came."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia.mcp import MCPClient
from gaia.mcp.aio.results import outcome
from gaia.mcp.client.transports import connection
from gaia.mcp.toolset.client_manager import MCPClientManager
from gaia_bridge.settings import UpstreamLimits
from tests.servers.hostile_child import FAULTS
from tests.support.gaia_clients import fake_client
from tests.support.processes import background_threads
from tests.support.waiting import PATIENCE, eventually

PROGRAM = Path(__file__).parents[3] / "servers" / "hostile_child.py"
DONE = {"content": [{"type": "text", "text": "done"}]}


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No child, no grandchild and no thread of a test is there afterwards."""
    yield
    eventually(lambda: not background_threads())
    eventually(lambda: not [p for p in psutil.process_iter(["cmdline"]) if str(PROGRAM) in (p.info["cmdline"] or [])])


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = partial(UpstreamLimits, stop_grace=0.1, terminate_grace=0.1, message_bytes=1_000_000)
    monkeypatch.setattr(connection, "UpstreamLimits", limits)


def hostile(method: str, fault: str, told: object) -> MCPClient:
    """A client of a server with a fault at a method; impatient only where it is told that there was no answer."""
    timeout = 1.0 if isinstance(told, str) and "within 1 s" in told else PATIENCE
    entry = {"command": sys.executable, "args": ["-S", str(PROGRAM), method, fault]}
    patient = {} if method == "initialize" else {"startup_timeout": PATIENCE}
    return MCPClient.from_config("hostile", {**entry, **patient}, timeout)


@pytest.mark.requirement("F-351")
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("endless_line", "hostile wrote a line of more than"),
        ("endless_lines", "hostile answered initialize with what is no JSON: no message"),
        ("silence", "hostile did not answer initialize within 1 s"),
        ("sudden_death", "hostile answered initialize with what is no JSON: {"),
        ("no_object", "hostile answered initialize with neither a result nor an error"),
        ("wrong_error", "hostile answered initialize with an error that has no code or no message: boom"),
    ],
)
def test_a_server_that_greets_in_no_way_is_not_connected_and_it_is_said_why(fault: str, told: str) -> None:
    client = hostile("initialize", fault, told)
    assert client.connect() is False
    assert told in client.last_error
    assert client.list_tools() == []


@pytest.mark.requirement("F-351")
@pytest.mark.parametrize(
    ("fault", "count", "told"),
    [
        ("endless_pages", 100, "after 100 definitions it is cut"),
        ("hundred_thousand_tools", 0, "hostile wrote a line of more than"),
        ("no_tools", 1, "a tool is a int; expected an object; it is left out"),
        ("deep_json", 0, "hostile sent a response that is no valid JSON"),
        ("silence", 0, "hostile did not answer tools/list within 1 s"),
        ("sudden_death", 0, "hostile exited with code 3"),
        ("no_object", 0, "hostile answered tools/list with"),
        ("wrong_error", 0, "an error that has no code or no message"),
    ],
)
def test_a_list_that_is_none_or_has_no_end_is_cut_and_it_is_said_why(
    fault: str, count: int, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    with hostile("tools/list", fault, told) as client:
        found = len(client.list_tools())
    assert found == count
    assert told in caplog.text


@pytest.mark.requirement("F-351")
def test_a_list_of_slow_pages_takes_no_longer_than_a_request_may(caplog: pytest.LogCaptureFixture) -> None:
    with hostile("tools/list", "endless_slow_pages", "within 1 s") as client:
        assert len(client.list_tools()) < 100
    assert "it is cut" in caplog.text


@pytest.mark.requirement("F-351")
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("endless_line", "hostile wrote a line of more than"),
        ("endless_lines", "lines within 10 s to its standard output that are no MCP messages"),
        ("endless_notes", "hostile did not answer tools/call within 1 s"),
        ("silence", "hostile did not answer tools/call within 1 s"),
        ("sudden_death", "hostile exited with code 3 before it answered; whether it did the work is unknown"),
        ("answers_to_others", "hostile did not answer tools/call within 1 s"),
        ("deep_json", {"error": "hostile sent a response that is no valid JSON"}),
        ("huge_numbers", {"error": "hostile sent a response that is no valid JSON"}),
        ("no_object", {"error": "hostile answered tools/call with neither a result nor an error"}),
        ("wrong_error", {"error": "hostile answered tools/call with an error that has no code or no message: boom"}),
        ("surrogates", {"content": [{"type": "text", "text": "a?b"}]}),
        ("two_answers", {"content": [{"type": "text", "text": "answer 0"}]}),
        ("questions", DONE),
        ("stubborn_child", DONE),
    ],
)
def test_a_call_has_its_own_answer_or_an_error_that_says_what_came(fault: str, expected: Any) -> None:
    with hostile("tools/call", fault, expected) as client:
        if isinstance(expected, str):
            with pytest.raises((RuntimeError, TimeoutError)) as caught:
                client.call_tool("work", {})
            assert expected in str(caught.value)
            return
        for _ in range(1 if fault == "stubborn_child" else 2):  # the second is not disturbed by what came of the first
            assert client.call_tool("work", {}) == expected


def test_every_fault_is_tried() -> None:
    tests = Path(__file__).read_text("utf-8")
    assert [fault for fault in FAULTS if f'"{fault}"' not in tests] == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("type", "text", "uri")), inner),
    max_leaves=6,
)
results = json_values | st.dictionaries(
    st.sampled_from(("content", "structuredContent", "isError", "resultType", "_meta")),
    json_values | st.just("text") | st.lists(st.fixed_dictionaries({"type": json_values, "text": json_values})),
)


@pytest.mark.requirement("F-351")
@given(result=results)
def test_a_result_of_any_shape_is_an_outcome_for_every_kind_of_caller(result: Any) -> None:
    client, _ = fake_client({"name": "work", "inputSchema": {"type": "object"}}, work={"result": result})
    answer = client.call_tool("work", {})
    assert answer == result
    assert isinstance(outcome(answer)["success"], bool)
    manager = MCPClientManager()
    manager._clients["fake"] = client  # pyright: ignore[reportPrivateUsage]  # specified
    try:
        blocks = manager.call_tool("fake", "work", {})
    except RuntimeError as error:
        assert str(error)
    else:
        assert all(isinstance(block, dict) for block in blocks)
    finally:
        manager._clients.clear()  # pyright: ignore[reportPrivateUsage]
