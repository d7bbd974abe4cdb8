"""A plugin of pytest: what the chosen tests need of other hands is installed before the first of them begins.

The process that pytest was started in does it and shows it, also for the workers of pytest-xdist, which know what was
chosen. The limit of a test (pytest-timeout) is for what it does, so nothing is installed inside.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

from tests.conformance.runner import CannotRunError
from tests.support.installed_programs import Installation, needs_of, only

__all__ = [
    "pytest_collection_finish",
    "pytest_configure_node",
    "pytest_runtest_protocol",
    "pytest_xdist_node_collection_finished",
]

HANDED: Final = "needs_file"
"""The entry of a worker's input that names the file in which it says what its tests need."""
FOLDER: Final = pytest.StashKey[TemporaryDirectory[str]]()
"""Where those files are."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Install everything; a worker hands on what that is, before its own plugin reports that it is ready."""
    needed = dict.fromkeys(installation for item in session.items for installation in _needs(item))
    handed = getattr(session.config, "workerinput", {}).get(HANDED)
    if handed is not None:
        Path(handed).write_bytes(pickle.dumps([*needed]))
    elif not session.config.option.collectonly:
        _prepare(session.config, needed)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Name the file for a worker."""
    config: pytest.Config = node.config
    if FOLDER not in config.stash:
        config.stash[FOLDER] = TemporaryDirectory(prefix="gaia-needs-")
        config.add_cleanup(config.stash[FOLDER].cleanup)
    node.workerinput[HANDED] = str(Path(config.stash[FOLDER].name, node.workerinput["workerid"]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any) -> None:
    """Install what a worker has chosen: it is given its first test once this returns."""
    handed = Path(node.workerinput[HANDED])
    if handed.exists():
        _prepare(node.config, pickle.loads(handed.read_bytes()))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Around the timer of pytest-timeout: what could not be installed is tried once more, and nothing else is taken."""
    needed = _needs(item)
    for installation in needed:
        if not installation.stamp.exists():
            try:
                installation.install()
            except CannotRunError:
                continue  # the test says so, or is skipped for it
    with only(needed):
        return (yield)


def _needs(item: pytest.Item) -> dict[Installation[object], None]:
    """What a test and its fixtures need."""
    if not isinstance(item, pytest.Function):
        return {}
    fixtures = item._fixtureinfo.name2fixturedefs.values()  # pyright: ignore[reportPrivateUsage]
    test: Callable[..., Any] = item.obj
    return needs_of([test, *(definition.func for each in fixtures for definition in each)])


def _prepare(config: pytest.Config, needed: Iterable[Installation[object]]) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None:  # nobody sees it: each test has its own installed
        return
    for installation in needed:
        if installation.stamp.exists():
            continue
        terminal.ensure_newline()
        terminal.write(f"installing {installation} for the tests, once: ", flush=True)
        began = time.monotonic()
        try:
            installation.install()
        except CannotRunError as error:
            terminal.write_line(str(error).partition("\n")[0])
        else:
            terminal.write_line(f"{time.monotonic() - began:.0f} s")
