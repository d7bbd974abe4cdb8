"""What is known of a conversation is enough for another bridge to go on with it, and its client notices little."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gaia_bridge.text.json_types import JSON
from gaia_bridge_daemon.front.conversation import LOST, ConversationState

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
ALL_LISTS = {kind: {"listChanged": True} for kind in ("tools", "prompts", "resources")}


def line(**message: Any) -> bytes:
    """A line as our bridges write it."""
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


def read(lines: Iterable[bytes]) -> list[Any]:
    return [json.loads(told) for told in lines]


def ids(lines: Iterable[bytes]) -> list[Any]:
    return [message["id"] for message in read(lines) if "id" in message]


def notices(lines: Iterable[bytes]) -> list[str]:
    return [message["method"] for message in read(lines) if "id" not in message]


def greeted(conversation: ConversationState, identifier: int | str = 1, capabilities: JSON | None = None) -> None:
    """The client has shaken hands with the bridge."""
    told = ALL_LISTS if capabilities is None else capabilities
    conversation.read_client_line(line(id=identifier, method="initialize", params={"protocolVersion": "2025-06-18"}))
    assert conversation.read_bridge_line(line(id=identifier, result={"capabilities": told}))
    conversation.read_client_line(line(method="notifications/initialized"))


def listening(conversation: ConversationState, identifier: int | str = "news", **wanted: Any) -> None:
    """The client has asked for news, and the bridge has promised some."""
    conversation.read_client_line(line(id=identifier, method="subscriptions/listen", params={"notifications": wanted}))
    assert conversation.read_bridge_line(acknowledged(identifier, **wanted))


def acknowledged(identifier: int | str, **promised: Any) -> bytes:
    params = {"notifications": promised, "_meta": {SUBSCRIPTION: identifier}}
    return line(method="notifications/subscriptions/acknowledged", params=params)


def test_a_conversation_is_open_while_the_bridge_waits_for_an_answer_of_the_client() -> None:
    conversation = ConversationState()
    for number, end in enumerate((line(id=0, result={}), line(id=1, error={}))):
        assert conversation.read_bridge_line(line(id=number, method="roots/list"))
        assert conversation.is_open
        conversation.read_client_line(end)
        assert not conversation.is_open
    assert conversation.read_bridge_line(line(id=2, method="roots/list"))
    assert conversation.read_bridge_line(line(method="notifications/cancelled", params={"requestId": 2}))
    assert not conversation.is_open


def test_a_call_that_was_lost_is_an_error_and_is_not_made_again() -> None:
    conversation = ConversationState()
    conversation.read_client_line(line(id=7, method="tools/call", params={"name": "pay"}))
    [error] = read(conversation.report_loss("it ended"))
    assert error == {"jsonrpc": "2.0", "id": 7, "error": {"code": LOST, "message": "tools/call: it ended"}}
    assert not conversation.is_open
    assert list(conversation.replay()) == []


def test_a_list_that_was_lost_is_asked_for_again_as_it_was_written() -> None:
    conversation = ConversationState()
    asked = b'{ "method":"tools/list", "id":"a\\ud800", "jsonrpc":"2.0" }\n'
    conversation.read_client_line(asked)
    assert list(conversation.report_loss("it ended")) == []
    assert conversation.is_open
    assert list(conversation.replay()) == [asked]
    assert conversation.read_bridge_line(line(id="a\ud800", result={"tools": []}))
    assert not conversation.is_open


def test_the_next_bridge_hears_of_the_handshake_first_then_of_all_that_was_granted() -> None:
    conversation = ConversationState()
    greeted(conversation)
    for number, (method, params) in enumerate(
        [
            ("logging/setLevel", {"level": "debug"}),
            ("resources/subscribe", {"uri": "a:1"}),
            ("resources/subscribe", {"uri": "a:2"}),
            ("resources/unsubscribe", {"uri": "a:1"}),
        ]
    ):
        conversation.read_client_line(line(id=10 + number, method=method, params=params))
        assert conversation.read_bridge_line(line(id=10 + number, result={}))
    conversation.read_client_line(line(id=20, method="tools/list"))
    told = read(conversation.replay())
    assert [message["method"] for message in told] == [
        "initialize",
        "notifications/initialized",
        "logging/setLevel",
        "resources/subscribe",
        "tools/list",
    ]
    assert told[2]["params"] == {"level": "debug"}
    assert told[3]["params"] == {"uri": "a:2"}
    resumed = read(conversation.report_changes())
    assert {message["method"] for message in resumed} == {
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
    }
    assert resumed[-1]["params"] == {"uri": "a:2"}


def test_what_a_bridge_refused_is_neither_told_to_the_next_one_nor_announced() -> None:
    conversation = ConversationState()
    greeted(conversation, capabilities={})
    conversation.read_client_line(line(id=2, method="resources/subscribe", params={"uri": "gone:"}))
    conversation.read_client_line(line(id=3, method="logging/setLevel", params={"level": "loud"}))
    for number in (2, 3):
        assert conversation.read_bridge_line(line(id=number, error={"code": -32602, "message": "no"}))
    assert [message["method"] for message in read(conversation.replay())] == ["initialize", "notifications/initialized"]
    assert list(conversation.report_changes()) == []


def test_of_two_handshakes_the_last_one_that_was_granted_counts() -> None:
    conversation = ConversationState()
    greeted(conversation)
    conversation.read_client_line(line(id=2, method="initialize", params={"protocolVersion": "2025-11-25"}))
    assert conversation.read_bridge_line(line(id=2, result={"capabilities": {}}))
    conversation.read_client_line(line(id=3, method="initialize", params={"protocolVersion": "x"}))
    assert conversation.read_bridge_line(line(id=3, error={"code": -32602, "message": "no"}))
    assert read(conversation.replay())[0]["params"] == {"protocolVersion": "2025-11-25"}
    assert list(conversation.report_changes()) == []


def test_a_client_that_did_not_wait_for_its_handshake_need_not_say_again_that_it_is_complete() -> None:
    conversation = ConversationState()
    conversation.read_client_line(line(id=1, method="initialize", params={}))
    conversation.read_client_line(line(method="notifications/initialized"))
    conversation.read_client_line(line(id=2, method="tools/list"))
    assert list(conversation.report_loss("it ended")) == []
    told = [message["method"] for message in read(conversation.replay())]
    assert told == ["initialize", "notifications/initialized", "tools/list"]


@pytest.mark.parametrize("taken", ["gaia-bridge-front-0", "gaia-bridge-front"])
def test_an_id_of_the_client_is_never_taken_for_one_of_ours(taken: str) -> None:
    conversation = ConversationState()
    greeted(conversation, taken)
    ours = ids(conversation.replay())
    conversation.read_client_line(line(id=taken, method="tools/call", params={}))
    assert conversation.read_bridge_line(line(id=taken, result={}))
    assert [conversation.read_bridge_line(line(id=identifier, result={})) for identifier in ours] == [False]


def test_answers_to_our_own_requests_are_kept_from_the_client_also_if_they_are_errors() -> None:
    conversation = ConversationState()
    greeted(conversation)
    conversation.read_client_line(line(id=2, method="logging/setLevel", params={"level": "info"}))
    assert conversation.read_bridge_line(line(id=2, result={}))
    first, second = ids(conversation.replay())
    assert not conversation.read_bridge_line(line(id=first, result={"capabilities": {}}))
    assert not conversation.read_bridge_line(line(error={"code": 1, "message": "no"}, id=second))
    assert [message["method"] for message in read(conversation.report_changes())] != []


def test_a_promise_that_was_made_before_is_not_made_again() -> None:
    conversation = ConversationState()
    listening(conversation, toolsListChanged=True, resourceSubscriptions=["a:1"])
    assert list(conversation.report_loss("it ended")) == []
    assert ids(conversation.replay()) == ["news"]
    assert read(conversation.report_changes()) == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/tools/list_changed",
            "params": {"_meta": {SUBSCRIPTION: "news"}},
        },
        {
            "jsonrpc": "2.0",
            "method": "notifications/resources/updated",
            "params": {"uri": "a:1", "_meta": {SUBSCRIPTION: "news"}},
        },
    ]
    assert not conversation.read_bridge_line(acknowledged("news", toolsListChanged=True))


def test_a_promise_that_was_lost_on_its_way_is_made_by_the_next_bridge() -> None:
    conversation = ConversationState()
    params = {"notifications": {"toolsListChanged": True}}
    conversation.read_client_line(line(id=1, method="subscriptions/listen", params=params))
    assert list(conversation.report_loss("it ended")) == []
    assert ids(conversation.replay()) == [1]
    assert list(conversation.report_changes()) == []
    assert conversation.read_bridge_line(acknowledged(1, toolsListChanged=True))


def test_news_are_announced_as_promised_which_may_be_less_than_was_wanted() -> None:
    conversation = ConversationState()
    params = {"notifications": {"toolsListChanged": True, "promptsListChanged": True}}
    conversation.read_client_line(line(id=1, method="subscriptions/listen", params=params))
    assert conversation.read_bridge_line(acknowledged(1, promptsListChanged=True))
    assert notices(conversation.report_changes()) == ["notifications/prompts/list_changed"]


@pytest.mark.parametrize("how", ["cancelled", "answered", "refused"])
def test_news_that_are_over_are_not_asked_for_again_and_their_id_can_be_used_again(how: str) -> None:
    conversation = ConversationState()
    listening(conversation, 5, toolsListChanged=True)
    list(conversation.replay())
    if how == "cancelled":
        conversation.read_client_line(line(method="notifications/cancelled", params={"requestId": 5}))
    else:
        end: JSON = {"result": {}} if how == "answered" else {"error": {"code": 1, "message": "no"}}
        assert conversation.read_bridge_line(line(id=5, **end))
    assert list(conversation.replay()) == []
    listening(conversation, 5, promptsListChanged=True)


def test_what_the_client_cancelled_is_neither_answered_nor_asked_again() -> None:
    conversation = ConversationState()
    conversation.read_client_line(line(id=1, method="tools/call", params={}))
    conversation.read_client_line(line(id=2, method="tools/list"))
    for number in (1, 2, 3):
        conversation.read_client_line(line(method="notifications/cancelled", params={"requestId": number}))
    assert not conversation.is_open
    assert [*conversation.report_loss("it ended"), *conversation.replay()] == []


def test_a_question_of_a_bridge_that_is_gone_is_taken_back_and_its_number_not_used_again() -> None:
    conversation = ConversationState()
    conversation.read_client_line(line(id=1, method="tools/call", params={}))
    for number in (4, 5, 3):
        assert conversation.read_bridge_line(line(id=number, method="elicitation/create", params={}))
    conversation.read_client_line(line(id=5, result={"action": "accept"}))
    assert conversation.read_bridge_line(line(method="notifications/cancelled", params={"requestId": 3}))
    error, back = read(conversation.report_loss("it ended"))
    assert error["id"] == 1
    assert back["method"] == "notifications/cancelled"
    assert back["params"] == {"requestId": 4, "reason": "it ended"}
    assert conversation.last_asked == 5
    assert not conversation.is_open


def test_each_request_of_a_batch_has_an_end_of_its_own() -> None:
    conversation = ConversationState()
    batch: list[Any] = [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}},
        {"jsonrpc": "2.0", "id": "\ud800", "method": "tools/list"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        17,
    ]
    conversation.read_client_line(json.dumps(batch).encode() + b"\n")
    assert ids(conversation.report_loss("it ended")) == [1]
    [again] = read(conversation.replay())
    assert again == batch[1]
    answers = json.dumps([{"jsonrpc": "2.0", "id": "\ud800", "result": {}}]).encode() + b"\n"
    assert conversation.read_bridge_line(answers)
    assert not conversation.is_open


@pytest.mark.parametrize(
    "strange",
    [
        b"no JSON\n",
        b"\n",
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"result":{}}\n',
        b'{"jsonrpc":"2.0","id":"\xff","result":{}}\n',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\n',
        b'{"jsonrpc":"2.0","id":{"a":1},"method":"tools/list"}\n',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}\n',
        b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{}}}\n',
        b'{"jsonrpc":"2.0","id":[1],"result":{}}\n',
        b"[1, [2], null]\n",
        b"17\n",
    ],
    ids=lambda text: repr(text[:30]),
)
def test_whatever_is_not_understood_is_passed_on_in_both_directions(strange: bytes) -> None:
    conversation = ConversationState()
    greeted(conversation)
    conversation.read_client_line(line(id=1, method="tools/call", params={}))
    conversation.read_client_line(strange)
    assert conversation.read_bridge_line(strange)
    assert ids(conversation.report_loss("it ended")) == [1]


def test_true_is_no_number() -> None:
    conversation = ConversationState()
    conversation.read_client_line(line(id=1, method="tools/call", params={}))
    conversation.read_client_line(line(id=True, method="tools/list"))
    conversation.read_client_line(line(method="notifications/cancelled", params={"requestId": True}))
    assert conversation.read_bridge_line(line(id=True, result={}))
    assert ids(conversation.report_loss("it ended")) == [1]


def test_what_the_bridge_was_never_sent_is_asked_of_the_next_one_whatever_it_is() -> None:
    conversation = ConversationState()
    calls = [line(id=number, method="tools/call", params={"name": "pay"}) for number in (1, 2, 3)]
    for call in calls:
        conversation.read_client_line(call)
    conversation.mark_unsent(calls[1][30:] + calls[2] + b"nonsense\n[1]\n")
    assert ids(conversation.report_loss("it ended")) == [1, 2]
    assert [again.strip() for again in conversation.replay()] == [calls[2].strip()]
    assert conversation.read_bridge_line(line(id=3, result={}))
    assert not conversation.is_open


def test_it_is_not_quiet_while_the_client_looks_for_an_answer() -> None:
    conversation = ConversationState()
    conversation.read_client_line(line(id=1, method="tools/call", params={}))
    result: JSON = {"resultType": "input_required", "inputRequests": {}, "requestState": "s"}
    assert conversation.read_bridge_line(line(id=1, result=result))
    assert not conversation.is_open
    assert not conversation.is_quiet
    conversation.read_client_line(line(id=2, method="tools/call", params={"requestState": "s"}))
    text = {"content": [{"type": "text", "text": '"resultType":"input_required"'}], "requestState": "t"}
    assert conversation.read_bridge_line(line(id=2, result=text))
    assert conversation.is_quiet
    for number in range(1_000):
        conversation.read_client_line(line(id=number, method="tools/call", params={}))
        assert conversation.read_bridge_line(line(id=number, result={**result, "requestState": str(number)}))
    assert len(conversation._waited_for) == 100
    assert list(conversation.report_loss("it ended")) == []
    assert conversation.is_quiet


TASK: JSON = {"taskId": "t", "status": "working"}


@pytest.mark.parametrize("created", [{"task": TASK}, {"resultType": "task", **TASK}], ids=["legacy", "modern"])
@pytest.mark.parametrize("how", ["its result", "its end", "cancelled", "failed"])
def test_it_is_not_quiet_while_a_task_is_worked_on(created: JSON, how: str) -> None:
    conversation = ConversationState()
    conversation.read_client_line(line(id=1, method="tools/call", params={"task": {}}))
    assert conversation.read_bridge_line(line(id=1, result=created))
    conversation.read_client_line(line(id=2, method="tasks/get", params={"taskId": "t"}))
    assert conversation.read_bridge_line(line(id=2, result={**TASK, "status": "completed"}))
    assert not conversation.is_quiet
    method = {"its result": "tasks/result", "cancelled": "tasks/cancel"}.get(how, "tasks/get")
    conversation.read_client_line(line(id=3, method=method, params={"taskId": "t"}))
    end: JSON = {"status": "failed"} if how == "failed" else {"status": "completed", "result": {}}
    assert conversation.read_bridge_line(line(id=3, result={**TASK, **end}))
    assert conversation.is_quiet


def test_if_there_will_be_no_other_bridge_everything_that_is_open_is_an_error() -> None:
    conversation = ConversationState()
    conversation.read_client_line(line(id=1, method="tools/list"))
    listening(conversation, "news", toolsListChanged=True)
    assert ids(conversation.report_end("none can be started")) == [1, "news"]
    assert list(conversation.report_end("none can be started")) == []


IDS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from(["1", "2", "gaia-bridge-front-0", "gaia-bridge-front-1", "\ud800", "\u2028", '"\\']),
)
LISTEN = "subscriptions/listen"
REPEATED = ("tools/list", "prompts/list", "ping", "resources/subscribe", "logging/setLevel", "initialize")
ONCE = ("tools/call", "resources/read", "prompts/get")


class AnyConversation(RuleBasedStateMachine):
    """A client and a bridge that say whatever they may, in any order, and bridges that are lost at any time.

    The model knows what the client waits for: `waiting` by its methods. What the next bridge was asked is what it may
    answer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conversation = ConversationState()
        self.waiting: dict[int | str, str] = {}
        self.at_bridge: list[JSON] = []
        """Requests that the bridge of the moment has heard, and not answered."""
        self.greeted = False

    def heard(self, lines: Iterable[bytes]) -> None:
        self.at_bridge += [message for message in read(lines) if "method" in message and "id" in message]

    @rule(identifier=IDS, method=st.sampled_from([*REPEATED, *ONCE, LISTEN]), batch=st.booleans())
    def asks(self, identifier: int | str, method: str, batch: bool) -> None:
        if identifier in self.waiting:
            return
        params = {"uri": f"a:{identifier!r}", "level": "info", "notifications": {"toolsListChanged": True}}
        message = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params}
        text = json.dumps([message] if batch else message).encode() + b"\n"
        self.conversation.read_client_line(text)
        self.heard([json.dumps(message).encode()])
        self.waiting[identifier] = method

    @precondition(lambda self: self.at_bridge)
    @rule(data=st.data(), ok=st.booleans(), ours=st.booleans(), batch=st.booleans())
    def answers(self, data: st.DataObject, ok: bool, ours: bool, batch: bool) -> None:
        request = self.at_bridge.pop(data.draw(st.integers(0, len(self.at_bridge) - 1)))
        identifier = request["id"]
        if request["method"] == LISTEN and ok and identifier in self.waiting:
            self.conversation.read_bridge_line(acknowledged(identifier, toolsListChanged=True))
            self.at_bridge.append(request)
            return
        end: JSON = {"result": {"capabilities": {}}} if ok else {"error": {"code": -1, "message": "no"}}
        text = line(id=identifier, **end) if ours else line(**end, id=identifier)
        for_client = self.conversation.read_bridge_line(b"[" + text.strip() + b"]\n" if batch else text)
        assert for_client is (identifier in self.waiting)
        if for_client:
            self.greeted |= ok and self.waiting[identifier] == "initialize"
            del self.waiting[identifier]

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancels(self, data: st.DataObject) -> None:
        identifier = data.draw(st.sampled_from(list(self.waiting)))
        self.conversation.read_client_line(line(method="notifications/cancelled", params={"requestId": identifier}))
        del self.waiting[identifier]
        self.at_bridge = [request for request in self.at_bridge if request["id"] != identifier]

    @rule()
    def is_lost(self) -> None:
        told = read(self.conversation.report_loss("it ended"))
        failed = [message["id"] for message in told]
        assert sorted(map(repr, failed)) == sorted(repr(key) for key, name in self.waiting.items() if name in ONCE)
        for identifier in failed:
            del self.waiting[identifier]
        self.at_bridge.clear()
        lines = list(self.conversation.replay())
        self.heard(lines)
        asked = [message["method"] for message in read(lines)]
        if self.greeted:
            assert asked[0] == "initialize"
        again = [message["id"] for message in self.at_bridge if message["id"] in self.waiting]
        assert sorted(map(repr, again)) == sorted(map(repr, self.waiting))
        assert not {message["method"] for message in self.at_bridge} & set(ONCE)
        assert all("id" not in message for message in read(self.conversation.report_changes()))

    @invariant()
    def is_open_while_the_client_waits(self) -> None:
        assert self.conversation.is_open is any(method != LISTEN for method in self.waiting.values())


AnyConversation.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
TestAnyConversation = AnyConversation.TestCase


@given(st.binary(max_size=60))
def test_no_bytes_break_it(data: bytes) -> None:
    conversation = ConversationState()
    conversation.read_client_line(data)
    conversation.read_bridge_line(data)
    told = read([*conversation.report_loss("it ended"), *conversation.report_changes()])
    assert all(message["jsonrpc"] == "2.0" for message in told)
