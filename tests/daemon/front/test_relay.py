"""The relay between a client and whichever bridge there is: lines, losses, moves; neither side fills its memory."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import json
import os
import queue
import select
import socket
import sys
import threading
import tracemalloc
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gaia_bridge_daemon.front import relay as module
from gaia_bridge_daemon.front.conversation import LOST
from gaia_bridge_daemon.front.greeting import MOVE, REST, read_greeting, written
from gaia_bridge_daemon.front.launching import BridgeDownError
from gaia_bridge_daemon.front.relay import FrontRelay, by_poll, by_select, way_for
from tests.daemon.front.test_conversation import ALL_LISTS, line
from tests.support.waiting import PATIENCE, eventually

Ends = tuple[int, int, int, int]
"""Where the relay reads and writes, and where the client does."""


def of_pipes() -> Ends:
    reading, to_relay = os.pipe()
    from_relay, writing = os.pipe()
    return reading, writing, from_relay, to_relay


def of_one_socket() -> Ends:
    """As Node.js starts programs, and some that pass one socket for both."""
    relay, client = socket.socketpair()
    ends = relay.detach(), client.detach()
    return ends[0], os.dup(ends[0]), ends[1], os.dup(ends[1])


def of_two_sockets() -> Ends:
    reading, to_relay = (end.detach() for end in socket.socketpair())
    from_relay, writing = (end.detach() for end in socket.socketpair())
    return reading, writing, from_relay, to_relay


class Bridge:
    """The end of a bridge, as the test plays it."""

    def __init__(self, connection: socket.socket, asked: int) -> None:
        self.asked = asked
        self.connection = connection
        connection.settimeout(PATIENCE)
        self._file = connection.makefile("rb")

    def says(self, data: bytes) -> None:
        self.connection.sendall(data)

    def hears(self) -> bytes:
        """The next line; nothing at the end."""
        return self._file.readline()

    def hears_all(self, number: int) -> list[Any]:
        return [json.loads(self.hears()) for _ in range(number)]

    def ends(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self.connection.close()


class Window:
    """A relay in a thread, its client, and its bridges."""

    def __init__(self, ends: Ends) -> None:
        self.reading, self.writing, self.listening, self.speaking = ends
        self.bridges: queue.Queue[Bridge] = queue.Queue()
        self.refusal = ""
        self.error: BaseException | None = None
        self.news: list[Any] = []
        self.relay = FrontRelay(self._reach, self.news.append, self.reading, self.writing)
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._rest = b""
        self._open = {self.listening, self.speaking}
        self._made: list[Bridge] = []

    def begin(self) -> None:
        self._thread.start()

    def _reach(self, asked: int) -> socket.socket:
        if self.refusal:
            raise BridgeDownError(self.refusal)
        mine, other = socket.socketpair()
        bridge = Bridge(other, asked)
        self._made.append(bridge)
        self.bridges.put(bridge)
        return mine

    def _run(self) -> None:
        try:
            self.relay.run()
        except BaseException as error:  # the test looks at it
            self.error = error

    def bridge(self) -> Bridge:
        """The next bridge that was reached."""
        return self.bridges.get(timeout=PATIENCE)

    def says(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.speaking, data) :]

    def hears(self) -> bytes:
        """The next line; nothing at the end."""
        while b"\n" not in self._rest:
            assert select.select([self.listening], [], [], PATIENCE)[0], "the client hears nothing"
            if not (chunk := os.read(self.listening, 1_048_576)):
                return b""
            self._rest += chunk
        found, _, self._rest = self._rest.partition(b"\n")
        return found + b"\n"

    def hears_all(self, number: int) -> list[Any]:
        return [json.loads(self.hears()) for _ in range(number)]

    def hears_nothing_more(self) -> bool:
        return not self._rest and not select.select([self.listening], [], [], 0)[0]

    def hangs_up(self, descriptor: int | None = None) -> None:
        for end in (self.speaking, self.listening) if descriptor is None else (descriptor,):
            if end in self._open:
                self._open.discard(end)
                os.close(end)

    def ended(self) -> BaseException | None:
        """Wait for the relay's end; what it was ended by."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "it goes on"
        return self.error

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        self.refusal = "the test is over"
        self.hangs_up()
        for bridge in self._made:
            bridge.ends()
        self._thread.join(PATIENCE)
        for bridge in self._made:  # one that was reached meanwhile
            bridge.ends()
        for end in (self.reading, self.writing):
            os.close(end)
        assert not self._thread.is_alive(), "it goes on without a client"


@contextmanager
def opened(kind: Callable[[], Ends] = of_pipes) -> Generator[Window]:
    window = Window(kind())
    window.begin()
    try:
        yield window
    finally:
        window.close()


@pytest.fixture(params=[of_pipes, of_one_socket, of_two_sockets])
def window(request: pytest.FixtureRequest) -> Generator[Window]:
    with opened(request.param) as made:
        yield made


@pytest.fixture
def piped() -> Generator[Window]:
    with opened() as made:
        yield made


def greeted(window: Window) -> Bridge:
    """The bridge, with which the client has shaken hands."""
    bridge = window.bridge()
    window.says(line(id=1, method="initialize", params={}) + line(method="notifications/initialized"))
    bridge.hears_all(2)
    bridge.says(line(id=1, result={"capabilities": ALL_LISTS}))
    window.hears()
    return bridge


@pytest.mark.parametrize("system", ["darwin", "linux"])
def test_devices_are_waited_for_as_the_system_can(monkeypatch: pytest.MonkeyPatch, system: str) -> None:
    monkeypatch.setattr(sys, "platform", system)
    reading, writing = os.pipe()
    device = os.open(os.devnull, os.O_RDWR)
    try:
        assert way_for(reading, writing) is by_poll
        assert way_for(reading, device) is (by_select if system == "darwin" else by_poll)
    finally:
        for descriptor in (reading, writing, device):
            os.close(descriptor)


def always_by_select(*_: int) -> Any:
    return by_select


def test_devices_are_served_like_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "way_for", always_by_select)
    with opened() as window:
        first = greeted(window)
        window.says(line(id=2, method="tools/list"))
        first.hears()
        first.ends()
        second = window.bridge()
        assert second.hears_all(3)[-1]["id"] == 2
        second.says(line(id=2, result={}))
        assert window.hears_all(4)[-1]["id"] == 2
        window.hangs_up()
        assert window.ended() is None


# Lines.


def test_lines_pass_in_both_directions_as_they_are_whatever_they_are(window: Window) -> None:
    bridge = window.bridge()
    for text in (b"{}\n", b"\n", b"nonsense\xff\n", b'{"a": 1}\r\n', b"x" * 300_000 + b"\n"):
        window.says(text)
        assert bridge.hears() == text
        bridge.says(text)
        assert window.hears() == text


def test_half_a_line_waits_for_its_other_half(piped: Window) -> None:
    bridge = piped.bridge()
    piped.says(b'{"id":1,')
    bridge.says(b'{"id":1,')
    piped.says(b'"method":"x"}\n')
    assert bridge.hears() == b'{"id":1,"method":"x"}\n'
    assert piped.hears_nothing_more()
    bridge.says(b'"result":1}\n')
    assert piped.hears() == b'{"id":1,"result":1}\n'


def test_half_a_line_of_a_bridge_that_is_gone_is_never_seen(piped: Window) -> None:
    bridge = greeted(piped)
    bridge.says(line(method="notifications/message") + b'{"jsonrpc":"2.0","id":')
    assert piped.hears() == line(method="notifications/message")
    bridge.ends()
    piped.bridge().says(line(method="notifications/other"))
    heard = [message["method"] for message in piped.hears_all(4)]
    assert heard == [*(f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")), heard[-1]]
    assert heard[-1] == "notifications/other"


def test_half_a_line_of_the_client_is_completed_for_the_next_bridge(piped: Window) -> None:
    first = piped.bridge()
    piped.says(line(method="notifications/whole") + b'{"jsonrpc":"2.0",')
    first.hears()
    first.ends()
    second = piped.bridge()
    piped.says(b'"id":1,"method":"x"}\n')
    assert second.hears() == b'{"jsonrpc":"2.0","id":1,"method":"x"}\n'


def test_a_last_line_without_an_end_is_answered(piped: Window) -> None:
    bridge = piped.bridge()
    piped.says(line(id=1, method="tools/call").rstrip())
    piped.hangs_up(piped.speaking)
    assert bridge.hears_all(1)[0]["id"] == 1
    bridge.says(line(id=1, result={}))
    assert piped.hears() == line(id=1, result={})
    assert piped.ended() is None


def test_what_looks_like_a_greeting_is_none_if_the_client_says_it(piped: Window) -> None:
    bridge = piped.bridge()
    for text in (b'{"gaia-bridge":{"version":"1","do":"move"}}\n', b'{"gaia-bridge" :1}\n'):
        piped.says(text)
        assert bridge.hears() == b" " + text


def test_a_greeting_that_is_not_understood_is_kept_from_the_client(piped: Window) -> None:
    bridge = piped.bridge()
    bridge.says(b'{"gaia-bridge":{"do":"move"}}\n' + written(do="something new") + line(method="after"))
    assert piped.hears() == line(method="after")
    assert [news["do"] for news in piped.news] == ["something new"]
    bridge.says(line(id=1, method="ping"))
    assert piped.hears() == line(id=1, method="ping")


def test_large_lines_pass_whole_and_are_not_kept(piped: Window) -> None:
    bridge = piped.bridge()
    size = 32 * 1_048_576
    text = b"x" * 1_048_576

    def reads() -> None:
        seen = 0
        while seen <= size:
            seen += len(bridge.connection.recv(1_048_576))

    tracemalloc.start()
    try:
        reader = threading.Thread(target=reads)
        reader.start()
        for _ in range(size // len(text)):
            piped.says(text)
        piped.says(b"\n")
        reader.join(PATIENCE)
        assert not reader.is_alive()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5 * module._LONGEST


def test_the_rest_of_a_large_line_is_not_heard_by_a_bridge_that_missed_its_beginning(piped: Window) -> None:
    first = piped.bridge()
    speaking = threading.Thread(target=piped.says, args=[b"x" * (module._LONGEST + 1_048_576)])
    speaking.start()
    seen = 0
    while seen < module._LONGEST + 1:
        seen += len(first.connection.recv(65_536))
    first.ends()
    second = piped.bridge()
    speaking.join(PATIENCE)
    piped.says(b"the rest\n" + line(id=1, method="x"))
    assert second.hears() == line(id=1, method="x")


# Who does not read.


def test_a_client_that_does_not_read_holds_its_bridge_up_and_costs_no_memory(piped: Window) -> None:
    bridge = piped.bridge()
    bridge.connection.setblocking(False)
    text, sent = line(method="notifications/message", params={"data": "x" * 10_000}), 0
    quiet = threading.Event()
    while sent < 64 * 1_048_576:
        try:
            sent += bridge.connection.send(text)
        except BlockingIOError:
            if not select.select([], [bridge.connection], [], 0.2)[1]:
                quiet.set()
                break
    assert quiet.is_set(), "it reads on and on"
    assert sent < 4 * 1_048_576
    piped.says(line(id=1, method="ping"))
    assert b'"ping"' in bridge_reads(bridge)


def bridge_reads(bridge: Bridge) -> bytes:
    bridge.connection.settimeout(PATIENCE)
    return bridge.connection.recv(65_536)


def test_a_bridge_that_does_not_read_holds_its_client_up_and_is_read_all_the_same(piped: Window) -> None:
    bridge = piped.bridge()
    os.set_blocking(piped.speaking, False)
    text, sent = line(method="notifications/x", params={"data": "x" * 10_000}), 0
    while select.select([], [piped.speaking], [], 0.2)[1]:
        with suppress(BlockingIOError):
            sent += os.write(piped.speaking, text)
        assert sent < 4 * 1_048_576, "it reads on and on"
    bridge.says(line(method="notifications/y"))
    assert piped.hears() == line(method="notifications/y")


# Ends.


def test_the_end_of_the_client_ends_it_at_once(window: Window) -> None:
    bridge = window.bridge()
    window.says(line(id=1, method="tools/call", params={}))
    bridge.hears()
    window.hangs_up()
    assert window.ended() is None
    assert bridge.hears() == b""


def test_a_client_that_left_without_reading_is_gone_as_well(window: Window) -> None:
    bridge = window.bridge()
    window.says(line(id=1, method="tools/call", params={}))
    bridge.hears()
    bridge.says(line(method="notifications/message"))
    assert select.select([window.listening], [], [], PATIENCE)[0]
    window.hangs_up()
    assert window.ended() is None


def test_after_the_end_of_input_open_answers_are_waited_for(piped: Window) -> None:
    bridge = piped.bridge()
    piped.says(line(id=1, method="tools/call", params={}))
    bridge.hears()
    piped.hangs_up(piped.speaking)
    bridge.says(line(id=1, result={}))
    assert piped.hears() == line(id=1, result={})
    assert piped.ended() is None


def test_after_the_end_of_input_nothing_is_waited_for_long(piped: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FAREWELL", 0.05)
    bridge = piped.bridge()
    piped.says(line(id=1, method="tools/call", params={}))
    bridge.hears()
    piped.hangs_up(piped.speaking)
    assert piped.ended() is None


def test_a_client_that_neither_reads_nor_leaves_after_its_last_word_does_not_keep_it(
    piped: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FAREWELL", 0.05)
    bridge = piped.bridge()
    bridge.says(line(method="notifications/x", params={"data": "x" * 200_000}))
    assert select.select([piped.listening], [], [], PATIENCE)[0]
    piped.hangs_up(piped.speaking)
    assert piped.ended() is None


# Losses.


def test_a_lost_bridge_is_replaced_and_nobody_hears_of_it_but_by_lists_and_errors(window: Window) -> None:
    first = greeted(window)
    window.says(line(id=2, method="tools/call", params={}) + line(id=3, method="tools/list"))
    first.hears_all(2)
    first.says(line(id=9, method="roots/list"))
    window.hears()
    first.ends()
    error, taken_back, *changed = window.hears_all(5)
    assert (error["id"], error["error"]["code"]) == (2, LOST)
    assert taken_back["params"]["requestId"] == 9
    assert [message["method"] for message in changed] == [
        f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")
    ]
    second = window.bridge()
    assert second.asked == 9
    greeting, initialized, again = second.hears_all(3)
    assert [greeting["method"], initialized["method"]] == ["initialize", "notifications/initialized"]
    assert (again["id"], again["method"]) == (3, "tools/list")
    second.says(line(id=greeting["id"], result={}) + line(id=3, result={"tools": []}))
    assert window.hears() == line(id=3, result={"tools": []})


def test_the_errors_are_told_before_another_bridge_is_looked_for(piped: Window) -> None:
    first = greeted(piped)
    piped.says(line(id=2, method="tools/call", params={}))
    first.hears()
    told = threading.Event()
    reach = piped.relay._reach

    def held(asked: int) -> socket.socket:
        assert told.wait(PATIENCE)
        return reach(asked)

    piped.relay._reach = held
    first.ends()
    assert json.loads(piped.hears())["error"]["code"] == LOST
    told.set()
    piped.bridge()


def test_without_another_bridge_all_is_answered_with_the_reason_until_one_can_be_started(
    piped: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY_PAUSE", 2 * PATIENCE)
    tried: list[int] = []
    reach = piped.relay._reach

    def counted(asked: int) -> socket.socket:
        tried.append(asked)
        return reach(asked)

    first = greeted(piped)
    piped.relay._reach = counted
    piped.says(line(id=2, method="tools/list") + line(id="n", method="subscriptions/listen", params={}))
    first.hears_all(2)
    piped.refusal = "it is broken"
    first.ends()
    told = piped.hears_all(2)
    assert [message["id"] for message in told] == [2, "n"]
    piped.says(line(id=3, method="tools/call", params={}))
    told += piped.hears_all(1)
    assert told[-1]["id"] == 3
    assert {(message["error"]["code"], message["error"]["message"]) for message in told} == {(LOST, "it is broken")}
    assert len(tried) == 1
    piped.relay._retry_at = 0.0
    piped.refusal = "it is still broken"
    piped.says(line(id=4, method="tools/list"))
    assert piped.hears_all(1)[0]["error"]["message"] == "it is still broken"
    piped.relay._retry_at = 0.0
    piped.refusal = ""
    piped.says(line(id=5, method="tools/call", params={}))
    second = piped.bridge()
    assert [message["method"] for message in second.hears_all(3)] == [
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]
    assert [message["method"] for message in piped.hears_all(3)] == [
        f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")
    ]
    second.says(line(id=5, result={}))
    assert piped.hears() == line(id=5, result={})


def test_an_error_for_a_lost_call_promises_no_other_bridge(piped: Window) -> None:
    first = greeted(piped)
    piped.says(line(id=2, method="tools/call", params={}))
    first.hears()
    piped.refusal = "it is broken"
    first.ends()
    assert "started again" not in piped.hears_all(1)[0]["error"]["message"]


def test_without_any_bridge_the_handshake_is_told_why() -> None:
    window = Window(of_pipes())
    window.refusal = "the agent cannot be loaded"
    window.says(line(id=0, method="initialize", params={}))
    window.begin()
    try:
        [told] = window.hears_all(1)
        assert (told["id"], told["error"]["message"]) == (0, "the agent cannot be loaded")
        assert isinstance(window.ended(), BridgeDownError)
    finally:
        window.close()


def test_bridges_that_end_again_and_again_are_not_started_for_ever(piped: Window) -> None:
    greeted(piped).ends()
    for _ in range(module._RESTARTS):
        piped.bridge().ends()
    error = piped.ended()
    assert isinstance(error, BridgeDownError)
    assert "ended 6 times" in str(error)
    assert piped.bridges.empty()


def test_losses_of_long_ago_do_not_count(piped: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RESTART_WINDOW", 0)
    greeted(piped).ends()
    for _ in range(2 * module._RESTARTS):
        piped.bridge().ends()
    piped.bridge()
    assert piped.is_alive


def test_a_client_that_is_gone_needs_no_other_bridge(piped: Window) -> None:
    first = greeted(piped)
    piped.says(line(id=2, method="tools/call", params={}))
    first.hears()
    piped.hangs_up(piped.speaking)
    eventually(lambda: piped.relay._input_ended)
    first.ends()
    assert json.loads(piped.hears())["error"]["code"] == LOST
    assert piped.ended() is None
    assert piped.bridges.empty()


def test_a_call_that_no_bridge_was_sent_is_made_at_the_next_one(piped: Window) -> None:
    first = greeted(piped)
    filling = line(method="notifications/x", params={"data": "x" * 10_000})
    os.set_blocking(piped.speaking, False)
    while select.select([], [piped.speaking], [], 0.1)[1]:
        with suppress(BlockingIOError):
            os.write(piped.speaking, filling[:4096].replace(b"\n", b" "))
    os.set_blocking(piped.speaking, True)
    writer = threading.Thread(target=piped.says, args=[b"\n" + line(id=2, method="tools/call", params={})])
    writer.start()
    first.ends()
    second = piped.bridge()
    writer.join(PATIENCE)
    while b'"id":2' not in (heard := second.hears()):
        assert heard
    second.says(line(id=2, result={}))
    assert line(id=2, result={}) in (piped.hears() for _ in range(10))


def test_a_call_that_waits_to_be_sent_to_a_bridge_is_made_at_the_next_one(piped: Window) -> None:
    first = greeted(piped)
    piped.says(line(method="notifications/x", params={"data": "x" * 500_000}))  # more than a socket takes
    piped.says(line(id=2, method="tools/call", params={}))
    eventually(lambda: piped.relay._conversation.is_open)
    first.ends()
    second = piped.bridge()
    while b'"id":2' not in (heard := second.hears()):
        assert heard


def test_the_clients_end_of_a_pipe_blocks_again_in_the_end_and_a_file_always_does(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with open(tmp_path / "file", "wb") as file:
        with module._without_blocking(writing) as is_hasty:
            assert (is_hasty, os.get_blocking(writing)) == (True, False)
        with module._without_blocking(file.fileno()) as is_hasty:
            assert (is_hasty, os.get_blocking(file.fileno())) == (False, True)
    assert os.get_blocking(writing)
    for descriptor in (reading, writing):
        os.close(descriptor)


# Moves and rests.


def test_it_moves_when_nothing_is_open_and_the_client_hears_of_lists_alone(window: Window) -> None:
    first = greeted(window)
    window.says(line(id=2, method="tools/call", params={}))
    first.hears()
    first.says(written(do=MOVE))
    window.says(line(id=3, method="tools/call", params={}))
    assert first.hears_all(1)[0]["id"] == 3  # it may have to wait for the other, or the other for it
    first.says(line(id=7, method="elicitation/create", params={}))
    window.hears()
    window.says(line(id=7, result={"action": "accept"}))
    assert first.hears_all(1)[0]["id"] == 7
    first.says(line(id=2, result={}) + line(id=3, result={}))
    assert [message["id"] for message in window.hears_all(2)] == [2, 3]
    assert read_greeting(first.hears())["do"] == MOVE
    window.says(line(id=4, method="tools/call", params={}))
    first.ends()
    second = window.bridge()
    assert [message["method"] for message in second.hears_all(3)] == [
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]
    assert {message["method"] for message in window.hears_all(3)} == {
        f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")
    }


def test_moving_is_no_loss_however_often(piped: Window) -> None:
    bridge = greeted(piped)
    for _ in range(2 * module._RESTARTS):
        bridge.says(written(do=MOVE))
        while not (heard := bridge.hears()).startswith(b'{"gaia-bridge"'):
            assert heard, "it left without a word"
        bridge.ends()
        bridge = piped.bridge()
    assert piped.is_alive


def test_a_bridge_that_was_ended_by_hand_is_started_again_when_the_client_wants_something(piped: Window) -> None:
    first = greeted(piped)
    first.says(written(do=REST))
    first.ends()
    eventually(lambda: piped.relay._bridge is None)
    assert piped.bridges.empty()
    piped.says(line(id=2, method="tools/list"))
    second = piped.bridge()
    assert [message["method"] for message in second.hears_all(3)] == [
        "initialize",
        "notifications/initialized",
        "tools/list",
    ]


def test_a_bridge_that_was_ended_by_hand_while_a_list_is_asked_for_is_started_at_once(piped: Window) -> None:
    first = greeted(piped)
    piped.says(line(id=2, method="tools/list"))
    first.hears()
    first.says(written(do=REST))
    first.ends()
    assert piped.bridge().hears_all(3)[-1]["id"] == 2


def test_while_a_bridge_rests_the_end_of_the_client_is_the_end(piped: Window) -> None:
    first = greeted(piped)
    first.says(written(do=REST))
    first.ends()
    eventually(lambda: piped.relay._bridge is None)
    piped.hangs_up()
    assert piped.ended() is None
    assert piped.bridges.empty()
