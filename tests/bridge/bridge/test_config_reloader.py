"""Servers follow their configuration files, and nothing else moves."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaia_bridge.bridge import configured_servers
from gaia_bridge.bridge.configured_servers import Reloader, difference
from gaia_bridge.config.file_reader import writable_by_others
from gaia_bridge.errors import ConfigError, PublishError
from gaia_bridge.model import LeftOut, ServerOptions, ServerSpec, StdioServerSpec, ToolTransform
from gaia_bridge.runtime import file_watch
from tests.support.configured import load_servers
from tests.support.waiting import PATIENCE, Changing, until

NAMES = st.sampled_from("abcd")
ENTRIES = st.dictionaries(NAMES, st.sampled_from(("one", "two")))


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are looked at often, so that nobody waits."""
    monkeypatch.setattr(configured_servers, "FILE_INTERVAL", 0.01)
    monkeypatch.setattr(file_watch, "_STEP", 0.001)


class Recorder(Changing):
    """What a bridge would publish."""

    def __init__(self, taken: str = "") -> None:
        super().__init__()
        self.servers: dict[str, ServerSpec] = {}
        self.steps: list[str] = []
        self._taken = taken

    async def add_upstream(self, spec: ServerSpec) -> str:
        if spec.name == self._taken:
            raise PublishError(spec.name, "another agent or server has that name")
        self.servers[spec.name] = spec
        self._took(f"+{spec.name}")
        return spec.name

    def adjust_upstream(self, spec: ServerSpec) -> None:
        if spec.name not in self.servers:
            raise PublishError(spec.name, "no server is published under that name")
        self.servers[spec.name] = spec
        self._took(f"~{spec.name}")

    async def remove(self, name: str) -> None:
        del self.servers[name]
        self._took(f"-{name}")

    def _took(self, step: str) -> None:
        self.steps.append(step)
        self._changed()


def server(name: str, command: str = "one", *, disabled: bool = False) -> StdioServerSpec:
    return StdioServerSpec(name, command, options=ServerOptions(disabled=disabled))


@given(ENTRIES, ENTRIES)
@pytest.mark.requirement("F-117")
def test_applying_a_difference_leads_to_what_is_wanted_and_touches_nothing_else(
    old: dict[str, str], new: dict[str, str]
) -> None:
    running = {name: server(name, command) for name, command in old.items()}
    change = difference(running, [server(name, command) for name, command in new.items()])
    result: dict[str, ServerSpec] = {name: spec for name, spec in running.items() if name not in change.removed}
    result |= {spec.name: spec for spec in change.added}
    assert {name: spec.command for name, spec in result.items() if isinstance(spec, StdioServerSpec)} == new
    same = {name for name in old if old[name] == new.get(name)}
    assert same.isdisjoint(change.removed)
    assert same.isdisjoint(spec.name for spec in change.added)


def test_a_disabled_server_is_not_wanted() -> None:
    assert difference({"a": server("a")}, [server("a", disabled=True)]).removed == ("a",)


@pytest.mark.anyio
async def test_a_server_whose_entry_is_unchanged_is_left_alone() -> None:
    bridge = Recorder()
    reloader = Reloader(bridge, lambda: [server("a"), server("b", "two"), server("c")], lambda: [])
    await reloader.apply([server("a"), server("b")])
    bridge.steps.clear()
    assert await reloader.reload()
    assert bridge.steps == ["-b", "+b", "+c"]


@pytest.mark.anyio
@pytest.mark.requirement("F-117")
@pytest.mark.parametrize(
    ("options", "steps"),
    [
        (ServerOptions(), []),
        (ServerOptions(allowed_tools=("a",)), ["~a"]),
        (ServerOptions(disabled_tools=("a",)), ["~a"]),
        (ServerOptions(tools={"a": ToolTransform(hidden=True)}), ["~a"]),
        (ServerOptions(tools={"a": ToolTransform(name="b")}, secrets=("s3cr3t",)), ["-a", "+a"]),
        (ServerOptions(allowed_tools=("a",), timeout=5), ["-a", "+a"]),
        (ServerOptions(allowed_tools=("a",), disabled=True), ["-a"]),
    ],
)
async def test_a_server_of_which_only_other_tools_are_published_goes_on_running(
    options: ServerOptions, steps: list[str]
) -> None:
    wanted = StdioServerSpec("a", "one", options=options)
    bridge = Recorder()
    reloader = Reloader(bridge, lambda: [wanted], lambda: [])
    await reloader.apply([server("a")])
    bridge.steps.clear()
    assert await reloader.reload()
    assert bridge.steps == steps
    assert await reloader.reload()
    assert bridge.steps == steps
    assert list(bridge.servers.values()) == ([] if options.disabled else [wanted])


@pytest.mark.anyio
async def test_a_server_that_broke_is_started_anew_with_any_change_of_its_entry() -> None:
    published = [StdioServerSpec(name, "one", options=ServerOptions(allowed_tools=())) for name in "ab"]
    bridge = Recorder()
    reloader = Reloader(bridge, lambda: published, lambda: [])
    await reloader.apply([server("a"), server("b")])
    del bridge.servers["a"]
    assert await reloader.reload()
    assert bridge.steps == ["+a", "+b", "~b", "+a"]


@pytest.mark.anyio
@pytest.mark.requirement("F-099i")
async def test_a_configuration_that_cannot_be_read_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def read() -> Sequence[ServerSpec]:
        raise ConfigError("servers.json:1:2", "is not valid JSON")

    bridge = Recorder()
    reloader = Reloader(bridge, read, lambda: [])
    await reloader.apply([server("a")])
    assert not await reloader.reload()
    assert list(bridge.servers) == ["a"]
    assert "servers.json:1:2" in caplog.text
    reason = "the servers stay as they were: is not valid JSON"
    assert reloader.left_out == (LeftOut("file", "servers.json:1:2", reason),)
    await reloader.apply([server("a")])
    assert not reloader.left_out


@pytest.mark.anyio
async def test_a_name_that_is_taken_leaves_the_others_in_and_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    bridge = Recorder(taken="a")
    reloader = Reloader(bridge, lambda: [server("a"), server("b")], lambda: [])
    assert await reloader.reload()
    assert list(bridge.servers) == ["b"]
    assert "server a is left out" in caplog.text
    assert [item.name for item in reloader.left_out] == ["a"]
    bridge = reloader._bridge = Recorder()  # pyright: ignore[reportPrivateUsage] - the agent of that name is gone
    assert await reloader.reload()
    assert bridge.steps == ["+a"]
    assert reloader.left_out == ()


@pytest.mark.anyio
@pytest.mark.requirement("F-117", "F-099i")
@pytest.mark.parametrize("through_link", [False, True])
async def test_saving_a_watched_file_is_noticed_however_it_is_saved(tmp_path: Path, through_link: bool) -> None:
    (tmp_path / "real").mkdir()
    file = tmp_path / "real" / "servers.json"
    file.write_text("a", "utf-8")
    watched = tmp_path / "link.json" if through_link else file
    if through_link:
        watched.symlink_to(file)

    bridge = Recorder()
    reloader = Reloader(bridge, lambda: [server(name) for name in file.read_text("utf-8").split()], lambda: [watched])
    assert await reloader.reload()
    async with anyio.create_task_group() as tasks:
        await tasks.start(reloader.watch)
        file.write_text("a b", "utf-8")
        await bridge.until(lambda: "b" in bridge.servers)
        file.write_text("a", "utf-8")
        await bridge.until(lambda: "b" not in bridge.servers)
        (tmp_path / "real" / "other.json").write_text("noise", "utf-8")
        new = tmp_path / "real" / "servers.json.new"
        new.write_text("a c", "utf-8")
        os.replace(new, file)
        await bridge.until(lambda: "c" in bridge.servers)
        tasks.cancel_scope.cancel()
    assert "-a" not in bridge.steps


@pytest.mark.anyio
@pytest.mark.requirement("F-118")
async def test_the_end_does_not_wait_for_the_next_look_at_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configured_servers, "FILE_INTERVAL", 60)
    reloader = Reloader(Recorder(), list, lambda: [tmp_path / "servers"])
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            await tasks.start(reloader.watch)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()


@pytest.mark.anyio
@pytest.mark.requirement("F-117")
async def test_of_two_reloads_at_once_the_later_one_counts() -> None:
    bridge, reading, seen = Recorder(), threading.Semaphore(0), threading.Event()
    states = iter((("old", 1.0), ("new", 0.0)))

    def read() -> list[ServerSpec]:
        command, patience = next(states)
        seen.set()
        if patience:
            reading.acquire(timeout=patience)  # until the other one is done, if that is possible
        return [server("a", command)]

    reloader = Reloader(bridge, read, lambda: [])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reloader.reload)
        assert await anyio.to_thread.run_sync(seen.wait, PATIENCE)
        await reloader.reload()
        reading.release()
    assert bridge.servers == {"a": server("a", "new")}


@pytest.mark.anyio
@pytest.mark.requirement("F-099i")
async def test_a_file_whose_permissions_are_mended_is_read_again(tmp_path: Path) -> None:
    file, bridge = tmp_path / "servers.json", Recorder()
    file.write_text("{}", "utf-8")
    file.chmod(0o666)

    def read() -> list[ServerSpec]:
        if problem := writable_by_others(file.stat()):
            raise ConfigError(str(file), problem)
        return [server("a")]

    reloader = Reloader(bridge, read, lambda: [file])
    assert not await reloader.reload()
    async with anyio.create_task_group() as tasks:
        await tasks.start(reloader.watch)
        file.chmod(0o600)
        await bridge.until(lambda: bridge.steps == ["+a"])
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_a_file_that_comes_later_is_read_also_where_its_folder_was_not_there(tmp_path: Path) -> None:
    file, bridge = tmp_path / "folder" / "servers.json", Recorder()
    reloader = Reloader(bridge, lambda: [server("a")] if file.exists() else [], lambda: [file])
    async with anyio.create_task_group() as tasks:
        await tasks.start(reloader.watch)
        file.parent.mkdir()
        file.write_text("{}", "utf-8")
        await bridge.until(lambda: bridge.steps == ["+a"])
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_a_file_that_does_not_stop_changing_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = count()

    def signature(_: object) -> int:
        return next(states)

    bridge = Recorder()
    reloader = Reloader(bridge, lambda: [server("a")], lambda: [tmp_path / "servers.json"])
    monkeypatch.setattr(file_watch, "_signature", signature)
    async with anyio.create_task_group() as tasks:
        await tasks.start(reloader.watch)
        await bridge.until(lambda: bridge.steps == ["+a"])
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
@pytest.mark.requirement("F-099i")
async def test_a_file_that_is_half_written_keeps_what_runs_until_it_is_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "servers.json"
    file.write_text('{"mcpServers": {"a": {"command": "one"}}}', "utf-8")
    bridge = Recorder()
    reloader = Reloader(bridge, lambda: load_servers(file).servers, lambda: [file])
    assert await reloader.reload()
    async with anyio.create_task_group() as tasks:
        await tasks.start(reloader.watch)
        file.write_text('{"mcpServers": {"a": {"command": "tw', "utf-8")
        await until(lambda: "the servers stay as they are" in caplog.text)
        assert bridge.steps == ["+a"]
        file.write_text('{"mcpServers": {"a": {"command": "two"}}}', "utf-8")
        await bridge.until(lambda: bridge.steps == ["+a", "-a", "+a"])
        tasks.cancel_scope.cancel()
    assert "servers.json:1:34: is not valid JSON" in caplog.text
