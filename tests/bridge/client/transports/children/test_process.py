"""A child is launched without a shell, sees what it may see, and is gone in the end with everything that it started."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import threading
from contextvars import Context
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from gaia_bridge.client.transport import LaunchError, UpstreamError
from gaia_bridge.client.transports.children.process import exit_text
from gaia_bridge.config.launching.child_environment import HARMLESS_ENVIRONMENT, PROXY_ENVIRONMENT, child_environment
from gaia_bridge.model import StdioServerSpec
from gaia_bridge.runtime.forking import FORKS
from gaia_bridge_cli.remembered_path import remember_search_path
from tests.support.obedient_children import child, do, launched, liveness
from tests.support.upstreams import no_more_files
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("bystander")]

ROOT = Path(__file__).parents[5]
SHORT: dict[str, Any] = {"stop_grace": 0.3, "terminate_grace": 0.3}
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the environment of other processes")


@pytest.fixture(scope="module", autouse=True)
def libuv_has_begun() -> None:
    """What libuv opens first it keeps."""
    anyio.run(anyio.sleep, 0, backend_options={"use_uvloop": True})


@pytest.mark.requirement("S0-10", "F-029")
@pytest.mark.parametrize(
    ("code", "ended_by"),
    [
        pytest.param("", 0, id="ends with its input"),
        pytest.param("os.close(0); time.sleep(3600)", -signal.SIGTERM, id="ignores the end of its input"),
        pytest.param("stay()", -signal.SIGKILL, id="ignores SIGTERM too", marks=pytest.mark.requirement("F-028")),
    ],
)
async def test_a_child_is_ended_as_gently_as_it_lets_us(code: str, ended_by: int) -> None:
    async with liveness() as lives:
        with anyio.fail_after(PATIENCE):
            async with launched(child(f"alive('it'); {code}", LIVENESS=str(lives.port)), **SHORT) as link:
                await lives.born("it")
        assert link.child.exit_code == ended_by
        await lives.dead("it")


@pytest.mark.requirement("F-030")
async def test_stubborn_children_are_ended_side_by_side() -> None:
    """One after the other, they would take four times as long as the test may."""
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:

            async def live_and_end(_: int) -> None:
                async with launched(child("stay()"), stop_grace=1, terminate_grace=1):
                    pass

            for number in range(20):
                tasks.start_soon(live_and_end, number)


@pytest.mark.requirement("F-031")
@pytest.mark.parametrize("environment", ["os.environ", "{'LIVENESS': os.environ['LIVENESS']}"])
async def test_what_a_child_leaves_behind_is_ended_although_the_child_ended_properly(environment: str) -> None:
    """By its group; also where it has thrown away the mark in the environment."""
    async with liveness() as lives:
        code = f"spawn('alive(\"left\"); stay()', env={environment})"
        async with launched(child(code, LIVENESS=str(lives.port)), **SHORT) as link:
            await lives.born("left")
        assert link.child.exit_code == 0
        await lives.dead("left")


@linux
@pytest.mark.requirement("F-032")
async def test_what_left_the_group_of_its_child_is_found_and_ended() -> None:
    async with liveness() as lives:
        code = "spawn('if os.fork(): os._exit(0)\\nos.setsid(); alive(\"daemon\"); stay()', start_new_session=True)"
        async with launched(child(code, LIVENESS=str(lives.port)), **SHORT):
            await lives.born("daemon")
        await lives.dead("daemon")


@linux
@pytest.mark.requirement("F-047")
async def test_when_the_bridge_is_killed_no_child_survives_it() -> None:
    async with liveness() as lives:
        program = ROOT / "tests" / "servers" / "doomed_bridge.py"
        process = await anyio.open_process(
            [sys.executable, str(program)],
            env={**os.environ, "LIVENESS": str(lives.port), "PYTHONPATH": str(ROOT)},
            stderr=subprocess.DEVNULL,
        )
        async with process:
            roles = ("polite", "stubborn", "parent", "grandchild", "stray")
            await lives.born(*roles)
            process.kill()
            await lives.dead(*roles)


@pytest.mark.requirement("F-124")
@pytest.mark.parametrize("steps", range(12))
async def test_whenever_a_launch_is_cancelled_no_child_is_left(steps: int) -> None:
    async with anyio.create_task_group() as tasks:

        async def live() -> None:
            async with launched(child(), **SHORT) as link:
                await do(link, "reply()")
                await anyio.sleep_forever()

        tasks.start_soon(live)
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("F-124")
@pytest.mark.parametrize("steps", range(12))
@pytest.mark.parametrize("use_uvloop", [False, True])
def test_a_launch_that_asyncio_cancels_leaves_nothing(steps: int, use_uvloop: bool) -> None:
    """A shield of anyio does not keep off the cancelling of a task."""

    async def live() -> None:
        async with launched(child()):
            await anyio.sleep_forever()

    async def cancel() -> None:
        task = asyncio.create_task(live())
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    # A context of its own: in that of the tests, sniffio may find the event loop that other tests run on.
    Context().run(partial(anyio.run, cancel, backend_options={"use_uvloop": use_uvloop}))


@pytest.mark.requirement("F-124", "F-028")
async def test_ending_a_stubborn_child_goes_on_although_asyncio_cancels_it() -> None:
    async with liveness() as lives:
        closing = anyio.Event()

        async def live() -> None:
            async with launched(child("alive('it'); stay()", LIVENESS=str(lives.port)), **SHORT):
                await lives.born("it")
                closing.set()

        task = asyncio.create_task(live())
        await closing.wait()
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await lives.dead("it")


@pytest.mark.requirement("F-124")
async def test_a_loop_that_is_torn_down_takes_its_children_along() -> None:
    async with liveness() as lives:

        async def leave_behind() -> None:
            async def live() -> None:
                async with launched(child("alive('it'); stay()", LIVENESS=str(lives.port)), **SHORT):
                    await anyio.sleep_forever()

            link = launched(child("alive('other'); stay()", LIVENESS=str(lives.port)))
            await link.__aenter__()
            leaving.append(asyncio.create_task(link.__aexit__(None, None, None)))
            leaving.append(asyncio.create_task(live()))
            await anyio.to_thread.run_sync(born.wait)

        def run() -> None:
            asyncio.run(leave_behind())

        leaving: list[asyncio.Task[Any]] = []
        born = threading.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, run)
            await lives.born("it", "other")
            born.set()
        await lives.dead("it", "other")


@pytest.mark.requirement("F-030")
async def test_a_killed_child_is_waited_for_longer_than_its_grace(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A system under load takes its time to clear away what was killed."""
    cleared = threading.Event()
    wait = subprocess.Popen[bytes].wait

    def wait_until_cleared(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        assert cleared.wait(PATIENCE)
        return wait(process, timeout)

    monkeypatch.delattr(os, "pidfd_open")  # so that a thread waits, which can be held
    monkeypatch.setattr(subprocess.Popen, "wait", wait_until_cleared)
    async with launched(child("stay()"), stop_grace=0.01, terminate_grace=0.01) as link:
        asyncio.get_running_loop().call_later(0.3, cleared.set)
    assert link.child.exit_code is not None
    assert "cannot be ended" not in caplog.text


async def test_a_child_is_ended_although_all_threads_are_taken() -> None:
    free = threading.Event()

    def hang() -> None:
        free.wait()

    async with anyio.create_task_group() as tasks:
        for _ in range(int(anyio.to_thread.current_default_thread_limiter().total_tokens)):
            tasks.start_soon(anyio.to_thread.run_sync, hang)
        await anyio.wait_all_tasks_blocked()
        try:
            with anyio.fail_after(PATIENCE):
                async with launched(child()):
                    pass
        finally:
            free.set()


@linux
@pytest.mark.requirement("F-047")
async def test_a_child_of_a_bridge_that_is_itself_a_child_does_not_survive() -> None:
    async with liveness() as lives:
        program = ROOT / "tests" / "servers" / "doomed_bridge.py"
        env = {"LIVENESS": str(lives.port), "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        async with launched(StdioServerSpec("bridge", sys.executable, (str(program), "stubborn"), env), **SHORT):
            roles = ("polite", "stubborn", "parent", "grandchild", "stray")
            await lives.born(*roles)
        await lives.dead(*roles)


@pytest.mark.requirement("F-043", "F-044", "S0-4")
@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (StdioServerSpec("x", "/no/such/program", ("--key", "hunter2")), "'/no/such/program': No such file"),
        (StdioServerSpec("x", ""), "cannot be started: ''"),
        (StdioServerSpec("x", "/"), "'/': Permission denied"),
        (StdioServerSpec("x", __file__), "Permission denied"),
        (StdioServerSpec("x", "true; touch pwned"), "'true; touch pwned': No such file"),
        (StdioServerSpec("x", sys.executable, ("a\0b",)), "characters that cannot be passed"),
        (
            StdioServerSpec("x", sys.executable, cwd="/no/such/folder"),
            "working directory '/no/such/folder': No such file",
        ),
    ],
)
async def test_what_cannot_be_launched_is_told_without_its_arguments(spec: StdioServerSpec, complaint: str) -> None:
    with pytest.raises(LaunchError) as error:
        async with launched(spec):
            pass
    assert complaint in str(error.value)
    assert "hunter2" not in str(error.value)
    assert "pwned" not in os.listdir()


@pytest.mark.requirement("F-048")
async def test_a_launch_that_fails_for_want_of_descriptors_may_work_next_time() -> None:
    with no_more_files():
        with pytest.raises(UpstreamError, match="Too many open files") as error:
            async with launched(child()):
                pass
    assert not isinstance(error.value, LaunchError)
    async with launched(child()) as link:
        assert await do(link, "reply({'now': 'it works'})") == {"now": "it works"}


async def test_a_launch_that_fails_before_there_is_a_process_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(FORKS, "conceal", fail)
    with pytest.raises(UpstreamError, match=r"cannot be started: .*: Bad file descriptor"):
        async with launched(child("stay()")):
            pass


@linux
@pytest.mark.requirement("F-049")
async def test_a_child_sees_no_descriptors_but_its_three() -> None:
    descriptor = os.dup(0)
    try:
        os.set_inheritable(descriptor, True)
        async with launched(child()) as link:
            listed = await do(link, "reply({'open': os.listdir('/proc/self/fd')})")
    finally:
        os.close(descriptor)
    assert sorted(listed["open"])[:3] == ["0", "1", "2"]
    assert len(listed["open"]) == 4  # and the one that lists them


@pytest.mark.requirement("F-046", "S0-61", "C-29")
def test_a_child_sees_the_harmless_variables_and_those_of_its_entry() -> None:
    ours = {"HOME": "/h", "LC_ALL": "C", "AWS_SECRET": "s", "LD_PRELOAD": "x", "GAIA_BRIDGE_TOKEN": "t"}
    spec = StdioServerSpec("x", "x", env={"MINE": "$HOME"})
    assert child_environment(spec, ours) == {"HOME": "/h", "LC_ALL": "C", "MINE": "$HOME"}


@pytest.mark.requirement("F-046", "S0-61")
def test_a_child_inherits_what_its_entry_asks_for_but_nothing_of_our_own() -> None:
    ours = {"HOME": "/h", "AWS_REGION": "r", "OTHER": "o", "GAIA_BRIDGE_TOKEN": "t"}
    some = StdioServerSpec("x", "x", inherit_env=("AWS_REGION", "ABSENT", "GAIA_BRIDGE_TOKEN"))
    everything = StdioServerSpec("x", "x", env={"OTHER": "changed"}, inherit_env=True)
    assert child_environment(some, ours) == {"HOME": "/h", "AWS_REGION": "r"}
    assert child_environment(everything, ours) == {"HOME": "/h", "AWS_REGION": "r", "OTHER": "changed"}


@pytest.mark.requirement("F-270", "S0-61")
def test_a_child_sees_whose_certificates_are_believed_and_the_proxy_without_its_password() -> None:
    certificates = dict.fromkeys(
        ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"), "/c"
    )
    plain = {"NO_PROXY": "localhost,.corp", "no_proxy": "a", "ALL_PROXY": "socks5://p:1", "http_proxy": "p:3128"}
    secret = {"HTTPS_PROXY": "http://me:p@ss@proxy:3128/", "HTTP_PROXY": "me:pass@proxy:3128"}
    folders = {"TMPDIR": "/t", "TMP": "/t", "TEMP": "/t", "LANG": "C.UTF-8", "LC_ALL": "C", "TZ": "UTC"}
    ours = {**certificates, **plain, **secret, **folders}
    without = {"HTTPS_PROXY": "http://proxy:3128/", "HTTP_PROXY": "proxy:3128"}
    assert child_environment(StdioServerSpec("x", "x"), ours) == {**ours, **without}
    named = StdioServerSpec("x", "x", inherit_env=("HTTPS_PROXY",), env={"HTTP_PROXY": "other"})
    assert child_environment(named, ours) == {**ours, "HTTP_PROXY": "other"}
    assert child_environment(StdioServerSpec("x", "x", inherit_env=True), ours) == ours


@pytest.mark.requirement("F-270")
def test_the_page_about_trust_lists_every_variable_that_children_get() -> None:
    words = (Path(__file__).parents[5] / "docs" / "trust.md").read_text("utf-8")
    names = (*HARMLESS_ENVIRONMENT, *PROXY_ENVIRONMENT)
    assert [name for name in names if f"`{name}`" not in words] == []


async def test_a_program_is_found_where_a_terminal_found_it_unless_the_entry_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own-python").symlink_to(sys.executable)
    remember_search_path({"PATH": f"{tmp_path}:/usr/bin:/bin"})
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    spec = StdioServerSpec("x", "own-python", child().args)
    async with launched(spec) as link:
        path = (await do(link, "reply({'path': os.environ['PATH']})"))["path"]
    assert path.startswith(f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(LaunchError, match="'own-python': No such file"):
        async with launched(StdioServerSpec("x", "own-python", child().args, {"PATH": "/usr/bin"})):
            pass


async def test_a_child_works_where_it_was_told_to(tmp_path: Path) -> None:
    spec = StdioServerSpec("x", sys.executable, child().args, cwd=str(tmp_path))
    async with launched(spec) as link:
        assert await do(link, "reply({'in': os.getcwd()})") == {"in": str(tmp_path)}


def test_how_a_process_ended_is_told_in_words() -> None:
    assert [exit_text(code) for code in (0, 3, -9, -250)] == [
        "exited with code 0",
        "exited with code 3",
        "was ended by SIGKILL",
        "was ended by signal 250",
    ]


async def test_children_live_and_end_on_a_loop_in_any_thread() -> None:
    async def live() -> int | None:
        async with launched(child()) as link:
            await do(link, "reply()")
        return link.child.exit_code

    def run(use_uvloop: bool) -> int | None:
        return anyio.run(live, backend_options={"use_uvloop": use_uvloop})

    assert [await anyio.to_thread.run_sync(run, use_uvloop) for use_uvloop in (True, False)] == [0, 0]


@linux
@pytest.mark.requirement("F-047", "S2-31")
async def test_when_a_loop_is_dropped_while_a_child_is_being_stopped_the_child_does_not_survive_the_process() -> None:
    """As at the end of an interpreter: its coroutines end where they are, and nothing in them can be awaited."""
    async with liveness() as lives:
        program = ROOT / "tests" / "servers" / "doomed_bridge.py"
        process = await anyio.open_process(
            [sys.executable, str(program), "leave"],
            env={**os.environ, "LIVENESS": str(lives.port), "PYTHONPATH": str(ROOT)},
            stderr=subprocess.DEVNULL,
        )
        async with process:
            await lives.born("stubborn")
            assert process.stdin is not None
            await process.stdin.aclose()
            await process.wait()
            await lives.dead("stubborn")
