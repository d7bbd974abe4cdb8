"""A bridge is found or started: one, however many look for it, and whatever became of the one before."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from gaia_bridge.version import __version__
from gaia_bridge_daemon.front import launching
from gaia_bridge_daemon.front.greeting import DRAIN, STATUS
from gaia_bridge_daemon.front.launching import BridgeDownError, ask, connect, connected, restart, start
from gaia_bridge_daemon.front.place import Place, Scope
from tests.support.waiting import PATIENCE, eventually

FAKE = Path(__file__).parents[2] / "servers" / "fake_bridge.py"
SCOPE = Scope()


class Fakes:
    """A place, and what is started there instead of a bridge."""

    def __init__(self, folder: str) -> None:
        self.place = Place(folder, "default")
        self.how = "greet"
        self.version = __version__
        self.kept: list[float | None] = []

    def command(self, place: Place, scope: Scope, keep: float | None, lock: int | None = None) -> list[str]:
        self.kept.append(keep)
        return [sys.executable, "-I", "-S", str(FAKE), place.front, self.how, self.version, str(lock)]

    @property
    def log(self) -> str:
        return Path(self.place.log).read_text(encoding="utf-8") if os.path.exists(self.place.log) else ""

    @property
    def started(self) -> list[int]:
        return [int(pid) for pid in re.findall(r"^started (\d+)", self.log, re.MULTILINE)]

    @property
    def running(self) -> list[int]:
        return [pid for pid in self.started if is_running(pid)]

    def connect(self, keep: float | None = None, **asks: object) -> tuple[socket.socket, dict[str, Any]]:
        return connect(self.place, SCOPE, keep, asks)

    def end(self) -> None:
        for pid in self.started:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def ignored_by(pid: int) -> set[int]:
    """The signals that a process ignores, as Linux tells it."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    mask = int(status.partition("SigIgn:")[2].split()[0], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Generator[Fakes]:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="g") as folder:
        made = Fakes(folder)
        monkeypatch.setattr(launching, "command", made.command)
        try:
            yield made
        finally:
            made.end()


def all_at_once(number: int, work: Callable[[], None]) -> None:
    """Run something in many threads that begin together."""
    barrier = threading.Barrier(number)
    failed: list[BaseException] = []

    def run() -> None:
        barrier.wait(PATIENCE)
        try:
            work()
        except BaseException as error:  # told below
            failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert failed == []


def test_the_first_one_starts_it_and_the_second_finds_it(fakes: Fakes) -> None:
    first, told = fakes.connect(12.5, source="time")
    second, again = fakes.connect(1.0)
    with first, second:
        assert told["pid"] == again["pid"] == fakes.started[0]
        assert fakes.kept == [12.5]
        assert told["heard"]["source"] == "time"
        assert told["heard"]["scope"] == SCOPE.as_json()


def test_twenty_at_once_start_one(fakes: Fakes) -> None:
    pids: list[int] = []
    with ExitStack() as opened:

        def work() -> None:
            connection, told = fakes.connect()
            opened.enter_context(connection)
            pids.append(told["pid"])

        all_at_once(20, work)
    assert len(pids) == 20
    assert len(set(pids)) == len(fakes.started) == 1


def test_twenty_newer_ones_at_once_replace_an_older_one_by_one(fakes: Fakes) -> None:
    fakes.version = "0.0.1"
    with start(fakes.place, SCOPE, None, time.monotonic() + PATIENCE):
        pass
    [old] = fakes.started
    fakes.version = __version__
    pids: list[int] = []
    with ExitStack() as opened:

        def work() -> None:
            connection, told = fakes.connect()
            opened.enter_context(connection)
            pids.append(told["pid"])

        all_at_once(20, work)
        assert len(fakes.started) == 2
        assert set(pids) == {*fakes.started} - {old}
        assert fakes.running == [pids[0]]
    assert fakes.kept == [None, 77.0], "it stays as long as the one before it would have"


def test_an_older_one_that_does_not_understand_is_replaced_and_one_of_our_own_is_believed(fakes: Fakes) -> None:
    fakes.version, fakes.how = "0.0.1", "refuse"
    with start(fakes.place, SCOPE, None, time.monotonic() + PATIENCE):
        pass
    fakes.version, fakes.how = __version__, "greet"
    with fakes.connect()[0]:
        assert len(fakes.started) == 2
    fakes.end()
    fakes.how = "refuse"
    with pytest.raises(BridgeDownError, match="^expected something else$"):
        fakes.connect()


def test_an_older_one_is_content_with_a_newer_bridge(fakes: Fakes) -> None:
    fakes.version = "999.0"
    connection, told = fakes.connect()
    with connection:
        assert told["version"] == "999.0"
    assert "hears drain" not in fakes.log


def test_the_socket_of_one_that_was_killed_is_in_nobodys_way(fakes: Fakes) -> None:
    with fakes.connect()[0]:
        os.kill(fakes.started[0], signal.SIGKILL)
        os.waitpid(fakes.started[0], 0)
    assert os.path.exists(fakes.place.front)
    connection, told = fakes.connect()
    with connection:
        assert told["pid"] == fakes.started[1]


def test_a_file_where_the_socket_should_be_is_in_nobodys_way(fakes: Fakes) -> None:
    Path(fakes.place.front).write_text("no socket", encoding="utf-8")
    with fakes.connect()[0]:
        assert len(fakes.started) == 1


def test_one_that_ends_while_it_starts_says_why(fakes: Fakes) -> None:
    fakes.how = "fail"
    with pytest.raises(BridgeDownError, match=r"^the agent is broken: no module named 'x'; see /tmp/.*/default\.log$"):
        fakes.connect()
    with pytest.raises(BridgeDownError, match="the agent is broken"):
        fakes.connect()
    assert len(fakes.started) == 2


def test_what_it_says_before_anybody_looks_is_told_as_well(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    spawned = launching._spawn  # pyright: ignore[reportPrivateUsage]

    def ended(words: list[str], environ: dict[str, str], streams: list[tuple[int, int]]) -> int:
        pid = spawned(words, environ, streams)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return pid

    monkeypatch.setattr(launching, "_spawn", ended)
    fakes.how = "fail"
    with pytest.raises(BridgeDownError, match="the agent is broken"):
        fakes.connect()


def ends_at_once(*_: object) -> list[str]:
    return ["/bin/false"]


def test_one_that_ends_without_a_word_has_its_log_named(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "command", ends_at_once)
    with pytest.raises(BridgeDownError, match=f"as soon as it was started; see {fakes.place.log}"):
        fakes.connect()


def test_where_children_are_not_waited_for_its_end_is_noticed_all_the_same(fakes: Fakes) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        fakes.how = "fail"
        with pytest.raises(BridgeDownError, match="the agent is broken"):
            fakes.connect()
        fakes.how = "greet"
        with fakes.connect()[0]:
            pid = fakes.started[-1]
            assert not hasattr(os, "pidfd_open") or signal.SIGCHLD not in ignored_by(pid)
            os.kill(pid, signal.SIGKILL)
            eventually(lambda: not psutil.pid_exists(pid))
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_one_that_does_not_come_up_is_ended(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.how = "sleep"
    monkeypatch.setattr(launching, "START_PATIENCE", 0.3)
    with pytest.raises(BridgeDownError, match="did not start within"):
        fakes.connect()
    eventually(lambda: fakes.running == [])


def test_one_that_hangs_before_it_greets_is_told_of(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.how = "hang"
    monkeypatch.setattr(launching, "GREETING_PATIENCE", 0.1)
    with pytest.raises(BridgeDownError, match="takes connections and does not answer"):
        fakes.connect()
    with pytest.raises(BridgeDownError, match="gaia-bridge down"):
        ask(fakes.place, STATUS)


def test_a_program_that_is_no_bridge_is_told_of(fakes: Fakes) -> None:
    fakes.how = "stammer"
    with pytest.raises(BridgeDownError, match=r"is no bridge: b'HTTP/1.1 400 Bad Request"):
        fakes.connect()


def test_one_that_ends_whenever_it_is_connected_to_is_told_of(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.how = "close"
    monkeypatch.setattr(launching, "START_PATIENCE", 0.2)
    with pytest.raises(BridgeDownError, match="ends whenever it is connected to"):
        fakes.connect()


def test_one_that_ends_each_connection_is_given_more_and_more_time(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.how = "close"
    start(fakes.place, SCOPE, None, time.monotonic() + PATIENCE).close()
    pauses: list[float] = []
    now = time.monotonic()

    def sleep(seconds: float) -> None:
        pauses.append(seconds)

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: now + sum(pauses))
    monkeypatch.setattr(launching, "time", clock)
    with pytest.raises(BridgeDownError, match="ends whenever it is connected to"):
        fakes.connect()
    assert pauses == sorted(pauses)
    assert pauses[-1] == 1.0
    assert len(pauses) < 100  # in a minute


def test_a_long_answer_of_one_is_read_whole(fakes: Fakes) -> None:
    fakes.how = "report"
    fakes.connect()[0].close()
    told = ask(fakes.place, STATUS)
    assert told is not None
    assert len(told["report"]) == 300_000


def test_who_waits_for_another_to_start_it_does_not_wait_for_ever(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "START_PATIENCE", 0.1)
    with launching.alone(fakes.place, time.monotonic()), pytest.raises(BridgeDownError, match="another program"):
        fakes.connect()
    assert fakes.started == []


def test_the_bridge_holds_the_lock_of_who_started_it(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int | None] = []
    fakes.how = "sleep"
    until = time.monotonic() + PATIENCE

    def command(place: Place, scope: Scope, keep: float | None, lock: int | None = None) -> list[str]:
        given.append(lock)
        return fakes.command(place, scope, keep, lock)

    monkeypatch.setattr(launching, "command", command)
    with launching.alone(fakes.place, until) as lock:
        pid, _ = launching.launch(fakes.place, SCOPE, None, lock)
        assert not os.get_inheritable(lock)
    assert given == [lock]
    eventually(lambda: fakes.started == [pid])
    with pytest.raises(BridgeDownError, match="another program"), launching.alone(fakes.place, 0):
        pytest.fail("whoever was killed here would have started a second one")
    fakes.end()
    with launching.alone(fakes.place, until):
        pass


def test_nobody_there_is_no_answer(fakes: Fakes) -> None:
    assert ask(fakes.place, STATUS) is None
    assert connected(fakes.place) is None


def test_a_restart_keeps_others_from_starting_one_and_keeps_what_the_old_one_kept(fakes: Fakes) -> None:
    with fakes.connect(5)[0]:
        until = time.monotonic() + PATIENCE
        told = restart(fakes.place, SCOPE, None, until)
        assert told is not None
        assert told["pid"] == fakes.started[0]
        assert restart(fakes.place, SCOPE, 3, until) is not None
    assert fakes.kept == [5, 77.0, 3]
    assert len(fakes.running) == 1


def test_a_restart_of_nothing_is_a_start(fakes: Fakes) -> None:
    assert restart(fakes.place, SCOPE, None, time.monotonic() + PATIENCE) is None
    assert len(fakes.running) == 1


def test_a_wish_to_drain_another_one_is_not_for_the_next(fakes: Fakes) -> None:
    with fakes.connect()[0]:
        told = ask(fakes.place, DRAIN, pid=1)
        assert told is not None
        assert fakes.running == [told["pid"]]


def test_a_long_log_is_put_aside_before_the_next_one_writes(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "_LOG_BYTES", 10)
    Path(fakes.place.log).write_text("the story of the one before\n", encoding="utf-8")
    with fakes.connect()[0]:
        assert Path(f"{fakes.place.log}.1").read_text(encoding="utf-8") == "the story of the one before\n"
        assert os.stat(fakes.place.log).st_mode & 0o777 == 0o600
        assert fakes.log.startswith("started")


def test_a_bridge_is_no_child_of_another_one(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GAIA_BRIDGE_CHILD", "GAIA_BRIDGE_AGENTS"):
        monkeypatch.setenv(name, "1234")
    monkeypatch.setenv("TOKEN", "kept")
    with fakes.connect()[0]:
        process = psutil.Process(fakes.started[0])
        environment = process.environ()
        assert os.getsid(process.pid) == process.pid
    assert "TOKEN" in environment
    assert not {"GAIA_BRIDGE_CHILD", "GAIA_BRIDGE_AGENTS"} & set(environment)


def test_where_the_system_makes_no_sessions_for_us_it_is_started_without(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn = os.posix_spawn

    def of_an_old_macos(*arguments: Any, setsid: bool = False, **options: Any) -> int:
        if setsid:
            raise NotImplementedError
        return spawn(*arguments, **options)

    monkeypatch.setattr(os, "posix_spawn", of_an_old_macos)
    with fakes.connect()[0]:
        assert os.getsid(fakes.started[0]) == os.getsid(0)


def test_the_command_line_says_what_the_bridge_is() -> None:
    place = Place("/run", "x-1")
    scope = Scope("/a/servers.json", ["/b/-.py:A"], "/c")
    words = launching.command(place, scope, 0.123456789, 7)
    assert words[:5] == [sys.executable, "-P", "-m", "gaia_bridge", "background"]
    assert json.dumps(words[5:]) == json.dumps(
        "--place /run --name x-1 --folder /c --config /a/servers.json --keep 0.123456789 --lock 7 -- /b/-.py:A".split()
    )


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS refuses them, as if nobody were there")
def test_one_at_which_as_many_wait_as_can_is_busy_and_not_gone(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as busy, ExitStack() as waiting:
        busy.bind(fakes.place.front)
        busy.listen(0)
        waiting.enter_context(closing(connection_to(fakes)))
        monkeypatch.setattr(launching, "GREETING_PATIENCE", 0.05)
        with pytest.raises(BridgeDownError, match="takes no connections; see "):
            fakes.connect()
        assert not fakes.started
        monkeypatch.setattr(launching, "GREETING_PATIENCE", PATIENCE)
        taking = threading.Timer(0.02, lambda: busy.accept()[0].close())
        taking.start()
        waiting.enter_context(closing(connection_to(fakes)))
        taking.join()


def connection_to(fakes: Fakes) -> socket.socket:
    connection = connected(fakes.place)
    assert connection is not None
    return connection


def test_a_file_system_without_locks_is_named_with_the_file_and_a_remedy(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(BridgeDownError, match=r"\.lock cannot be locked: No locks available.*XDG_RUNTIME_DIR"):
        fakes.connect()
