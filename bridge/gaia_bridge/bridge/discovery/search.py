"""Follow a reference to agents. The package's description lists the kinds of references."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import logging
import os
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.bridge.discovery.classes import (
    AGENT_METHODS,
    MODEL_METHODS,
    abstract_methods,
    agent_classes,
    construct,
    is_bridge,
    is_built_agent,
    is_mcp_server,
    kind_of,
    missing_methods,
    name_of,
    no_agent_made,
    own_classes,
    public_names,
    required_arguments,
)
from gaia_bridge.bridge.discovery.imports import (
    describe_fault,
    import_single_file,
    is_about,
    put_first_on_path,
    short_path,
    split_package,
)
from gaia_bridge.config import current_folder
from gaia_bridge.constants import SHIPPED_AGENTS, WINDOW_AGENTS
from gaia_bridge.contract import Publishable
from gaia_bridge.errors import AgentLoadError
from gaia_bridge.protocol.names import MAX_NAME, clean_name
from gaia_bridge.runtime.own_loop import FactoryTimeoutError, OwnLoop
from gaia_bridge.settings import AgentLimits
from gaia_bridge.sources.agent.parts import parts_of
from gaia_bridge.sources.functions.collection import ModuleFunctions, has_decorated_members
from gaia_bridge.sources.functions.marks import is_marked
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.likeness import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

ENTRY_POINT_GROUP = "gaia.agents"
"""The group of entry points by which a distribution announces its agents."""

_FILE_REFERENCE = re.compile(r"(?P<path>.+\.py)(?::(?P<attribute>.*))?", re.DOTALL)
_MISSING = object()
_LIMITS = AgentLimits()

logger = logging.getLogger(__name__)
T = TypeVar("T")


class LoadedAgent(Struct, frozen=True):
    """An agent that is ready to be published."""

    name: str
    """The name that it is published under: `[a-z0-9][a-z0-9_.-]{0,63}`."""
    agent: Publishable
    reference: str
    """Its precise origin: `path/file.py:Class`, `module:Class`, or the installed name."""


class SearchResult(Struct, frozen=True):
    """The result of one reference: at least one agent or one failure, and both where only a part could be loaded."""

    reference: str
    agents: tuple[LoadedAgent, ...] = ()
    failures: tuple[AgentLoadError, ...] = ()


def find_agents(
    references: Iterable[str] = (),
    *,
    root: Path | None = None,
    limits: AgentLimits = _LIMITS,
    in_windows: bool = False,
) -> list[SearchResult]:
    """Load every agent that the references lead to. One that fails does not keep the others from loading.

    Args:
        references: See the package's description. None at all means the agents that ship with the bridge.
        root: The folder of relative references; the current folder if not given.
        limits: How long an `async` factory may take.
        in_windows: Whether those that ship work in the folders of the windows that ask, not in the current one.

    Returns:
        One entry for each reference, in order. No two agents in it have the same name.

    Raises:
        ConfigError: The current folder is gone.
    """
    folder = root.absolute() if root else current_folder()
    shipped = WINDOW_AGENTS if in_windows else SHIPPED_AGENTS
    searches = [
        _ShippedSearch(name, folder, shipped[name]) if in_windows and name in shipped else _Search(name, folder, limits)
        for name in references
    ] or [_ShippedSearch(name, folder, place) for name, place in shipped.items()]
    taken: set[str] = set()
    return [
        replace(result, agents=tuple(_with_unique_name(agent, taken) for agent in result.agents))
        for result in (search.find() for search in searches)
    ]


def load_agent(reference: str, *, root: Path | None = None, limits: AgentLimits = _LIMITS) -> list[LoadedAgent]:
    """Load the agents that one reference leads to, at least one; the log lists those that could not be loaded.

    The arguments are as for `find_agents`.

    Raises:
        AgentLoadError: It leads to no agent at all. Its cause is the exception of the agent's own code.
    """
    [result] = find_agents([reference], root=root, limits=limits)
    if not result.agents:
        raise result.failures[0]
    for failure in result.failures:
        logger.warning("left out: %s", failure)
    return list(result.agents)


def place_of(reference: str) -> Path | None:
    """Return the file or folder that a reference names, which may be missing; `None` for modules and installed agents.

    Raises:
        AgentLoadError: It names the folder of a user that does not exist.
        ConfigError: The current folder is gone.
    """
    search = _Search(reference, current_folder())
    if match := _FILE_REFERENCE.fullmatch(reference):
        return search.path(match["path"])
    if _is_folder(reference):
        return search.path(reference)
    is_name = not reference or ":" in reference or not os.path.isdir(search.path(reference))
    return None if is_name or search.installed(reference) else search.path(reference)


def lasting_reference(reference: str, *, root: Path | None = None) -> str:
    """Return a reference that leads to the same agents from every folder: files and folders by their whole paths.

    No code of an agent runs. Installed agents and modules keep their names; a module of the folder becomes its file.

    Args:
        reference: See the package's description.
        root: The folder of relative references; the current folder if not given.

    Raises:
        AgentLoadError: It leads nowhere.
        ConfigError: The current folder is gone.
    """
    return _Search(reference, root.absolute() if root else current_folder()).lasting()


def _entry_points(group: str, **query: Any) -> EntryPoints:
    """Return the entry points of a group; `importlib.metadata` is slow to load, and files need none of it."""
    from importlib import metadata

    return metadata.entry_points(group=group, **query)


class _Search:
    """The search for the agents of one reference."""

    takes_instances = True
    """Whether agents that a module has built already are published, if the module defines no class of its own."""

    def __init__(self, reference: str, root: Path, limits: AgentLimits = _LIMITS) -> None:
        self.reference = reference
        self.root = root
        self.limits = limits
        self.agents: list[LoadedAgent] = []
        self.failures: list[AgentLoadError] = []

    def find(self) -> SearchResult:
        try:
            self.follow()
        except AgentLoadError as error:
            self.failures.append(error)
        return SearchResult(self.reference, tuple(self.agents), tuple(self.failures))

    def follow(self) -> None:
        """Decide the kind of the reference, and load its agents."""
        reference = self.reference
        self.check_is_no_address()
        if match := _FILE_REFERENCE.fullmatch(reference):
            self.load_file(self.path(match["path"]), match["attribute"])
        elif _is_folder(reference):
            self.load_folder(self.path(reference))
        elif ":" in reference:
            module, _, attribute = reference.partition(":")
            self.load_module(module, attribute)
        elif entry := self.installed(reference):
            self.load_entry_point(entry)
        elif reference and os.path.isdir(self.path(reference)):
            self.load_folder(self.path(reference))
        else:
            self.load_module(reference, None)

    def lasting(self) -> str:
        reference = self.reference
        self.check_is_no_address()
        if match := _FILE_REFERENCE.fullmatch(reference):
            self.check_file(path := self.path(match["path"]))
            return os.path.normpath(path) + ("" if match["attribute"] is None else f":{match['attribute']}")
        module, colon, attribute = reference.partition(":")
        if not _is_folder(reference) and (reference in SHIPPED_AGENTS or (not colon and self.installed(reference))):
            return reference
        if _is_folder(reference) or (reference and os.path.isdir(self.path(reference))):
            self.check_folder(folder := self.path(reference))
            return os.path.normpath(folder)
        self.check_module_name(module)
        place = self.root.joinpath(*module.split("."))
        if file := next(filter(os.path.isfile, (place / "__init__.py", place.with_suffix(".py"))), None):
            return f"{file}{colon}{attribute}"
        if importlib.util.find_spec(package := module.partition(".")[0]) is None:
            raise self.error(f"there is no module {package!r}", self.hint_for_module())
        return reference

    def check_is_no_address(self) -> None:
        if "://" in self.reference:
            raise self.error(
                "it is an address, not an agent", f"gaia-bridge add NAME {shlex.quote(self.reference)} adds a server"
            )

    def path(self, text: str) -> Path:
        try:
            return self.root / Path(text).expanduser()
        except RuntimeError as error:  # ~nobody
            raise self.error(str(error)) from error

    def load_file(self, path: Path, attribute: str | None) -> None:
        self.check_file(path)
        self.load_from(self.import_file(path.resolve()), short_path(path), attribute)

    def check_file(self, path: Path) -> None:
        if not os.path.isfile(path):
            raise self.error(f"there is no file {short_path(path)}", did_you_mean(path.name, _files_beside(path)))

    def check_folder(self, folder: Path) -> None:
        if not os.path.isdir(folder):
            raise self.error(f"there is no folder {short_path(folder)}", "an agent's file ends in .py")

    def load_folder(self, folder: Path) -> None:
        self.check_folder(folder)
        files = [path for path in sorted(folder.glob("*.py")) if not path.name.startswith("_") and path.is_file()]
        for file in files:
            result = _FileInFolder(short_path(file), self.root, file.resolve()).find()
            loaded = {id(each.agent) for each in self.agents}
            # A server object that another file imports is one and the same.
            self.agents.extend(new for new in result.agents if id(new.agent) not in loaded)
            self.failures.extend(result.failures)
        if not self.agents and not self.failures:
            problem = f"there is no agent in any of its {len(files)} .py files" if files else "it has no .py files"
            raise self.error(problem, "`gaia-bridge new agent NAME` writes an agent into the current folder")

    def check_module_name(self, name: str) -> None:
        if not all(part.isidentifier() for part in name.split(".")):
            raise self.error("it is neither module:Class, nor a file, a folder or an installed agent")

    def load_module(self, name: str, attribute: str | None) -> None:
        self.check_module_name(name)
        put_first_on_path(self.root)
        self.load_from(self.import_module(name), name, attribute)

    def load_entry_point(self, entry: EntryPoint) -> None:
        module = self.import_module(entry.module)
        self.add(self.attribute(module, entry.attr), entry.name, clean_name(entry.name))

    def load_from(self, module: ModuleType, place: str, attribute: str | None) -> None:
        """Load one attribute of a module, or all its agent classes."""
        if attribute is not None:
            self.add(self.attribute(module, attribute), f"{place}:{attribute}")
            return
        self.load_all(module, place)
        if not self.agents and not self.failures:
            raise self.error(f"{place} defines no agent class", _hint_without_classes(module, place))

    def load_all(self, module: ModuleType, place: str) -> None:
        """Load the bridges of a module; else its agent classes, its agents, its servers, or its decorated functions."""
        if names := self.names_of(module, is_bridge):
            self.add_named(module, place, names)
        elif classes := self.contain("looking through it", lambda: agent_classes(module)):
            self.load_classes(classes, place)
        elif self.takes_instances and (names := self.names_of(module, is_built_agent)):
            self.add_named(module, place, names)
        elif servers := self.names_of(module, is_mcp_server):
            for name in servers:
                self.add(vars(module)[name], f"{place}:{name}")
        elif self.contain("looking through it", lambda: has_decorated_members(module)):
            self.add(self.contain("reading its functions", lambda: ModuleFunctions(module)), place)

    def names_of(self, module: ModuleType, is_wanted: Callable[[object], bool]) -> list[str]:
        return self.contain("looking through it", lambda: public_names(module, is_wanted))

    def add_named(self, module: ModuleType, place: str, names: list[str]) -> None:
        for name in names:
            self.add(vars(module)[name], f"{place}:{name}", clean_name(name))

    def load_classes(self, classes: list[type], place: str) -> None:
        for cls in classes:
            try:
                self.add(cls, f"{place}:{cls.__qualname__}")
            except AgentLoadError as error:
                self.failures.append(error)

    def add(self, target: Any, reference: str, name: str | None = None) -> None:
        """Keep the agent that `target` is, or builds."""
        agent = self.build(target)
        self.agents.append(LoadedAgent(name or name_of(agent), agent, reference))

    def build(self, target: Any) -> Publishable:
        if inspect.isclass(target):
            agent: Any = self.build_class(target)
        elif is_marked(target):
            agent = self.contain("reading it", lambda: ModuleFunctions(target))
        elif callable(target) and self.missing(target):
            agent = self.made_by(target)
        else:
            agent = target
        self.check_methods(agent)
        if not (is_mcp_server(agent) or is_bridge(agent)):
            self.contain("reading it", lambda: parts_of(agent))
        return agent

    def made_by(self, factory: Callable[[], Any]) -> Any:
        """Return the result of a factory; a coroutine runs on the event loop that the agent will run on."""
        made = self.contain("calling it", factory)
        name = getattr(factory, "__qualname__", type(factory).__qualname__)
        if inspect.isawaitable(made) and self.missing(made):
            made = self.awaited(made, name)
        if problem := no_agent_made(made):
            raise self.error(f"{name}() returned {problem[0]}", problem[1])
        return made

    def awaited(self, coming: Awaitable[Any], name: str) -> Any:
        loop, seconds = OwnLoop(name), self.limits.factory_timeout
        try:
            made = loop.run(coming, seconds, self.limits.farewell)
        except FactoryTimeoutError:
            problem = f"{name}() has not returned within {seconds:g} s"
            raise self.error(problem, "it may connect to something later, when a tool first needs it") from None
        except BaseException as error:  # noqa: B036 - the boundary: see the package's description
            raise self.failure("awaiting it", error) from error
        if is_marked(function := made):
            made = self.contain("reading it", lambda: ModuleFunctions(function))
        if not no_agent_made(made) and not self.missing(made) and not is_bridge(made) and not loop.keep_with(made):
            problem = f"{kind_of(made)} takes no attributes, so that it cannot be known which event loop it was made on"
            raise self.error(problem, "make it in a function that is not async, or give its class no __slots__")
        return made

    def build_class(self, cls: type) -> object:
        self.check_methods(cls)
        if abstract_methods(cls):
            raise self.error(f"class {_abstract(cls)}")
        if arguments := required_arguments(cls):
            problem = f"the constructor of {cls.__qualname__} needs arguments: {', '.join(arguments)}"
            raise self.error(problem, "name an instance, or a function without arguments that makes one")
        return self.contain(f"building {cls.__qualname__}", lambda: construct(cls))

    def check_methods(self, target: object) -> None:
        if inspect.iscoroutine(target):
            target.close()
        if missing := self.missing(target):
            raise self.error(f"{kind_of(target)} is not an agent: it has no {' and no '.join(missing)}")

    def missing(self, target: object) -> list[str]:
        return self.contain("looking at it", lambda: missing_methods(target))

    def attribute(self, module: ModuleType, dotted: str) -> object:
        """Look up `Class` or `Outer.Inner`."""
        if not all(part.isidentifier() for part in dotted.split(".")):
            raise self.error(f"{dotted!r} is no name", "write module:Class or file.py:Class")
        value: object = module
        for part in dotted.split("."):
            owner, value = value, self.contain(f"looking up {part}", partial(getattr, value, part, _MISSING))
            if value is _MISSING:
                raise self.error(f"{kind_of(owner)} has no attribute {part!r}", _hint_for_attribute(owner, part))
        return value

    def import_module(self, name: str) -> ModuleType:
        importlib.invalidate_caches()
        try:
            return importlib.import_module(name)
        except BaseException as error:  # noqa: B036 - the boundary: see the package's description
            if isinstance(error, ModuleNotFoundError) and is_about(error, name):
                raise self.error(f"there is no module {error.name!r}", self.hint_for_module()) from error
            raise self.failure("importing it", error) from error

    def import_file(self, path: Path) -> ModuleType:
        """Import a file: as the module that it is where it lies in a package, else by itself."""
        folder, name = split_package(path)
        put_first_on_path(folder)
        if folder == path.parent:
            return self.contain("importing it", lambda: import_single_file(path))
        module = self.import_module(name)
        if module.__file__ is None or not os.path.samefile(module.__file__, path):
            problem = f"it imports as {module.__name__!r}, and that is already {module.__file__}"
            raise self.error(problem, "give its package another name")
        return module

    def installed(self, name: str) -> EntryPoint | None:
        """Return the installed agent of that name, if there is one."""
        offered = {entry.value: entry for entry in _entry_points(group=ENTRY_POINT_GROUP, name=name)}
        if len(offered) > 1:
            raise self.error("several installed agents have this name", f"choose one of {', '.join(sorted(offered))}")
        return next(iter(offered.values()), None)

    def hint_for_module(self) -> str:
        if os.path.isfile(self.path(self.reference)):
            return "an agent's file ends in .py"
        files = (file.removesuffix(".py") for file in _files_beside(self.root / self.reference))
        names = (*_entry_points(group=ENTRY_POINT_GROUP).names, *files)
        return did_you_mean(self.reference, names) or f"looked in {self.root}, then where Python looks"

    def contain(self, doing: str, call: Callable[[], T]) -> T:
        """Run code of the agent's author, whose exceptions become an `AgentLoadError`."""
        try:
            return call()
        except BaseException as error:  # noqa: B036 - the boundary: see the package's description
            raise self.failure(doing, error) from error

    def failure(self, doing: str, error: BaseException) -> AgentLoadError:
        return self.error(*describe_fault(doing, error))

    def error(self, problem: str, hint: str = "") -> AgentLoadError:
        return AgentLoadError(self.reference, one_line(problem), one_line(hint))


class _ShippedSearch(_Search):
    """The search for an agent that ships with the bridge, also where its entry point is not installed."""

    def __init__(self, reference: str, root: Path, place: str) -> None:
        super().__init__(reference, root)
        self.place = place

    def follow(self) -> None:
        module, _, attribute = self.place.partition(":")
        self.add(self.attribute(self.import_module(module), attribute), self.reference, self.reference)


class _FileInFolder(_Search):
    """The search in one file of a folder, where it is no error to have no agent.

    An agent that such a file builds is mostly of a class of another file, which is published by itself.
    """

    takes_instances = False

    def __init__(self, reference: str, root: Path, file: Path) -> None:
        super().__init__(reference, root)  # which calls no factory
        self.file = file

    def follow(self) -> None:
        self.load_all(self.import_file(self.file), self.reference)
        if not self.agents and not self.failures:
            logger.info("%s: skipped, it defines no agent", self.reference)


def _is_folder(reference: str) -> bool:
    return os.sep in reference or reference in {".", ".."} or reference.startswith("~")


def _files_beside(path: Path) -> list[str]:
    """Return the names of the Python files in the folder of a path."""
    return sorted(file.name for file in path.parent.glob("*.py"))


def _abstract(cls: type) -> str:
    """Return why a class cannot be built."""
    methods = abstract_methods(cls)
    text = f"{cls.__qualname__} is abstract: it does not implement {', '.join(methods)}"
    inherits = {*methods} == {*AGENT_METHODS} and vars(cls).keys().isdisjoint(methods)
    return f"{text}; decorate its methods with @tool, or implement these" if inherits else text


def _hint_without_classes(module: ModuleType, place: str) -> str:
    if abstract := next(own_classes(module), None):
        return _abstract(abstract)
    expected = ", or ".join(" and ".join(methods) for methods in (AGENT_METHODS, MODEL_METHODS))
    return (
        f"decorate a function or a method with @tool (from gaia_bridge), or write a class with the methods {expected}"
    )


def _hint_for_attribute(owner: object, name: str) -> str:
    if hint := did_you_mean(name, [public for public in dir(owner) if not public.startswith("_")]):
        return hint
    classes = [cls.__name__ for cls in agent_classes(owner)] if isinstance(owner, ModuleType) else []
    return f"it defines {', '.join(classes)}" if classes else ""


def _with_unique_name(agent: LoadedAgent, taken: set[str]) -> LoadedAgent:
    name, number = agent.name, 1
    while name in taken:
        number += 1
        name = f"{agent.name[: MAX_NAME - len(str(number)) - 1]}-{number}"
    taken.add(name)
    if number == 1:
        return agent
    logger.warning("%s: an agent named %r is there already, published as %r", agent.reference, agent.name, name)
    return replace(agent, name=name)
