"""Reloads the agents of a running bridge after every change of their source files.

An agent that cannot be imported changes nothing: the last good agent goes on, and the log says what is wrong. The
modules that agents are made of are followed as far as their author can change them.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
import sysconfig
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final, Protocol

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus

from gaia_bridge.bridge.discovery import LoadedAgent, find_agents, place_of
from gaia_bridge.bridge.discovery.classes import is_bridge, is_mcp_server
from gaia_bridge.constants import OWN_PACKAGES
from gaia_bridge.contract import KnowsItsEnd, Publishable, Source
from gaia_bridge.errors import AgentLoadError, BridgeError, PublishError
from gaia_bridge.runtime.file_watch import FileWatch
from gaia_bridge.runtime.unloading import unload
from gaia_bridge.text.escaping import one_line

_NEVER: Final = frozenset({"__main__", "__mp_main__", *OWN_PACKAGES})
"""The program and the bridge: their changes need a new start of the program."""

_PACKAGES: Final = frozenset({"site-packages", "dist-packages"})


class OwnModules:
    """The modules that agents are made of. Modules that were imported before this object was made are none of them."""

    def __init__(self) -> None:
        self._before = frozenset(sys.modules)
        self._count = 0
        self._files: frozenset[Path] = frozenset()

    def loaded(self) -> dict[str, ModuleType]:
        """Return the modules by name, as they are now."""
        return {
            name: module
            for name, module in sys.modules.copy().items()
            if name not in self._before and _file_of(module) is not None and name.partition(".")[0] not in _NEVER
        }

    @property
    def files(self) -> frozenset[Path]:
        """The files of these modules. Agents may import more of them at any time."""
        if len(sys.modules) != self._count:
            self._count = len(sys.modules)
            self._files = frozenset(file for module in self.loaded().values() if (file := _file_of(module)))
        return self._files

    def unload(self, changed: Iterable[Path]) -> Unloaded:
        """Remove all these modules from `sys.modules`, so that the next import reads their files anew.

        Args:
            changed: The files that changed.
        """
        modules = self.loaded()
        for file in changed:  # Python takes what it compiled in the same second for current if the length is the same
            with suppress(OSError, NotImplementedError):
                Path(importlib.util.cache_from_source(str(file))).unlink()
        for name in modules:
            del sys.modules[name]
        importlib.invalidate_caches()
        self._count = 0
        return Unloaded(modules)


class Unloaded:
    """The modules that were unloaded, to be put back if they cannot be imported anew."""

    def __init__(self, modules: Mapping[str, ModuleType]) -> None:
        self._modules = modules
        self._remember = unload(modules)

    def put_back(self, but: Collection[str] = ()) -> None:
        """Put back the modules that nobody has imported anew.

        Args:
            but: Modules that have gone for good.
        """
        missing = [name for name in self._modules if name not in sys.modules and name not in but]
        self._remember(missing)
        for name in missing:
            sys.modules[name] = self._modules[name]


def _file_of(module: ModuleType) -> Path | None:
    """Return the source file of a module, if the module's author can change it."""
    name = getattr(module, "__file__", None)
    return Path(name) if isinstance(name, str) and name.endswith(".py") and _is_own(name) else None


@cache
def _is_own(name: str) -> bool:
    path = Path(name)
    if not _PACKAGES.isdisjoint(path.parts):
        return False
    return not any(path.is_relative_to(folder) for folder in _libraries())


@cache
def _libraries() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple(paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib"))


logger = logging.getLogger(__name__)

_LOOK: Final = 0.1
"""Seconds between two looks at the files: somebody has saved one, and is waiting."""

_LOADING: Final = 60.0
"""Seconds that agents may take to be imported and built; large libraries take three, and are imported once."""

_STUCK: Final = 5.0
"""Seconds after which an import is given up once its files were saved again: the endless code may be repaired."""

_SHOWN: Final = 200
"""Characters that the names of tools may take in one line of the log."""

_IS_BRIDGE: Final = "it is a Bridge, which says itself what it publishes; expected agents"
_WITHOUT: Final = "serve it without reloading"


class _Publishes(Protocol):
    @property
    def sources(self) -> Sequence[Source]: ...

    async def add(self, target: Publishable, name: str | None = None) -> str: ...

    async def replace_agent(self, name: str, agent: Publishable, *, for_good: bool) -> None: ...

    async def remove(self, name: str) -> None: ...

    def unmet_offer(self) -> str: ...


class AgentReloader:
    """Loads agents, now and whenever one of their files changes. To be made before any agent is imported.

    Args:
        references: The references to agents to publish, as `find_agents` takes it.
    """

    def __init__(self, references: Sequence[str]) -> None:
        self._references = references
        self._modules = OwnModules()
        self._places = [place for reference in references if (place := place_of(reference)) is not None]
        self._broken = False
        self._running: dict[str, LoadedAgent] = {}
        self._watch = FileWatch(self._files, _LOOK, live=True)

    def first(self) -> list[LoadedAgent]:
        """Load the agents for the first time. A file that cannot be imported is waited for.

        Raises:
            AgentLoadError: A reference leads to nothing that could be repaired, or to a `Bridge`.
        """
        loaded, failures = self._load()
        if not loaded and failures and not self._places:
            raise failures[0]
        for place in self._places:
            if not place.exists():
                raise next(iter(failures), AgentLoadError(str(place), "there is no such file"))
        for agent in loaded:
            if is_bridge(agent.agent):
                raise _refusal(agent)
        self._broken = bool(failures)
        self._tell(failures, "waiting for the file to be mended")
        self._running = {agent.name: agent for agent in loaded}
        self._watch.follow()
        return loaded

    def left_out(self, name: str, error: BridgeError) -> None:
        """Note that an agent that was loaded could not be published.

        Args:
            name: Its name.
            error: Why.
        """
        self._running.pop(name, None)
        self._broken = True
        self._tell([error], "waiting for the file to be mended")

    async def watch(self, bridge: _Publishes, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Reload after every change of a file, until cancelled.

        Args:
            bridge: Where the agents are published.
            task_status: Started when the watching begins.
        """
        task_status.started()
        while True:
            await self._watch.until_saved()
            await self.reload(bridge)

    async def reload(self, bridge: _Publishes) -> bool:
        """Import the agents again, and publish them in the place of the running ones.

        Args:
            bridge: Where the agents are published.

        Returns:
            Whether all of them could be loaded; those that could not stay as they were, and the log says why.
        """
        began = time.perf_counter()
        changed = await anyio.to_thread.run_sync(self._take_changed)
        unloaded = self._modules.unload(changed)
        loaded, failures = await self._loaded()
        failures += [_refusal(agent) for agent in loaded if is_bridge(agent.agent)]
        loaded = [agent for agent in loaded if not is_bridge(agent.agent)]
        if failures:
            unloaded.put_back()
        before = _tools(bridge)
        failures += await self._publish(bridge, loaded, keep=bool(failures))
        self._broken = bool(failures)
        await anyio.to_thread.run_sync(self._watch.follow)
        self._tell(failures, "what is published stays")
        if problem := bridge.unmet_offer():
            logger.warning("--agent-tools, --ask: %s", problem)
        if loaded:
            names, took = ", ".join(sorted(self._running)), 1000 * (time.perf_counter() - began)
            logger.info("reloaded in %.0f ms: %s%s", took, names, _difference(before, _tools(bridge)))
        return not failures

    def _take_changed(self) -> frozenset[Path]:
        """Return the files that changed since they were read; they are about to be read again."""
        changed = self._watch.changed()
        self._watch.read()
        return changed

    async def _loaded(self) -> tuple[list[LoadedAgent], list[AgentLoadError | PublishError]]:
        """Import the agents in a thread, which is abandoned if it does not come to an end."""
        problem = f"it is not imported after {_LOADING:g} s"
        result: tuple[list[LoadedAgent], list[AgentLoadError | PublishError]] | None = None

        async def give_up_when_saved() -> None:
            nonlocal problem
            await anyio.sleep(_STUCK)
            await self._watch.until_saved()
            problem = "it was not imported yet when it was saved again"
            waiting.cancel_scope.cancel()

        with anyio.move_on_after(_LOADING):
            async with anyio.create_task_group() as waiting:
                waiting.start_soon(give_up_when_saved)
                result = await anyio.to_thread.run_sync(self._load, abandon_on_cancel=True)
                waiting.cancel_scope.cancel()
        if result is not None:
            return result
        return [], [AgentLoadError(reference, problem) for reference in self._references]

    async def _publish(
        self, bridge: _Publishes, loaded: Iterable[LoadedAgent], *, keep: bool
    ) -> list[AgentLoadError | PublishError]:
        """Publish the agents that were loaded, in the place of those that run.

        Args:
            bridge: Where the agents are published.
            loaded: The agents that were loaded.
            keep: Whether other running agents go on, because not everything could be loaded.

        Returns:
            The failures.
        """
        new = {agent.name: agent for agent in loaded}
        failures: list[AgentLoadError | PublishError] = []
        gone = {} if keep else {name: agent for name, agent in self._running.items() if name not in new}
        for name in gone:
            await self._remove(bridge, name)
        for name, agent in new.items():
            try:
                await self._put(bridge, name, agent)
            except (AgentLoadError, PublishError) as error:
                failures.append(error)
            else:
                self._running[name] = agent
        for name, agent in gone.items() if failures else ():  # what was to take their place cannot
            with suppress(AgentLoadError, PublishError):
                await self._put(bridge, name, agent)
                self._running[name] = agent
        return failures

    async def _put(self, bridge: _Publishes, name: str, agent: LoadedAgent) -> None:
        old = self._running.get(name)
        if old is not None and not is_mcp_server(old.agent) and not is_mcp_server(agent.agent):
            with suppress(PublishError):  # the old one broke while it ran, and is published no more
                return await bridge.replace_agent(name, agent.agent, for_good=True)
        if old is not None:
            await self._remove(bridge, name)
        await bridge.add(agent.agent, name)

    async def _remove(self, bridge: _Publishes, name: str) -> None:
        gone = self._running.pop(name).agent
        try:
            await bridge.remove(name)
        except PublishError:
            logger.debug("agent %s was gone already", name)
        if isinstance(gone, KnowsItsEnd):
            try:
                await anyio.to_thread.run_sync(gone.on_mcp_replaced)
            except Exception:
                logger.exception("%s: on_mcp_replaced failed", name)

    def _load(self) -> tuple[list[LoadedAgent], list[AgentLoadError | PublishError]]:
        references = find_agents(self._references)
        agents = [agent for entry in references for agent in entry.agents]
        return agents, [failure for entry in references for failure in entry.failures]

    def _files(self) -> Iterator[Path]:
        """Yield the files to watch: the agents' modules, the named files, and while one is broken the files beside."""
        own = self._modules.files
        yield from own
        folders = {file.parent for file in own} if self._broken else set[Path]()
        for place in self._places:
            if place.is_dir():
                folders.add(place)
            else:
                yield place
                if self._broken:
                    folders.add(place.parent)
        for folder in folders:
            yield folder
            yield from folder.glob("*.py")

    def _tell(self, failures: Iterable[BridgeError], consequence: str) -> None:
        for failure in failures:
            logger.error("%s: %s", consequence, failure)


def _refusal(agent: LoadedAgent) -> AgentLoadError:
    return AgentLoadError(agent.reference, _IS_BRIDGE, _WITHOUT)


def _tools(bridge: _Publishes) -> frozenset[str]:
    return frozenset(tool["name"] for source in bridge.sources for tool in source.features.tools)


def _difference(before: frozenset[str], after: frozenset[str]) -> str:
    """Return for people which tools came and went."""
    changes = (("new", after - before), ("gone", before - after))
    shown = [f"{what}: {one_line(', '.join(sorted(names)), _SHOWN)}" for what, names in changes if names]
    return "".join(f"; {text}" for text in shown)
