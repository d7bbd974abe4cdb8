"""`SessionStore`: what is saved is what is loaded, whatever happens in between."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gaia.agents.chat.store import SessionStore, SessionStoreError, SessionSummary, StoredSession, StoreLimits
from gaia_bridge.errors import ConfigError

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
HASTY = StoreLimits(busy_timeout=0.05)

SAVES_FOR_EVER = """
import itertools, sys
from datetime import UTC, datetime
from gaia.agents.chat.store import SessionStore, StoredSession

store, path, name = SessionStore(sys.argv[1]), sys.argv[1], sys.argv[2]
messages = []
for number in itertools.count():
    messages.append({"role": "user", "content": f"{number} " * 2000})
    now = datetime.now(UTC)
    store.save(StoredSession(name, now, now, messages, [str(number)]))
    print(number, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "sessions.db"


@pytest.fixture
def store(path: Path) -> Iterator[SessionStore]:
    with closing(SessionStore(path)) as opened:
        yield opened


def session(session_id: str = "one", *texts: str, at: datetime = NOON, **facts: Any) -> StoredSession:
    """A session in which the user said some things."""
    return StoredSession(session_id, at, at, [{"role": "user", "content": text} for text in texts], **facts)


def written(path: Path) -> list[int]:
    """The places of the messages in the file, in the order in which they were written."""
    with closing(sqlite3.connect(path)) as connection:
        return [place for (place,) in connection.execute("SELECT position FROM messages ORDER BY rowid")]


def test_what_is_saved_is_loaded_also_by_the_next_process(store: SessionStore, path: Path) -> None:
    saved = session(
        "a", "hello", "…", at=NOON, loaded_tools=["z", "a"], metadata={"user": [1, None]}, system_message="Be brief."
    )
    saved = replace(saved, last_activity=NOON + timedelta(microseconds=1))
    store.save(saved)
    assert store.load("a") == saved
    store.close()
    with closing(SessionStore(path)) as again:
        assert again.load("a") == saved


def test_an_unknown_session_is_none_and_deleting_it_says_so(store: SessionStore) -> None:
    assert store.load("nobody") is None
    assert store.delete("nobody") is False
    store.save(session("one", "x"))
    assert store.delete("one") is True
    assert (store.load("one"), store.count()) == (None, 0)


def test_deleting_a_session_takes_its_messages_along(store: SessionStore, path: Path) -> None:
    store.save(session("one", "a", "b"))
    store.delete("one")
    assert written(path) == []


def test_times_come_back_in_utc_and_one_without_a_zone_is_refused(store: SessionStore) -> None:
    eastern = NOON.astimezone(timezone(timedelta(hours=9)))
    store.save(session(at=eastern))
    loaded = store.load("one")
    assert loaded is not None
    assert (loaded.created_at, loaded.created_at.tzinfo) == (eastern, UTC)
    with pytest.raises(ValueError, match="has no time zone"):
        store.save(session(at=NOON.replace(tzinfo=None)))


def test_sessions_are_listed_from_the_oldest_on_without_their_messages(store: SessionStore) -> None:
    store.save(session("young", "a", at=NOON + timedelta(hours=1), metadata={"k": 1}))
    store.save(session("old", "a", "b"))
    assert store.list() == (
        SessionSummary("old", NOON, NOON, 2, {}),
        SessionSummary("young", NOON + timedelta(hours=1), NOON + timedelta(hours=1), 1, {"k": 1}),
    )
    assert store.count() == 2


def test_only_what_is_new_of_a_long_history_is_written(store: SessionStore, path: Path) -> None:
    store.save(session("one", "a", "b"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE messages SET rowid = rowid + 100")
    store.save(session("one", "a", "b", "c"))
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT rowid, position FROM messages ORDER BY position").fetchall()
    assert rows == [(101, 0), (102, 1), (103, 2)]


@pytest.mark.parametrize("texts", [("a", "x", "c"), ("a",), (), ("x", "a", "b", "c")])
def test_a_history_that_was_cut_or_changed_is_saved_as_it_is(store: SessionStore, texts: tuple[str, ...]) -> None:
    store.save(session("one", "a", "b", "c"))
    store.save(session("one", *texts))
    assert store.load("one") == session("one", *texts)
    assert store.list()[0].message_count == len(texts)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
LONE_SURROGATES = st.characters(categories=["Cs"]).map(lambda half: f"half {half} a character")
MOMENTS = st.datetimes(datetime(1990, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))


@settings(
    max_examples=2 * settings().max_examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    name=st.text(),
    messages=st.lists(st.dictionaries(st.text() | LONE_SURROGATES, JSON_VALUES | LONE_SURROGATES, max_size=3)),
    tools=st.lists(st.text() | LONE_SURROGATES, max_size=3),
    metadata=st.dictionaries(st.text(), JSON_VALUES, max_size=3),
    times=st.tuples(MOMENTS, MOMENTS),
    system_message=st.none() | st.text() | LONE_SURROGATES,
)
def test_any_json_comes_back_as_it_was(
    store: SessionStore,
    name: str,
    messages: list[Any],
    tools: list[str],
    metadata: dict[str, Any],
    times: tuple[datetime, datetime],
    system_message: str | None,
) -> None:
    saved = StoredSession(name, *times, messages, tools, metadata, system_message)
    store.save(saved)
    assert store.load(name) == saved


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", object()])
def test_what_json_cannot_carry_is_refused_and_nothing_is_changed(store: SessionStore, value: object) -> None:
    store.save(session("one", "a"))
    with pytest.raises(ValueError, match="JSON cannot carry"):
        store.save(replace(session("one", "a", "b"), metadata={"k": value}))
    assert store.load("one") == session("one", "a")


def test_half_a_character_is_no_name_of_a_session(store: SessionStore) -> None:
    for use in (store.load, store.delete):
        with pytest.raises(ValueError, match="cannot be the id"):
            use("\ud800")
    with pytest.raises(ValueError, match="cannot be the id"):
        store.save(session("\ud800"))


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_nobody_else_can_read_the_file_nor_a_folder_made_for_it(store: SessionStore, path: Path) -> None:
    store.save(session("one", "secret"))
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {"sessions.db": 0o600, "sessions.db-wal": 0o600, "sessions.db-shm": 0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_a_file_that_others_can_read_is_closed_to_them(store: SessionStore, path: Path) -> None:
    store.close()
    path.chmod(0o644)
    with closing(SessionStore(path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_relative_path_and_the_home_folder_are_understood() -> None:
    with closing(SessionStore("~/here/:memory:")) as store:
        assert store.path == Path.home() / "here" / ":memory:"
        assert store.path.exists()
    with closing(SessionStore(":memory:")) as store:
        assert store.path == Path.cwd() / ":memory:"
        assert store.path.exists()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b"this is no database, but somebody's notes " * 100, "no database"),
        (b"SQLite format 3\0" + b"\xff" * 5_000, "damaged, or is no database"),
    ],
)
def test_a_damaged_file_is_refused_by_name_with_what_to_do_and_left_alone(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / "sessions.db"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=problem) as caught:
        SessionStore(path)
    assert caught.value.place == str(path)
    assert "move it" in caught.value.hint
    assert path.read_bytes() == content


def test_damage_in_the_middle_is_found_when_it_is_met(store: SessionStore, path: Path) -> None:
    store.save(session("one", *("x" * 3_000 for _ in range(20))))
    store.close()
    content = bytearray(path.read_bytes())
    content[8_192:] = b"\xa5" * (len(content) - 8_192)
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="is damaged"), closing(SessionStore(path)) as again:
        again.load("one")
    assert path.read_bytes() == content


def test_a_message_that_somebody_broke_by_hand_is_damage_too(store: SessionStore, path: Path) -> None:
    store.save(session("one", "a"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE messages SET content = '{'")
    with pytest.raises(ConfigError, match="a value in it is no JSON"):
        store.load("one")
    assert store.count() == 1


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE sessions (whatever)")
    with pytest.raises(ConfigError, match="not one of sessions"):
        SessionStore(path)


@pytest.mark.parametrize(("version", "problem"), [(2, "newer version"), (0, "is damaged"), (-1, "is damaged")])
def test_tables_of_another_version_are_refused(store: SessionStore, path: Path, version: int, problem: str) -> None:
    store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(ConfigError, match=problem):
        SessionStore(path)


def test_a_folder_or_a_pipe_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a regular file"):
        SessionStore(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="not a regular file"):
        SessionStore(tmp_path / "pipe")
    (tmp_path / "file").write_text("x", "utf-8")
    with pytest.raises(ConfigError, match="cannot be used: "):
        SessionStore(tmp_path / "file" / "sessions.db")


def test_a_full_disk_is_said_and_what_was_saved_before_stays(store: SessionStore) -> None:
    store.save(session("one", "a"))
    connection = store._connection  # pyright: ignore[reportPrivateUsage]
    [pages] = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(SessionStoreError, match="the disk is full"):
        store.save(session("one", "a", "b" * 100_000))
    assert store.load("one") == session("one", "a")
    connection.execute("PRAGMA max_page_count = 100000")
    store.save(session("one", "a", "b" * 100_000))
    assert store.load("one") == session("one", "a", "b" * 100_000)


def test_a_process_that_does_not_let_go_is_waited_for_and_then_said(store: SessionStore, path: Path) -> None:
    with closing(SessionStore(path, HASTY)) as hasty, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(SessionStoreError, match="another process"):
            hasty.save(session("one", "a"))
        assert hasty.load("one") is None  # reading goes on
        other.execute("COMMIT")
        hasty.save(session("one", "a"))
    assert store.load("one") == session("one", "a")


def test_closing_twice_is_harmless_and_afterwards_everything_is_refused(store: SessionStore) -> None:
    store.close()
    store.close()
    with pytest.raises(SessionStoreError, match="was closed"):
        store.count()


def test_threads_can_share_a_store(store: SessionStore) -> None:
    def save(number: int) -> None:
        for count in range(10):
            store.save(session(f"s{number}", *(str(at) for at in range(count))))

    threads = [threading.Thread(target=save, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.load(f"s{number}") for number in range(8)] == [
        session(f"s{number}", *(str(at) for at in range(9))) for number in range(8)
    ]


def saving_process(path: Path, name: str) -> subprocess.Popen[str]:
    """A process that saves one message more, again and again, and writes a line for each time."""
    return subprocess.Popen([sys.executable, "-c", SAVES_FOR_EVER, str(path), name], stdout=subprocess.PIPE, text=True)


def lines_until_killed(process: subprocess.Popen[str], lines: int) -> int:
    """Let a process work for some lines, kill it in the midst of its work; returns the last line."""
    assert process.stdout is not None
    with process:
        last = [process.stdout.readline() for _ in range(lines)][-1]
        process.kill()
        rest = process.stdout.read().splitlines(keepends=True)
    return int([last, *(line for line in rest if line.endswith("\n"))][-1])


@pytest.mark.parametrize("lines", [1, 7, 40])
def test_a_process_that_is_killed_while_it_saves_leaves_a_whole_session(path: Path, lines: int) -> None:
    last = lines_until_killed(saving_process(path, "one"), lines)
    with closing(SessionStore(path)) as store:
        loaded = store.load("one")
        assert loaded is not None
        assert len(loaded.messages) in (last + 1, last + 2)  # what was said to be saved, and perhaps one more
        assert loaded.messages == [
            {"role": "user", "content": f"{number} " * 2000} for number in range(len(loaded.messages))
        ]
        assert loaded.loaded_tools == [str(len(loaded.messages) - 1)]
        store.save(session("two", "still works"))


def test_processes_that_begin_and_save_at_once_do_not_disturb_each_other(path: Path) -> None:
    processes = [saving_process(path, f"p{number}") for number in range(3)]
    lasts = [lines_until_killed(process, 10) for process in processes]
    with closing(SessionStore(path)) as store:
        counts = {summary.session_id: summary.message_count for summary in store.list()}
    assert all(counts[f"p{number}"] - last in (1, 2) for number, last in enumerate(lasts))
    assert sorted(file.name for file in path.parent.iterdir()) == ["sessions.db"]
