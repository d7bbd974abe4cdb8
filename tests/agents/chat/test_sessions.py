"""Sessions: isolated histories and loaded tools, bounded, announced, and kept in a file if wanted."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gaia.agents.base import Agent
from gaia.agents.chat import sessions as sessions_module
from gaia.agents.chat.limits import ChatLimits
from gaia.agents.chat.sessions import Sessions
from gaia.agents.chat.store import SessionStore
from gaia_bridge.errors import ContextOverflowError, ModelError, SessionLimitError
from tests.support.fake_model import Asked, FakeModel, call, made, say
from tests.support.waiting import PATIENCE


class Clock:
    """What time sessions think it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = datetime.fromisoformat("2026-01-01T12:00:00+00:00")
        monkeypatch.setattr(sessions_module, "_now", lambda: self.now)

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Announced(list[tuple[str, str]]):
    """What was said to the callbacks of an agent."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        agent.set_session_callbacks(
            lambda name: self.append(("created", name)), lambda name: self.append(("destroyed", name))
        )


def texts(agent: Agent, session_id: str = "default") -> list[str]:
    return [message["content"] for message in agent.get_session_history(session_id)[1:]]


@pytest.mark.requirement("S2-25")
def test_a_new_session_has_a_context_of_its_own_and_is_announced() -> None:
    agent, model = made(say("A"), say("B"), say("A again"), system_prompt="You help.")
    announced = Announced(agent)
    agent.create_session("a", "You are brief.", {"user": 7})
    agent.create_session("b")
    for session_id, prompt in (("a", "one"), ("b", "two"), ("a", "three")):
        agent.run(prompt, session_id=session_id)
    assert announced == [("created", "a"), ("created", "b")]
    assert [asked.system for asked in model.asked] == ["You are brief.", "You help.", "You are brief."]
    assert [message["content"] for message in model.asked[-1].messages[1:]] == ["one", "A", "three"]
    assert texts(agent, "b") == ["two", "B"]


@pytest.mark.requirement("S2-25")
def test_a_session_that_is_there_already_is_kept_and_given_what_is_new() -> None:
    agent, _ = made(say("A"))
    agent.run("one", session_id="a")
    announced = Announced(agent)
    first = agent.create_session("a", metadata={"user": 7})
    assert agent.create_session("a", "You are brief.") is first
    assert (first.metadata, first.system_message, announced) == ({"user": 7}, "You are brief.", [])
    assert texts(agent, "a") == ["one", "A"]


@pytest.mark.requirement("S2-26")
def test_a_destroyed_session_is_announced_and_an_unknown_one_is_not() -> None:
    agent, _ = made()
    agent.create_session("a")
    announced = Announced(agent)
    assert (agent.destroy_session("a"), agent.destroy_session("a"), agent.destroy_session("?")) == (True, False, False)
    assert announced == [("destroyed", "a")]


@pytest.mark.requirement("S2-27")
def test_sessions_are_listed_with_counts_times_and_metadata(clock: Clock) -> None:
    agent, _ = made(say("A"))
    agent.create_session("old", metadata={"user": 7})
    clock.wait(60)
    agent.create_session("new")
    clock.wait(60)
    agent.run("one", session_id="old")
    assert agent.list_sessions() == [
        {
            "session_id": "old",
            "message_count": 3,
            "created_at": "2026-01-01T12:00:00+00:00",
            "last_activity": "2026-01-01T12:02:00+00:00",
            "metadata": {"user": 7},
        },
        {
            "session_id": "new",
            "message_count": 1,
            "created_at": "2026-01-01T12:01:00+00:00",
            "last_activity": "2026-01-01T12:01:00+00:00",
            "metadata": {},
        },
    ]


@pytest.mark.requirement("S2-28")
def test_stale_sessions_are_cleaned_up_counted_and_announced(clock: Clock) -> None:
    agent, _ = made(say("still here"))
    for session_id in ("a", "b", "c"):
        agent.create_session(session_id)
    clock.wait(3_000)
    agent.run("hi", session_id="b")
    clock.wait(601)
    announced = Announced(agent)
    assert agent.cleanup_stale_sessions() == 2
    assert announced == [("destroyed", "a"), ("destroyed", "c")]
    assert agent.cleanup_stale_sessions() == 0


def test_a_session_in_which_a_turn_is_played_is_not_stale(clock: Clock) -> None:
    found: list[int] = []

    def long_work() -> None:
        clock.wait(100_000)
        found.append(agent.cleanup_stale_sessions())

    agent, _ = made(call("long_work"), say("done"), tools=[long_work])
    agent.run("go")
    assert (found, texts(agent)[-1]) == ([0], "done")


@pytest.mark.requirement("S2-29")
@pytest.mark.anyio
async def test_chat_makes_a_missing_session_unless_told_not_to() -> None:
    agent, _ = made(say("A"), say("B"))
    with pytest.raises(ValueError, match=r"Session a does not exist; create_session\(\) makes it"):
        await agent.chat("hi", "a", create_if_missing=False)
    assert agent.list_sessions() == []
    assert await agent.chat("hi", "a") == "A"
    assert await agent.chat("again", "a", create_if_missing=False) == "B"


@pytest.mark.parametrize("use", [Agent.get_session_history, Agent.clear_session_history])
def test_what_is_not_there_cannot_be_read_or_cleared(use: Callable[[Agent, str], object]) -> None:
    agent, _ = made()
    with pytest.raises(ValueError, match="Session nobody does not exist"):
        use(agent, "nobody")


@pytest.mark.parametrize("name", ["", "x" * 257, "a\nb", "\x00", "half \ud800", None, 5, ["a"]])
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    agent, model = made(say("never"))
    with pytest.raises(ValueError, match="a session's name is text of 1 to 256 printable characters; got "):
        agent.create_session(name)
    if name is not None:
        with pytest.raises(ValueError, match="a session's name is text"):
            agent.run("hi", session_id=name)
    assert model.asked == []


def test_a_history_begins_with_the_system_message_and_is_a_copy() -> None:
    agent, model = made(say("A"), say("B"), system_prompt="You help.")
    agent.run("one")
    history = agent.get_session_history("default")
    assert history == [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "A"},
    ]
    history[1]["content"] = "forged"
    history.clear()
    agent.run("two")
    assert [message["content"] for message in model.asked[-1].messages[1:]] == ["one", "A", "two"]


def test_a_cleared_session_begins_anew_with_or_without_its_own_system_message() -> None:
    agent, model = made(say("A"), say("B"), say("C"), system_prompt="You help.")
    agent.create_session("a", "You are brief.")
    for prompt, keep_system in (("one", True), ("two", False)):
        agent.run(prompt, session_id="a")
        agent.clear_session_history("a", keep_system)
        assert texts(agent, "a") == []
    agent.run("three", session_id="a")
    assert [asked.system for asked in model.asked] == ["You are brief.", "You are brief.", "You help."]


def test_a_turn_that_is_played_while_its_session_is_cleared_ends_well_and_is_not_remembered() -> None:
    def forget() -> None:
        agent.clear_session_history("default")

    agent, model = made(say("A"), call("forget"), say("B"), say("C"), tools=[forget])
    agent.run("one")
    assert agent.run("two") == "B"
    assert [message["content"] for message in model.asked[2].messages[1:4]] == ["one", "A", "two"]
    assert texts(agent) == []
    agent.run("three")
    assert [message["content"] for message in model.asked[-1].messages[1:]] == ["three"]


def test_a_turn_that_is_played_while_its_session_is_destroyed_ends_well_and_is_forgotten(tmp_path: Path) -> None:
    def leave() -> bool:
        return agent.destroy_session("default")

    agent, _ = made(call("leave"), say("B"), tools=[leave], session_file=tmp_path / "sessions.db")
    assert agent.run("one") == "B"
    assert agent.list_sessions() == []
    agent.close()


def test_two_turns_of_one_session_follow_one_another() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        go_on.wait(PATIENCE)

    agent, model = made(call("wait"), say("A"), say("B"), tools=[wait])
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(agent.run, "one")
        assert begun.wait(PATIENCE)
        second = pool.submit(agent.run, "two")
        go_on.set()
        assert (first.result(PATIENCE), second.result(PATIENCE)) == ("A", "B")
    assert texts(agent)[-2:] == ["two", "B"]
    assert len(model.asked[-1].messages) == len(texts(agent))


def test_a_failed_turn_leaves_history_and_loaded_tools_as_they_were() -> None:
    def paint() -> str:
        """Paint."""
        return "painted"

    agent, model = made(
        say("A"),
        call("tool_search_regex", pattern="paint"),
        ModelError("gone"),
        say("B"),
        tools=[paint],
        deferred_tools=True,
    )
    agent.run("one")
    with pytest.raises(ModelError, match="gone"):
        agent.run("two")
    assert texts(agent) == ["one", "A"]
    agent.run("three")
    assert model.asked[2].tool_names == ["tool_search_regex", "paint"]
    assert model.asked[3].tool_names == ["tool_search_regex"]


@pytest.mark.parametrize("fails", ["created", "destroyed"])
def test_a_callback_that_fails_is_logged_and_harms_nothing(fails: str, caplog: pytest.LogCaptureFixture) -> None:
    def fail(session_id: str) -> None:
        raise LookupError(session_id)

    agent, _ = made(say("A"))
    agent.set_session_callbacks(**{f"on_session_{fails}": fail})
    with caplog.at_level(logging.ERROR):
        assert agent.run("hi", session_id="a") == "A"
        assert agent.destroy_session("a")
    assert "session 'a': a callback failed" in caplog.text


def test_a_callback_may_use_the_sessions_from_another_thread() -> None:
    agent, _ = made(say("A"))
    with ThreadPoolExecutor(1) as pool:
        agent.set_session_callbacks(lambda name: pool.submit(agent.list_sessions).result(PATIENCE))
        assert agent.run("hi") == "A"


def test_there_are_so_many_sessions_and_no_more() -> None:
    sessions = Sessions(ChatLimits(), 3_600, 1_000)
    for number in range(1_000):
        sessions.create(str(number))
    with pytest.raises(SessionLimitError, match="There are 1000 sessions already, none of them stale"):
        sessions.create("one more")
    sessions.destroy("5")
    sessions.create("one more")
    assert len(sessions) == 1_000


def test_stale_sessions_make_room_for_new_ones_and_are_announced(clock: Clock) -> None:
    agent, _ = made(max_sessions=2)
    agent.create_session("a")
    agent.create_session("b")
    clock.wait(3_601)
    announced = Announced(agent)
    agent.create_session("c")
    assert [item["session_id"] for item in agent.list_sessions()] == ["c"]
    assert announced == [("destroyed", "a"), ("destroyed", "b"), ("created", "c")]


def test_a_history_that_no_model_can_read_is_refused_until_it_is_cleared() -> None:
    agent, _ = made(say("x" * 500), say("B"), chat_limits=ChatLimits(history_bytes=400))
    agent.run("one")
    with pytest.raises(ContextOverflowError, match=r"at most 400 are kept\. Begin anew with clear_session_history\(\)"):
        agent.run("two")
    agent.clear_session_history("default")
    assert agent.run("three") == "B"


def test_sessions_that_nobody_uses_leave_the_memory_and_not_the_file(tmp_path: Path) -> None:
    file = tmp_path / "sessions.db"
    sessions = Sessions(ChatLimits(), 3_600, 2, file)
    for name in ("a", "b", "a", "c"):
        session = sessions.take(name, create=True)
        sessions.add(session, session.history, [{"role": "user", "content": f"to {name}"}], {"t": None})
    assert len(sessions) == 2
    assert [item["message_count"] for item in sessions.summaries()] == [3, 2, 2]
    back = sessions.take("b", create=False)
    assert (back.history, list(back.loaded_tools)) == ([{"role": "user", "content": "to b"}], ["t"])
    sessions.close()


def test_a_session_that_was_forgotten_in_that_moment_has_to_be_taken_again(tmp_path: Path) -> None:
    sessions = Sessions(ChatLimits(), 3_600, 1, tmp_path / "sessions.db")
    first = sessions.take("a", create=True)
    sessions.take("b", create=True)
    assert sessions.enter(first) is False
    again = sessions.take("a", create=False)
    assert sessions.enter(again) is True
    with pytest.raises(SessionLimitError):
        sessions.take("b", create=True)
    sessions.leave(again)
    sessions.take("b", create=True)
    sessions.close()


def test_a_session_that_the_disk_does_not_take_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = Sessions(ChatLimits(), 3_600, 2, tmp_path / "sessions.db")
    told: list[str] = []
    sessions.set_callbacks(told.append, None)
    with monkeypatch.context() as broken, pytest.raises(OSError, match="full"):
        broken.setattr(SessionStore, "save", _refuse)
        sessions.create("a")
    assert (len(sessions), told) == (0, [])
    sessions.create("a")
    assert told == ["a"]
    sessions.close()


def _refuse(*_: object) -> None:
    raise OSError("full")


def test_a_slow_disk_does_not_hold_up_turns_of_sessions_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = Sessions(ChatLimits(), 3_600, 8, tmp_path / "sessions.db")
    session = sessions.create("a")
    waits, go_on = threading.Event(), threading.Event()

    def wait(*_: object) -> None:
        waits.set()
        go_on.wait(PATIENCE)

    monkeypatch.setattr(SessionStore, "save", wait)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(sessions.create, "b")
        assert waits.wait(PATIENCE)
        assert sessions.take("a", create=True) is session
        assert sessions.enter(session)
        sessions.leave(session)
        assert not slow.done()
        go_on.set()
        slow.result(PATIENCE)
    sessions.close()


def test_stale_sessions_leave_the_file_too(tmp_path: Path, clock: Clock) -> None:
    sessions = Sessions(ChatLimits(), 3_600, 1, tmp_path / "sessions.db")
    gone: list[str] = []
    sessions.set_callbacks(None, gone.append)
    sessions.create("a")
    sessions.create("b")
    clock.wait(3_601)
    sessions.take("b", create=False)
    assert (sessions.clean_up(), gone) == (1, ["a"])
    assert [item["session_id"] for item in sessions.summaries()] == ["b"]
    sessions.close()


PROGRAM = """
import sys
from gaia.agents.base import Agent
from tests.support.fake_model import FakeModel, say

agent = Agent(silent_mode=True, model=FakeModel(say(sys.argv[2])), session_file=sys.argv[1])
agent.run("hello", session_id="a")
print([message["content"] for message in agent.get_session_history("a")[1:]])
"""


def test_sessions_outlive_the_process(tmp_path: Path) -> None:
    file, here = str(tmp_path / "sessions.db"), Path(__file__).parents[3]
    said = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM, file, answer],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout.strip()
        for answer in ("first", "second")
    ]
    assert said == ["['hello', 'first']", "['hello', 'first', 'hello', 'second']"]


def test_fifty_conversations_at_once_do_not_mix() -> None:
    def echo(asked: Asked) -> Any:
        users = [message["content"] for message in asked.messages if message["role"] == "user"]
        return say(" ".join(users))

    agent = Agent(silent_mode=True, model=FakeModel(*[echo] * 150))
    with ThreadPoolExecutor(50) as pool:
        for turn in range(3):
            answers = [pool.submit(agent.run, f"{number}", session_id=f"s{number}") for number in range(50)]
            assert [answer.result(PATIENCE * 2) for answer in answers] == [
                " ".join([str(number)] * (turn + 1)) for number in range(50)
            ]


def test_two_processes_with_one_file_lose_no_turn_of_each_other(tmp_path: Path) -> None:
    file = tmp_path / "sessions.db"
    one = Sessions(ChatLimits(), 3600, 10, file)
    other = Sessions(ChatLimits(), 3600, 10, file)

    def turn(sessions: Sessions, text: str) -> list[str]:
        session = sessions.take("s", create=True)
        sessions.add(session, session.history, [{"role": "user", "content": text}], {})
        return [str(message["content"]) for message in session.history]

    assert turn(one, "one 1") == ["one 1"]
    assert turn(other, "other 1") == ["one 1", "other 1"]
    assert turn(one, "one 2") == ["one 1", "other 1", "one 2"]
    at_once = one.take("s", create=True), other.take("s", create=True)
    assert one.enter(at_once[0]) and other.enter(at_once[1])
    one.add(at_once[0], at_once[0].history, [{"role": "user", "content": "one 3"}], {})
    other.add(at_once[1], at_once[1].history, [{"role": "user", "content": "other 2"}], {})
    expected = ["one 1", "other 1", "one 2", "one 3", "other 2"]
    assert [message["content"] for message in at_once[1].history] == expected
    one.leave(at_once[0])
    assert [message["content"] for message in one.take("s", create=True).history] == expected
    one.clear("s", keep_system=True)
    assert other.take("s", create=True).busy == 1
    other.leave(at_once[1])
    assert other.take("s", create=True).history == []
    one.close()
    other.close()


def test_stale_sessions_of_clients_do_not_fill_the_file(tmp_path: Path) -> None:
    file = tmp_path / "sessions.db"
    before = Sessions(ChatLimits(), 3600, 10, file)
    for name in ("api:a", "ada"):
        before.create(name)
    before.close()
    told: list[str] = []
    later = Sessions(ChatLimits(sweep_interval=0), 0, 10, file)
    later.set_callbacks(None, told.append)
    later.create("b")
    assert [summary["session_id"] for summary in later.summaries()] == ["ada", "b"]
    assert told == ["api:a"]
    later.close()
