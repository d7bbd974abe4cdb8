"""The one object through which agent code speaks to its client."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest

from gaia_bridge.calls.request_context import CallChannel, Elicited, RequestContext, get_request_context, request_scope
from gaia_bridge.errors import ClientCapabilityError, RequestCancelledError
from gaia_bridge.model import LOG_LEVELS, LogMessage, Progress
from gaia_bridge.text.json_types import JSON
from tests.support.upstreams import FakeRequest


class Channel:
    """Remembers what was said, and answers every question with the same."""

    is_asking = False
    editor = None

    def __init__(self, answer: JSON | None = None) -> None:
        self.answer = answer or {}
        self.said: list[Any] = []
        self.cancelled = False

    def wait_cancelled(self, timeout: float) -> bool:
        self.said.append(("wait", timeout))
        return self.cancelled

    def raise_if_cancelled(self) -> None:
        if self.cancelled:
            raise RequestCancelledError

    def post_progress(self, report: Progress) -> None:
        self.said.append((report.progress, report.total, report.message))

    def post_log(self, message: LogMessage) -> None:
        self.said.append((message.level, message.data, message.logger))

    def ask(self, method: str, params: JSON) -> JSON:
        self.said.append((method, params))
        return self.answer

    async def aask(self, method: str, params: JSON) -> JSON:
        return self.ask(method, params)

    def close_stream(self) -> None:
        self.said.append("close")


_channel: type[CallChannel] = Channel


def context(channel: Channel | None = None, request: FakeRequest | None = None) -> RequestContext:
    return RequestContext(channel or Channel(), request or FakeRequest(), None)


def test_there_is_no_request_outside_of_one() -> None:
    with pytest.raises(LookupError, match="works inside execute_mcp_tool"):
        get_request_context()


def test_the_request_is_found_in_its_scope_and_nowhere_else() -> None:
    one, other = context(), context()
    assert request_scope(one).run(get_request_context) is one
    assert request_scope(other).run(get_request_context) is other
    with pytest.raises(LookupError):
        get_request_context()


@pytest.mark.requirement("F-109")
def test_a_scope_inherits_context_variables_and_leaks_none() -> None:
    principal: contextvars.ContextVar[str] = contextvars.ContextVar("principal")
    principal.set("caller")
    scope = request_scope(context())
    assert scope.run(principal.get) == "caller"
    scope.run(principal.set, "changed in the call")
    assert principal.get() == "caller"
    assert request_scope(context()).run(principal.get) == "caller"


def test_a_thread_of_the_agents_own_finds_the_request_if_it_is_given_the_context() -> None:
    found: list[RequestContext] = []

    def work() -> None:
        scope = contextvars.copy_context()
        thread = threading.Thread(target=lambda: found.append(scope.run(get_request_context)))
        thread.start()
        thread.join()

    one = context()
    request_scope(one).run(work)
    assert found == [one]


def test_progress_and_logs_are_passed_on() -> None:
    channel = Channel()
    request = context(channel)
    request.report_progress(1)
    request.report_progress(2, 3, "half")
    request.log("hello")
    request.log({"n": 1}, "warning", "agent.part")
    request.close_stream()
    expected = [(1, None, None), (2, 3, "half"), ("info", "hello", None), ("warning", {"n": 1}, "agent.part"), "close"]
    assert channel.said == expected


@pytest.mark.requirement("F-104")
@pytest.mark.parametrize(("progress", "total"), [(float("nan"), None), (float("inf"), 1), (1, float("nan"))])
def test_progress_must_be_a_number_that_json_has(progress: float, total: float | None) -> None:
    channel = Channel()
    with pytest.raises(ValueError, match="finite"):
        context(channel).report_progress(progress, total)
    assert channel.said == []


def test_only_the_levels_of_the_protocol_can_be_logged() -> None:
    channel = Channel()
    for level in LOG_LEVELS:
        context(channel).log("x", level)
    with pytest.raises(ValueError, match="expected one of debug, info"):
        context(channel).log("x", "WARN")
    assert len(channel.said) == len(LOG_LEVELS)


def test_a_form_is_asked_and_its_answer_read() -> None:
    channel = Channel({"action": "accept", "content": {"sure": True}})
    answer = context(channel).elicit("Delete it?", {"sure": {"type": "boolean"}})
    assert answer == Elicited("accept", {"sure": True})
    assert answer.accepted
    [(method, params)] = channel.said
    assert method == "elicitation/create"
    assert params["requestedSchema"]["required"] == ["sure"]


@pytest.mark.parametrize("answer", [{"action": "decline"}, {"action": "cancel", "content": None}, {}])
def test_an_answer_without_content_is_empty_and_not_accepted(answer: JSON) -> None:
    elicited = context(Channel(answer)).elicit("?", {})
    assert not elicited.accepted
    assert elicited.content == {}


def test_a_link_has_an_id_of_its_own() -> None:
    channel = Channel({"action": "accept"})
    context(channel).elicit_url("Pay", "https://example.com/pay")
    context(channel).elicit_url("Pay", "https://example.com/pay")
    [first, second] = [params for _, params in channel.said]
    assert (first["mode"], first["url"]) == ("url", "https://example.com/pay")
    assert first["elicitationId"] != second["elicitationId"]


def test_a_model_and_the_roots_can_be_asked_for() -> None:
    channel = Channel({"roots": [{"uri": "file:///x"}], "model": "m"})
    assert context(channel).sample("why?", 10, temperature=0)["model"] == "m"
    assert context(channel).list_roots() == [{"uri": "file:///x"}]
    assert context(Channel()).list_roots() == []
    assert [method for method, _ in channel.said] == ["sampling/createMessage", "roots/list"]
    assert channel.said[0][1]["temperature"] == 0


def test_coroutines_ask_the_same_questions() -> None:
    channel = Channel({"action": "accept", "roots": [{"uri": "file:///x"}]})
    request = context(channel)

    async def ask() -> None:
        assert (await request.aelicit("?", {})).accepted
        assert (await request.aelicit_url("?", "https://example.com")).accepted
        assert (await request.asample("?", 1))["action"] == "accept"
        assert await request.alist_roots() == [{"uri": "file:///x"}]

    asyncio.run(ask())
    assert [method for method, _ in channel.said] == ["elicitation/create"] * 2 + [
        "sampling/createMessage",
        "roots/list",
    ]


def test_what_came_with_the_request_can_be_read() -> None:
    request = FakeRequest(meta={"traceparent": "00-1"})
    request.client_capabilities = {"sampling": {}, "roots": None}
    request.input_responses = {"q": {"action": "decline"}}
    shown = RequestContext(Channel(), request, "state")
    assert shown.meta == {"traceparent": "00-1"}
    assert shown.client_capabilities == request.client_capabilities
    assert shown.input_responses == request.input_responses
    assert shown.request_state == "state"


@pytest.mark.requirement("S-32")
def test_a_client_can_be_refused_for_what_it_lacks() -> None:
    request = FakeRequest()
    request.client_capabilities = {"sampling": {}, "roots": None}
    shown = context(request=request)
    assert (shown.has_capability("sampling"), shown.has_capability("roots")) == (True, False)
    shown.require_capability("sampling")
    with pytest.raises(ClientCapabilityError) as caught:
        shown.require_capability("elicitation")
    assert caught.value.capabilities == {"elicitation": {}}


def test_cancellation_can_be_asked_for_waited_for_and_raised() -> None:
    channel = Channel()
    request = context(channel)
    assert not request.cancelled
    request.raise_if_cancelled()
    channel.cancelled = True
    assert request.cancelled
    assert request.wait_cancelled(1.5)
    with pytest.raises(RequestCancelledError):
        request.raise_if_cancelled()
