"""One bridge behind all windows: what each of them has for itself, and what happens when something ends."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from gaia_bridge.text.json_types import JSON
from gaia_bridge_cli import main
from gaia_bridge_daemon.front import launching
from tests.cli.running import DEADLINE
from tests.process.windows import AGENT, LISTS, User, Window, has_ended, user
from tests.support.installed_programs import needs, required
from tests.support.waiting import eventually
from tests.upstreams.servers import PYTHON

SERVERS = Path(__file__).parents[1] / "servers"
LOST = -32000
SOON = "0.01"
"""Minutes that a bridge stays, where a test waits for its end."""

both_eras = pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])


@pytest.fixture
def me() -> Generator[User]:
    with user() as made:
        yield made


@pytest.fixture(scope="module")
@needs(PYTHON)
def shared() -> Generator[User]:
    """A user with an agent and servers of four hands, whose bridge is not ended."""
    with required("MCP servers written in Python"):
        foreign = PYTHON.install()
    with user() as made:
        made.has_servers(
            {
                "time": {"command": foreign, "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"]},
                "sdk": {"command": sys.executable, "args": [str(SERVERS / "stdio_upstream.py")]},
                "raw": {"command": sys.executable, "args": ["-S", str(SERVERS / "raw_server.py")]},
                "own": {
                    "command": sys.executable,
                    "args": ["-S", str(SERVERS / "raw_server.py")],
                    "isolation": "session",
                },
                "asks": {"command": sys.executable, "args": [str(SERVERS / "asking_server.py")]},
            }
        )
        yield made


def opened(shared: User, *modern: bool) -> list[Window]:
    """Windows at the shared bridge."""
    return [shared.window("--config", str(shared.config), "--agent", str(AGENT), modern=era) for era in modern]


def listening(window: Window) -> None:
    """Ask for all news that there are, each era in its way."""
    if window.modern:
        wanted = {f"{kind}ListChanged": True for kind in LISTS} | {"resourceSubscriptions": ["note://seen"]}
        window.ask("subscriptions/listen", notifications=wanted)
        window.until("notifications/subscriptions/acknowledged")
    else:
        window.result_of("resources/subscribe", uri="note://seen")
        window.result_of("logging/setLevel", level="info")


def all_there(window: Window) -> set[str]:
    """Wait until all servers are listed; the names of the tools."""
    names: set[str] = set()
    pause = threading.Event()

    def are_there() -> bool:
        pause.wait(0.05)  # what is busy listing has the servers wait for a core
        names.update(tool["name"] for tool in window.result_of("tools/list")["tools"])
        return {"time__get_current_time", "sdk__add", "raw__pid", "own__pid", "asks__agree", "process"} <= names

    eventually(are_there)
    return names


# What each window has for itself.


def test_windows_share_one_bridge_with_its_servers(shared: User) -> None:
    windows = opened(shared, False, True, False)
    for window in windows:
        all_there(window)
        assert "UTC" in json.dumps(window.told("time__get_current_time", timezone="UTC"))
        assert window.told("sdk__add", a=2, b=3)["sum"] == 5
    assert len({window.told("process")["pid"] for window in windows}) == 1
    assert len({window.told("raw__pid") for window in windows}) == 1
    for server in ("stdio_upstream.py", "mcp_server_time", "asking_server.py"):
        assert len(shared.pids(server)) <= 2, f"{server}: one for each era that it has"
    [told] = shared.bridges()
    assert {window.pid for window in windows} <= {front["pid"] for front in told["fronts"]}


def test_one_server_of_it_can_be_wanted_alone_and_one_that_is_not_there_is_refused_by_name(shared: User) -> None:
    words = ("--config", str(shared.config), "--agent", str(AGENT))
    alone = shared.window("sdk", *words)
    assert {"add", "echo"} <= {tool["name"] for tool in alone.result_of("tools/list")["tools"]}
    other = shared.window("nobody", *words, begin=False)
    answer = other.answer(other.ask("initialize"))
    assert "'nobody' is not published; expected one of: " in answer["error"]["message"]
    assert "sdk" in answer["error"]["message"]
    assert other.bridge.ended() == 69
    assert answer["error"]["message"] in other.bridge.all_errors()


def test_questions_reach_exactly_the_window_whose_call_asks(shared: User) -> None:
    first, second, third, fourth = windows = opened(shared, False, False, True, True)
    all_there(first)
    calls = {window: window.begin_call("ask", name=str(window.pid)) for window in windows}
    for window in (second, first):
        question = window.question()
        assert question["params"]["message"] == f"Who are you, {window.pid}?"
        window.reply(question, {"action": "accept", "content": {"name": f"legacy {window.pid}"}})
    for window in (first, second):
        assert window.answer(calls[window])["result"]["structuredContent"]["name"] == f"legacy {window.pid}"
    for window in (fourth, third):
        asked = window.answer(calls[window])["result"]
        [(key, question)] = asked["inputRequests"].items()
        assert question["params"]["message"] == f"Who are you, {window.pid}?"
        answers = {key: {"action": "accept", "content": {"name": f"modern {window.pid}"}}}
        arguments = {"name": str(window.pid)}
        more = {"inputResponses": answers, "requestState": asked["requestState"]}
        result = window.result_of("tools/call", name="ask", arguments=arguments, **more)
        assert result["structuredContent"]["name"] == f"modern {window.pid}"
    for window in windows:
        assert "elicitation/create" not in window.heard()


@both_eras
def test_questions_of_a_shared_server_reach_exactly_the_window_whose_call_asks(shared: User, modern: bool) -> None:
    asking, silent = opened(shared, modern, modern)
    all_there(asking)
    waiting = silent.begin_call("hang")
    call = asking.begin_call("asks__agree")
    if modern:
        asked = asking.answer(call)["result"]
        [(key, question)] = asked["inputRequests"].items()
        assert question["params"]["message"] == "Really?"
        answers: JSON = {key: {"action": "accept", "content": {}}}
        more: JSON = {"inputResponses": answers, "requestState": asked["requestState"]}
        result = asking.result_of("tools/call", name="asks__agree", arguments={}, **more)
    else:
        question = asking.question()
        assert question["params"]["message"] == "Really?"
        asking.reply(question, {"action": "accept", "content": {}})
        result = asking.answer(call)["result"]
    assert "accept" in json.dumps(result)
    silent.notify("notifications/cancelled", requestId=waiting)
    assert silent.told("process")
    assert "elicitation/create" not in silent.heard()


def test_each_window_has_root_folders_of_its_own(shared: User) -> None:
    for window in (windows := opened(shared, False, False)):
        call = window.begin_call("roots")
        root = {"uri": f"file:///{window.pid}", "name": "root"}
        window.reply(window.until("roots/list"), {"roots": [root]})
        assert window.answer(call)["result"]["structuredContent"]["roots"] == [root]
    assert "roots/list" not in [method for window in windows for method in window.heard()]


def test_each_window_has_a_log_level_of_its_own(shared: User) -> None:
    quiet, curious, modern = opened(shared, False, False, True)
    quiet.result_of("logging/setLevel", level="error")
    curious.result_of("logging/setLevel", level="info")
    level = {"io.modelcontextprotocol/logLevel": "info"}
    for window in (quiet, curious, modern):
        more = {"_meta": level} if window is modern else {}
        window.result_of("tools/call", name="narrate", arguments={}, **more)
    heard = [window.heard().count("notifications/message") for window in (quiet, curious, modern)]
    assert heard == [0, 1, 1]


@both_eras
def test_each_window_has_isolated_servers_of_its_own(shared: User, modern: bool) -> None:
    first, second = opened(shared, modern, modern)
    all_there(first)
    pids = [first.told("own__pid"), second.told("own__pid")]
    if not modern:  # who has no session has none to itself
        assert len(set(pids)) == 2
        assert first.told("own__pid") == pids[0]
    assert first.leave() == 0
    assert second.told("own__pid") == pids[1]


def test_each_window_is_shown_as_many_tools_as_its_editor_takes(shared: User) -> None:
    words = ("--config", str(shared.config), "--agent", str(AGENT))
    cursor, other = (shared.window(*words, begin=False) for _ in range(2))
    cursor.begin(clientInfo={"name": "cursor-vscode", "version": "1"})
    other.begin()
    all_there(other)
    other.told("raw__grow", by=40)
    eventually(lambda: len(other.result_of("tools/list")["tools"]) > 40)
    assert {tool["name"] for tool in cursor.result_of("tools/list")["tools"]} == {"tool_search", "call_tool"}


def test_news_go_to_those_who_want_them(shared: User) -> None:
    legacy, modern, other = opened(shared, False, True, False)
    listening(legacy)
    listening(modern)
    other.told("touch")
    assert legacy.until("notifications/resources/updated")["params"]["uri"] == "note://seen"
    assert modern.until("notifications/resources/updated")["params"]["uri"] == "note://seen"
    other.told("process")
    assert "notifications/resources/updated" not in other.heard()


def test_a_window_that_does_not_read_is_in_nobodys_way(shared: User) -> None:
    stuck, well = opened(shared, False, False)
    psutil.Process(stuck.pid).suspend()
    try:
        sending = ThreadPoolExecutor(1)
        flood = "".join(
            json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/list"}) + "\n" for number in range(100, 600)
        ).encode()
        sent = sending.submit(stuck.write, flood)
        for _ in range(20):
            assert well.told("process")
    finally:
        psutil.Process(stuck.pid).resume()
    sent.result(DEADLINE)
    assert stuck.answer(599)
    sending.shutdown()


def process_of(window: Window) -> int:
    pid: int = window.told("process")["pid"]
    return pid


def test_many_windows_at_once_start_one_bridge(me: User) -> None:
    windows = [me.window("--agent", str(AGENT), begin=False) for _ in range(8)]
    with ThreadPoolExecutor(len(windows)) as pool:
        list(pool.map(Window.begin, windows))
        assert len(set(pool.map(process_of, windows))) == 1
    eventually(lambda: me.log().count("serves it now") == 1)
    eventually(lambda: len(me.pids(" background ")) == 1)


# What happens when something ends.


@both_eras
def test_when_the_bridge_is_killed_calls_fail_at_once_and_all_else_goes_on(me: User, modern: bool) -> None:
    window = me.window("--agent", str(AGENT), modern=modern)
    listening(window)
    first = window.told("process")["pid"]
    call = window.begin_call("hang")
    window.told("process")
    window.heard()
    os.kill(first, signal.SIGKILL)
    lost = window.answer(call)
    assert lost["error"]["code"] == LOST
    assert "tools/call" in lost["error"]["message"]
    assert window.heard() == [], "the error is the first that it hears"
    changed = {"notifications/tools/list_changed", "notifications/resources/updated"}
    for method in sorted(changed):
        window.until(method)
    second = window.told("process")["pid"]
    assert second != first
    assert window.told("touch") == "touched"
    assert window.until("notifications/resources/updated")["params"]["uri"] == "note://seen"
    if not modern:
        assert window.told("narrate") == "done"
        assert window.until("notifications/message")["params"]["level"] == "info"
    assert psutil.STATUS_ZOMBIE not in {child.status() for child in psutil.Process(window.pid).children()}
    eventually(lambda: has_ended(first))
    assert {str(message.get("method")) for message in window.others} <= {
        *(f"notifications/{kind}/list_changed" for kind in LISTS),
        "notifications/message",
    }


def test_lists_that_were_being_asked_for_are_answered_by_the_next_bridge(me: User) -> None:
    window = me.window("--agent", str(AGENT))
    first = me.bridge_pid()
    psutil.Process(first).suspend()
    asked = [window.ask(method) for method in ("tools/list", "resources/list", "ping")]
    os.kill(first, signal.SIGKILL)
    for number in asked:
        assert "result" in window.answer(number)


@pytest.mark.thorough
def test_after_that_servers_of_every_hand_answer_again_in_both_eras(shared: User) -> None:
    windows = opened(shared, False, True)
    for window in windows:
        all_there(window)
        listening(window)
    first = windows[0].told("process")["pid"]
    os.kill(first, signal.SIGKILL)
    eventually(lambda: has_ended(first))
    for window in windows:
        all_there(window)
        assert "UTC" in json.dumps(window.told("time__get_current_time", timezone="UTC"))
        assert window.told("sdk__add", a=2, b=3)["sum"] == 5
        assert int(window.told("raw__pid")) in shared.processes()
        window.heard()
    windows[0].told("touch")
    for window in windows:
        window.until("notifications/resources/updated")
    assert windows[0].told("process") == windows[1].told("process") != {"pid": first}


ORDERS = [
    pytest.param(order, id=" ".join(order), marks=() if order[0] == "editor" else pytest.mark.thorough)
    for order in itertools.permutations(("bridge", "front", "editor"))
]
EDITOR = """
import subprocess, sys, threading
front = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(front.pid, flush=True)
front.stdin.write(sys.stdin.buffer.read())
front.stdin.flush()
threading.Event().wait()
"""


@pytest.mark.parametrize("order", ORDERS)
def test_whatever_is_killed_in_whatever_order_nothing_is_left(me: User, order: tuple[str, ...]) -> None:
    me.has_servers({"raw": {"command": sys.executable, "args": ["-S", str(SERVERS / "raw_server.py")]}})
    words = ["connect", "--config", str(me.config), "--agent", str(AGENT), "--keep", SOON]
    with subprocess.Popen(
        [sys.executable, "-c", EDITOR, sys.executable, "-m", "gaia_bridge", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=me.environment,
        cwd=me.folder,
    ) as editor:
        assert editor.stdin is not None
        assert editor.stdout is not None
        begun = me.folder / "begun"
        editor.stdin.write(_lines(begun))
        editor.stdin.close()
        front = int(editor.stdout.readline())
        eventually(begun.exists)
        eventually(lambda: me.pids("raw_server.py") != [])
        for what in order:
            for pid in {"bridge": me.pids(" background "), "front": [front], "editor": [editor.pid]}[what]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    eventually(me.nothing_is_left)


def test_an_editor_that_ends_its_front_with_all_children_leaves_the_bridge_to_the_others(me: User) -> None:
    words = ("--config", str(me.config), "--agent", str(AGENT))
    me.has_servers({})
    first = me.window(*words)
    bridge = me.bridge_pid()
    other = me.window(*words)
    front = psutil.Process(first.pid)
    for process in [*front.children(recursive=True), front]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    assert other.told("process")["pid"] == bridge


def _lines(begun: Path) -> bytes:
    meta = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "editor", "version": "1"}}
    arguments = {"begun": str(begun), "path": "/nowhere"}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": meta},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "wait-for", "arguments": arguments}},
    ]
    return b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages)


def test_the_program_that_watches_over_it_is_replaced_and_told_everything_again(me: User) -> None:
    me.run("up", "--agent", str(AGENT))
    [watching] = me.pids("guardian.py")
    os.kill(watching, signal.SIGKILL)
    eventually(lambda: me.pids("guardian.py") not in ([], [watching]))
    [told] = me.bridges()
    os.kill(told["pid"], signal.SIGKILL)
    eventually(me.nothing_is_left)


def test_the_calls_of_a_front_that_is_killed_are_cancelled_and_others_go_on(me: User) -> None:
    doomed, well = (me.window("--agent", str(AGENT)) for _ in range(2))
    doomed.begin_call("hang")
    doomed.told("process")
    os.kill(doomed.pid, signal.SIGKILL)
    pid = well.told("process")["pid"]

    def is_alone() -> bool:
        [told] = me.bridges()
        return [front["pid"] for front in told["fronts"]] == [well.pid]

    eventually(is_alone)
    assert well.told("process")["pid"] == pid


@pytest.mark.thorough
@both_eras
def test_a_bridge_that_is_ended_by_hand_comes_back_when_it_is_wanted(me: User, modern: bool) -> None:
    window = me.window("--agent", str(AGENT), modern=modern)
    listening(window)
    first = window.told("process")["pid"]
    call = window.begin_call("hang")
    window.told("process")
    done = me.run("down", "--agent", str(AGENT))
    assert (done.returncode, done.stderr.partition(":")[0]) == (0, "ended"), done.stderr
    assert window.answer(call)["error"]["code"] == LOST
    assert me.pids(" background ") == []
    assert window.heard() == []
    assert window.told("process")["pid"] != first
    window.told("touch")
    window.until("notifications/resources/updated")
    assert not any("result" in message for message in window.others), "its subscription has not ended"


def test_sigterm_is_an_end_by_hand(me: User) -> None:
    window = me.window("--agent", str(AGENT))
    first = me.bridge_pid()
    os.kill(first, signal.SIGTERM)
    eventually(lambda: has_ended(first))
    assert me.pids(" background ") == []
    assert window.told("process")["pid"] != first


def newer(me: User) -> dict[str, str]:
    """The environment of a version that was installed later."""
    folder = me.folder / "newer"
    folder.mkdir()
    text = "import gaia_bridge.version\ngaia_bridge.version.__version__ = '99.0.0'\n"
    (folder / "sitecustomize.py").write_text(text, encoding="utf-8")
    return {"PYTHONPATH": str(folder)}


@both_eras
def test_a_newer_version_takes_the_place_of_an_older_one_and_clients_hear_of_lists_alone(
    me: User, modern: bool
) -> None:
    old = me.window("--agent", str(AGENT), modern=modern)
    listening(old)
    begun, path = me.folder / "begun", me.folder / "path"
    call = old.begin_call("wait-for", begun=str(begun), path=str(path))
    eventually(begun.exists)
    first = me.bridge_pid()
    new = me.window("--agent", str(AGENT), modern=modern, environment=newer(me))
    second = new.told("process")["pid"]
    assert second != first
    if not modern:  # what is asked while a call is in flight goes where that is
        asks = old.begin_call("ask", name="old")
        old.reply(old.question(), {"action": "accept", "content": {"name": "me"}})
        assert old.answer(asks)["result"]["structuredContent"] == {"name": "me"}
    path.touch()
    assert old.answer(call)["result"]["structuredContent"]["pid"] == first
    assert old.told("process")["pid"] == second
    eventually(lambda: has_ended(first))
    allowed = {f"notifications/{kind}/list_changed" for kind in LISTS} | {"notifications/resources/updated"}
    assert {message.get("method") for message in old.others} <= allowed
    old.told("touch")
    old.until("notifications/resources/updated")
    assert [told["version"] for told in me.bridges()] == ["99.0.0"]
    another = me.window("--agent", str(AGENT), modern=modern)
    assert another.told("process")["pid"] == second, "an older front is content with a newer bridge"


def test_a_question_that_a_modern_client_looks_at_is_answered_where_it_was_asked(me: User) -> None:
    window = me.window("--agent", str(AGENT), modern=True)
    first = window.told("process")["pid"]
    asked = window.result_of("tools/call", name="ask", arguments={"name": "me"})
    assert me.run("restart", "--agent", str(AGENT)).returncode == 0
    [key] = asked["inputRequests"]
    answers = {key: {"action": "accept", "content": {"name": "it is me"}}}
    more = {"inputResponses": answers, "requestState": asked["requestState"]}
    assert window.result_of("tools/call", name="ask", arguments={"name": "me"}, **more)["structuredContent"] == {
        "name": "it is me"
    }
    assert window.told("process")["pid"] != first


# Its life.


def test_it_ends_some_time_after_its_last_client(me: User) -> None:
    first, second = (me.window("--agent", str(AGENT), "--keep", SOON) for _ in range(2))
    assert first.leave() == second.leave() == 0
    eventually(lambda: me.nothing_is_left() and not me.files())
    assert first.bridge.all_errors() == second.bridge.all_errors() == ""


def test_a_bridge_that_stays_for_no_time_at_all_serves_its_first_client(me: User) -> None:
    window = me.window("--agent", str(AGENT), "--keep", "0")
    assert window.told("process")
    assert window.leave() == 0
    eventually(me.nothing_is_left)


def test_an_agent_that_cannot_be_loaded_is_the_error_of_the_handshake(me: User) -> None:
    agent = me.folder / "broken.py"
    agent.write_text("import no_such_module\n", encoding="utf-8")
    window = me.window("--agent", str(agent), begin=False)
    answer = window.answer(window.ask("initialize", protocolVersion="2025-11-25"))
    assert answer["error"]["code"] == LOST
    assert "no_such_module" in answer["error"]["message"]
    assert window.bridge.ended() == 69
    assert answer["error"]["message"] in window.bridge.all_errors()
    eventually(me.nothing_is_left)
    log = Path(answer["error"]["message"].rpartition("; see ")[2])
    assert "no_such_module" in log.read_text(encoding="utf-8")
    assert me.run("down", "--agent", str(agent)).stderr == "no bridge runs in the background\n"
    assert me.files() == []


@both_eras
def test_a_front_whose_agent_is_broken_meanwhile_says_so_and_goes_on_once_it_is_mended(me: User, modern: bool) -> None:
    agent = me.folder / "own.py"
    agent.write_bytes(AGENT.read_bytes())
    window = me.window("--agent", str(agent), modern=modern)
    first = window.told("process")["pid"]
    agent.write_text("import no_such_module\n", encoding="utf-8")
    os.kill(first, signal.SIGKILL)
    refusals: list[JSON] = []

    def says_why() -> bool:  # a call that the killed bridge was sent still is told another reason
        refusals.append(window.answer(window.begin_call("process"))["error"])
        return "no_such_module" in refusals[-1]["message"]

    eventually(says_why)
    assert {error["code"] for error in refusals} == {LOST}
    agent.write_bytes(AGENT.read_bytes())
    eventually(lambda: "result" in window.answer(window.ask("tools/list")))
    assert window.told("process")["pid"] != first


def test_a_place_that_cannot_be_used_is_the_error_of_the_handshake(me: User) -> None:
    me.sockets.write_text("in the way", encoding="utf-8")
    window = me.window("--agent", str(AGENT), begin=False)
    answer = window.answer(window.ask("initialize", protocolVersion="2025-11-25"))
    assert str(me.sockets) in answer["error"]["message"]
    assert window.bridge.ended() == 69
    assert answer["error"]["message"] in window.bridge.all_errors()


def test_a_configuration_that_starts_its_own_front_is_told_so(me: User) -> None:
    entry = {"command": sys.executable, "args": ["-m", "gaia_bridge", "connect", "--config", str(me.config)]}
    me.has_servers({"itself": {**entry, "env": {"XDG_RUNTIME_DIR": str(me.folder / "run")}}})
    window = me.window("--config", str(me.config))
    eventually(lambda: "as a server of its own" in me.log())
    assert window.result_of("tools/list")["tools"] == []
    eventually(lambda: len(me.pids(" background ")) == 1)


def test_up_ps_restart_and_down_by_hand(me: User) -> None:
    words = ("--agent", str(AGENT))
    assert me.run("ps").stderr == "no bridge runs in the background\n"
    up = me.run("up", *words)
    assert up.returncode == 0, up.stderr
    url = up.stdout.strip()
    assert url.startswith("unix:///")
    assert url.endswith("#/mcp")
    assert "it runs already" in me.run("up", *words).stderr
    [before] = me.bridges()
    assert before["keep"] is None
    window = me.window(*words)
    shown = me.run("ps").stdout
    assert f"window 1: process {window.pid} in {me.folder}" in shown
    assert url in shown
    for chosen in (words, ()):  # the only one that runs
        again = me.run("restart", *chosen)
        assert again.returncode == 0, again.stderr
        assert re.fullmatch(r"\S+ restarted: \d+ tools, [^;]*; 1 editor went on\n", again.stdout), again.stdout
    assert window.told("process")["pid"] != before["pid"]
    [after] = me.bridges()
    assert after["keep"] is None, "it stays, like the one before it"
    assert after["http"] == before["http"]
    window.leave()
    assert me.run("down", "--all").returncode == 0
    assert me.files() == []
    eventually(me.nothing_is_left)
    assert me.run("down", *words).stderr == "no bridge runs in the background\n"
    gone = me.run("restart", *words)
    assert (gone.returncode, gone.stderr) == (69, "no bridge runs in the background\n")
    assert me.bridges() == [], "restart starts nothing that did not run"


def test_a_restart_with_an_agent_that_cannot_be_loaded_leaves_the_bridge_that_runs(me: User) -> None:
    agent = me.folder / "mine.py"
    agent.write_text(
        "from gaia.agents.base import tool\n\n\n@tool\ndef one() -> int:\n    return 1\n", encoding="utf-8"
    )
    window = me.window("--agent", str(agent))
    [before] = me.bridges()
    agent.write_text("import no_such_module\n", encoding="utf-8")
    refused = me.run("restart", "--agent", str(agent))
    assert refused.returncode == 66
    assert "no_such_module" in refused.stderr
    misspelled = me.run("restart", "mime.py")
    assert (misspelled.returncode, "did you mean 'mine.py'?" in misspelled.stderr) == (66, True), misspelled.stderr
    assert [bridge["pid"] for bridge in me.bridges()] == [before["pid"]]
    assert [tool["name"] for tool in window.result_of("tools/list")["tools"]] == ["one"]
    assert me.run("down").stderr == (
        f"the bridge of your configuration does not run; these do:\n  gaia-bridge down {agent}  (mine)\n"
    )


def test_a_bridge_that_was_meant_to_stay_stays_when_a_front_starts_it_again(me: User) -> None:
    words = ("--agent", str(AGENT))
    window = me.window(*words, "--keep", SOON)
    assert "it runs already" in me.run("up", *words).stderr
    os.kill(first := window.told("process")["pid"], signal.SIGKILL)
    assert me.bridge_pid([first]) == window.told("process")["pid"]
    [told] = me.bridges()
    assert told["keep"] is None


def test_a_bridge_that_hears_nothing_any_more_can_be_ended_all_the_same(
    me: User, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    me.window("--agent", str(AGENT))
    for name in ("HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, me.environment[name])
    monkeypatch.setattr(launching, "GREETING_PATIENCE", 0.2)
    pid = me.bridge_pid()
    psutil.Process(pid).suspend()
    assert main(["ps"]) == 0
    assert "does not answer" in capsys.readouterr().out
    assert main(["down", "--all"]) == 0
    assert f"does not answer: process {pid} is killed" in capsys.readouterr().err
    assert has_ended(pid)


# Editors that reach sockets themselves.


def over_http(me: User) -> httpx2.Client:
    """A client of the address that `up` prints."""
    done = me.run("up", "--agent", str(AGENT))
    path, _, endpoint = done.stdout.strip().removeprefix("unix://").partition("#")
    transport = httpx2.HTTPTransport(uds=path)
    headers = {"Accept": "application/json, text/event-stream"}
    return httpx2.Client(transport=transport, base_url=f"http://localhost{endpoint}", headers=headers, timeout=DEADLINE)


def post(client: httpx2.Client, method: str, session: str = "", **more: Any) -> httpx2.Response:
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"} if session else {}
    return client.post("", json={"jsonrpc": "2.0", "method": method, **more}, headers=headers)


def test_an_editor_needs_no_front_where_it_reaches_sockets(me: User) -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "editor", "version": "1"}}
    with over_http(me) as client:
        greeting = post(client, "initialize", id=1, params=params)
        session = greeting.headers["mcp-session-id"]
        assert greeting.json()["result"]["serverInfo"]["name"] == "GAIA WindowAgent"
        assert post(client, "notifications/initialized", session).status_code == 202
        level = post(client, "logging/setLevel", session, id=2, params={"level": "info"})
        assert level.json()["result"] == {}
        subscribed = post(client, "resources/subscribe", session, id=3, params={"uri": "note://seen"})
        assert subscribed.json()["result"] == {}
        with client.stream("GET", "", headers={"Mcp-Session-Id": session, "Accept": "text/event-stream"}) as news:
            window = me.window("--agent", str(AGENT))
            window.told("touch")
            lines = news.iter_lines()
            text = next(text for text in lines if text.startswith("data: {"))
            assert json.loads(text.removeprefix("data: "))["method"] == "notifications/resources/updated"
            [told] = me.bridges()
            assert told["users"] >= 2
            me.run("restart", "--agent", str(AGENT))
            assert all(not line.startswith("data: {") for line in lines), "it ends, without an answer"
        gone = post(client, "tools/list", session, id=4)
        assert gone.status_code == 404, "which tells it to begin anew"
        again = post(client, "initialize", id=5, params=params).headers["mcp-session-id"]
        tools = post(client, "tools/list", again, id=6)
        assert "process" in {tool["name"] for tool in tools.json()["result"]["tools"]}
        window.told("process")
    eventually(lambda: len(me.pids(" background ")) == 1)


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", ""])
def test_who_calls_it_by_another_name_is_refused(shared: User, host: str) -> None:
    opened(shared, False)
    [path] = [path for path in shared.sockets.glob("*.sock") if "front" not in path.name]
    with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path)), base_url="http://localhost") as client:
        answer = client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers={"Host": host})
    assert answer.status_code in (400, 403, 421)


# Who may connect.


def test_others_cannot_open_its_sockets(shared: User) -> None:
    opened(shared, False)
    assert os.stat(shared.sockets).st_mode & 0o777 == 0o700
    sockets = list(shared.sockets.glob("*.sock"))
    assert len(sockets) == 2
    for path in (*sockets, *shared.sockets.glob("*.log"), *shared.sockets.glob("*.lock")):
        assert path.stat().st_mode & 0o177 == 0, path


STRANGER = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX) as connection:
    connection.settimeout(30)
    connection.connect(sys.argv[1])
    try:
        connection.sendall(sys.argv[2].encode())
        print(connection.recv(1000))
    except ConnectionError:
        print(b"")
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_programs_of_other_users_are_sent_away_should_they_reach_it(me: User) -> None:
    window = me.window("--agent", str(AGENT))
    for folder in (me.folder, me.folder / "run", me.sockets):
        folder.chmod(0o711)
    greeting = '{"gaia-bridge":{"version":"1","do":"status"}}\n'
    request = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for ending, text in (("front.sock", greeting), (".sock", request)):
        path = next(path for path in me.sockets.iterdir() if path.name.endswith(ending) and path.suffix == ".sock")
        if ending == ".sock":
            path = next(path for path in me.sockets.glob("*.sock") if "front" not in path.name)
        path.chmod(0o777)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(text.encode())
            assert connection.recv(1000) != b"", "it answers its own user"
        done = subprocess.run([sys.executable, "-c", STRANGER, str(path), text], capture_output=True, check=True)
        assert done.stdout == b"b''\n", done.stdout
    eventually(lambda: me.log().count("a program of another user connected") == 2)  # a thread writes it
    assert window.told("process")
