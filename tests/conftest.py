"""What every test gets: a home and a folder of its own, a clean environment, and known requirement rows."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import ssl
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import httpcore2
import pytest

from gaia_bridge_cli.collection import imported_for_good
from tests.requirements import REQUIREMENTS
from tests.support import installing
from tests.support.core_tests import TESTS, holds_marks, is_core
from tests.support.on_demand import import_what_is_used_by

MORE_WORKERS = 2
"""More than there are cores: much of the time is waiting for processes."""
MOST_WORKERS = 4
"""Each of them collects all the tests."""

CLEARED = (
    "CLAUDE_",
    "CODEX_",
    "COPILOT_",
    "GAIA_",
    "LEMONADE_",
    "LLAMA_",
    "MCP_",
    "OLLAMA_",
    "OPENAI_",
    "PROVIDER",
    "VLLM_",
    "XDG_",
)

EXAMPLES = 25
"""Of a property, in each run: others each time. What has more to try out takes `20 * settings().max_examples`."""
EXAMPLES_IN_CORE = 10

CORE_ONLY = "core and not thorough"
"""What `-m core` means."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As a background job of a script, we were told to ignore Ctrl-C; the servers that we start must not be.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Else each worker compiles every module that it imports, and each program that a test starts does so anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which loop the tests run in that are coroutines. `serve` takes uvloop's, an application that embeds us any."""
    parser.addoption("--event-loop", choices=["asyncio", "uvloop"], default="asyncio", help="for tests in this process")
    parser.addoption("--no-direct-calls", action="store_true", help="bridges in this process pass on no call directly")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Whole folders are run by several workers, where pytest-xdist is there and nobody says how many; files by one."""
    alone = config.option.usepdb or all(".py" in argument for argument in config.args)
    if config.pluginmanager.hasplugin("xdist") and not hasattr(config, "workerinput") and not alone:
        if config.option.numprocesses is None:
            more = 0 if config.option.markexpr == "core" else MORE_WORKERS  # the core waits for few processes
            config.option.numprocesses = min((os.cpu_count() or 1) + more, MOST_WORKERS)
        if config.option.dist == "no":
            config.option.dist = "worksteal"


@pytest.fixture(scope="session")
def anyio_backend(pytestconfig: pytest.Config) -> tuple[str, dict[str, Any]]:
    """The core runs on asyncio's loop or on uvloop's, as the bridge does."""
    return "asyncio", {"use_uvloop": pytestconfig.getoption("event_loop") == "uvloop"}


@pytest.fixture(scope="session", autouse=True)
def read_trust_store_once() -> Generator[None]:
    """Each client for HTTP would read all certificates of this machine, which takes longer than most tests."""
    read = httpcore2.default_ssl_context
    kept: dict[tuple[object, ...], ssl.SSLContext] = {}

    def remembered(**options: bool) -> ssl.SSLContext:
        key = (*options.items(), os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        if key not in kept:
            kept[key] = read(**options)
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2, "default_ssl_context", remembered)
        yield


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders that are not there yet. `mktemp` would look through all earlier ones, thousands, for the next name."""
    folder = tmp_path_factory.mktemp("h", numbered=False)  # short, since the addresses of sockets have a limit
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def clean_environment(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the developer's configuration nor the folder that pytest was started in can change a result."""
    home = next(homes)
    home.mkdir()
    for name in [name for name in os.environ if name.startswith(CLEARED)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Half of the time would go into looking for garbage among tests that all stay until the end."""
    with imported_for_good():
        if not session.config.pluginmanager.hasplugin("dsession"):  # which collects nothing itself
            _set_examples(session.config)
            _import_from_a_place_of_its_own(session.config)
        collected = yield
    # Most of what tests make is gone without a collection, and one of all generations takes most of a second here.
    gc.set_threshold(10_000, 20, 100)
    return collected


def _set_examples(config: pytest.Config) -> None:
    """On a busy machine, one example may take long; what hangs is ended by the timeout of its test."""
    from hypothesis import HealthCheck, settings  # here, where nothing looks for garbage

    examples = EXAMPLES_IN_CORE if config.option.markexpr == CORE_ONLY else EXAMPLES
    unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=examples)
    settings.register_profile("unhurried", unhurried)
    settings.load_profile("unhurried")


def _import_from_a_place_of_its_own(config: pytest.Config) -> None:
    """Let no two workers compile the same modules at the same time: in a new clone, that takes each ten seconds."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if not worker or config.args != config.getini("testpaths"):
        return
    modules = [path for path in sorted(TESTS.rglob("test_*.py")) if not pytest_ignore_collect(path, config)]
    begin = len(modules) * int(worker) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for path in (*modules[begin:], *modules[:begin]):
        with suppress(Exception, pytest.skip.Exception):  # is seen once it is collected
            import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """The imports that a test needs are no part of what it does."""
    if isinstance(item, pytest.Function) and item.module is not None:
        import_what_is_used_by(item.module.__name__)


def pytest_configure(config: pytest.Config) -> None:
    """What is marked as thorough is no part of the core, wherever it lies."""
    config.pluginmanager.register(installing)
    if config.option.no_direct_calls:
        from gaia_bridge.server.direct_calls import DirectClient

        DirectClient.begin = lambda *_: None  # type: ignore[method-assign]
    if config.option.markexpr in ("core", CORE_ONLY):  # a worker is told what became of it
        config.option.markexpr = CORE_ONLY


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`pytest -m core` need not import what it will not run, which takes as long as many tests."""
    if config.option.markexpr != CORE_ONLY or collection_path.suffix != ".py":
        return None
    return None if is_core(collection_path) or holds_marks(collection_path) else True


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Mark what `pytest -m core` runs, a module at a time."""
    if isinstance(collector, pytest.Module) and is_core(collector.path):
        collector.add_marker("core")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without direct calls, leave out what is about these. A mark with a row that the manifest lacks is a typing error.

    Raises:
        pytest.UsageError: Some test names an unknown row.
    """
    if config.option.no_direct_calls:
        about = {item for item in items if "direct" in item.path.stem or "direct_call" in item.name}
        config.hook.pytest_deselected(items=[*about])
        items[:] = [item for item in items if item not in about]
    unknown = sorted(
        f"{item.nodeid} names {row!r}"
        for item in items
        for mark in item.own_markers
        if mark.name == "requirement"
        for row in mark.args
        if row not in REQUIREMENTS
    )
    if unknown:
        raise pytest.UsageError("rows that tests/requirements.py does not have:\n  " + "\n  ".join(unknown))
