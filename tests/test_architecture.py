"""Imports point down, without a cycle, and each outer library stays behind the modules that own it.

The tables below are the architecture; a new module needs a line in `LAYERS` before its first test passes.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate
from pathlib import Path

import pytest

from gaia_bridge.constants import BRIDGE_PACKAGES

ROOT = Path(__file__).parent.parent
SOURCE_ROOTS = ("bridge", "agents")
OUR_PACKAGES = (*BRIDGE_PACKAGES, "gaia", "gaia_agents")

LAYERS = {
    # facts
    "gaia_bridge.chat_types": 0,
    "gaia_bridge.constants": 0,
    "gaia_bridge.content": 1,
    "gaia_bridge.contract": 0,
    "gaia_bridge.errors": 0,
    "gaia_bridge.model": 0,
    "gaia_bridge.text": 0,
    "gaia_bridge.version": 0,
    # the protocol, and other pure functions
    "gaia_bridge.calls.cancellation": 1,
    "gaia_bridge.config": 1,
    "gaia_bridge.json_schema": 1,
    "gaia_bridge.sources.functions": 2,
    "gaia_bridge.sources.functions.marks": 1,
    "gaia_bridge.protocol": 1,
    "gaia_bridge.runtime.descriptors": 1,
    "gaia_bridge.runtime.event_loops": 1,
    "gaia_bridge.runtime.exceptions": 1,
    "gaia_bridge.runtime.forking": 1,
    "gaia_bridge.runtime.peer_credentials": 1,
    "gaia_bridge.runtime.unloading": 1,
    "gaia_bridge.settings": 1,
    "gaia_bridge.sources.skills": 1,
    "gaia_bridge.sources.agent.announcer": 1,
    "gaia_bridge.sources.agent.registry": 1,
    # threads, the loop, and calls in flight
    "gaia_bridge.calls": 2,
    "gaia_bridge.runtime": 2,
    # what is published, and how servers are reached
    "gaia_bridge.client": 3,
    "gaia_bridge.middleware": 3,
    "gaia_bridge.sources": 3,
    # finding and serving
    "gaia_bridge.bridge.chaining": 5,
    "gaia_bridge.sources.composition": 4,
    "gaia_bridge.bridge.discovery": 4,
    "gaia_bridge.server": 4,
    # joining
    "gaia_bridge.bridge": 6,
    # for programs that have the bridge inside of them
    "gaia_bridge.bridge.embedding": 7,
    "gaia_bridge.bridge.testing": 7,
    "gaia_bridge.testing": 7,
    "gaia_bridge": 7,
    "gaia_bridge.cli": 8,
    "gaia_bridge.__main__": 8,
    # the other packages of the bridge
    "gaia_bridge_doors": 9,
    "gaia_bridge_doors.openapi": 9,
    "gaia_bridge_doors.conversation": 9,
    "gaia_bridge_doors.openai_api": 10,
    "gaia_bridge_doors.acp": 10,
    "gaia_bridge_daemon": 11,
    "gaia_bridge_daemon.front": 1,
    "gaia_bridge_daemon.background": 11,
    "gaia_bridge_desk": 11,
    "gaia_bridge_desk.bundles": 12,
    "gaia_bridge_desk.client_code": 11,
    "gaia_bridge_desk.doctor": 12,
    "gaia_bridge_desk.editors": 11,
    "gaia_bridge_desk.projects": 12,
    "gaia_bridge_desk.review": 10,
    "gaia_bridge_desk.server_registry": 11,
    "gaia_bridge_cli": 13,
    # what an agent author imports
    "gaia.background_loop": 9,
    "gaia.environment": 9,
    "gaia.llm.dialects": 9,
    "gaia.llm.model": 9,
    "gaia.llm": 10,
    "gaia.llm.openapi_schema": 9,
    "gaia.llm.schema_merging": 9,
    "gaia.llm.schema_walk": 9,
    "gaia.llm.strict": 9,
    "gaia.agents.base.tool_schema": 10,
    "gaia.agents.base.tools": 11,
    "gaia.agents.base.tool_class": 11,
    "gaia.agents.base.console": 11,
    "gaia.agents.base.gaia_calls": 12,
    "gaia.agents.base.gaia_options": 11,
    "gaia.agents.chat": 12,
    "gaia.agents.base.agent": 13,
    "gaia.agents.base.api_agent": 14,
    "gaia.agents.base.mcp_agent": 14,
    "gaia.agents": 15,
    "gaia.agents.base": 15,
    "gaia.mcp": 16,
    "gaia": 17,
    "gaia.cli": 18,
    # the shipped agents
    "gaia_agents": 20,
}
"""The layer of each module, or of each package for all modules in it; the longest name wins. Imports go down or stay
level; `APART` says which of the same layer never see each other."""

ALONE = ("gaia_bridge", "gaia_bridge_daemon", "gaia_bridge_desk", "gaia_bridge_doors", "gaia")
"""Packages that are placed by themselves: each of their modules needs a line of its own."""

APART = (
    ("gaia_bridge.server", "gaia_bridge.client"),
    ("gaia_bridge.server", "gaia_bridge.sources.upstream"),
    ("gaia_bridge.sources.agent", "gaia_bridge.client"),
    ("gaia_bridge.sources.agent", "gaia_bridge.sources.upstream"),
)
"""Pairs that never import each other; they meet in `gaia_bridge.bridge`."""

USERS = {
    "gaia_bridge_doors": ("gaia_bridge_cli.*",),
    "gaia_bridge_daemon": ("gaia_bridge_cli.*", "gaia_bridge_desk.doctor.*"),
    "gaia_bridge_desk": ("gaia_bridge_cli.*",),
    "gaia_bridge_cli": ("gaia.cli",),
}
"""Who imports each package of the bridge, beside itself and `OPENED`. The core, `gaia_bridge`, is everybody's."""

OPENED = {
    ("gaia_bridge.bridge.bridge", "gaia_bridge_doors.conversation.models"): "the models of an open bridge",
    ("gaia_bridge.bridge.report", "gaia_bridge_doors.conversation.models"): "their type",
    ("gaia_bridge.bridge.served", "gaia_bridge_doors.conversation.models"): "their type",
    ("gaia_bridge.bridge.served", "gaia_bridge_doors.openai_api.app"): "their routes, for the first client that asks",
    ("gaia_bridge.cli", "gaia_bridge_cli"): "the name that installed programs have for the command line",
    ("gaia_bridge.client.transport_factory", "gaia_bridge_doors.openapi.transport"): "a server that is an HTTP API",
    ("gaia_bridge", "gaia_bridge_cli.serving.serve_function"): "`gaia_bridge.serve` is the command",
    ("gaia.agents.base.agent", "gaia_bridge_cli.serving.serve_function"): "the types of its options",
}
"""What lower packages import of higher ones: in a function, or for types, so that they are loaded without them."""

FACES = ("gaia_bridge", "gaia_bridge.__main__", "gaia")
"""What programs begin with: they lead everywhere, and nothing of the bridge imports them."""

IN_A_CIRCLE = {
    ("gaia.agents.base", "gaia.agents.chat"): "programs written for GAIA import all of `base` by these names",
}
"""Folders that import each other, each pair with its reason."""

FLAT_MODULES = 9
"""Modules beside the packages of `gaia_bridge`, at most: what is one subject has a folder."""

ROOMS = 12
"""Folders directly below `gaia_bridge`, at most."""

FILES = 25
"""Modules directly in one folder of `gaia_bridge`, at most."""

BRIDGE_FILES = 460
"""Of all packages in `bridge/`, at most."""

CRUMB = 60
"""Lines from which on a module may have a single reader; a smaller one is part of its reader."""

CHAIN = 10
"""Rooms of `gaia_bridge` that import one another in a row, at most."""

PURE = ("gaia_bridge.protocol", "gaia_bridge.text")
"""Do no input or output, and wait for nothing: what they say of a message is true wherever the message came from."""

IMPURE = ("anyio", "asyncio", "http", "pathlib", "selectors", "socket", "ssl", "starlette", "subprocess", "threading")
"""What they therefore never import."""

OWNERS = {
    "acp": ("gaia_bridge_doors.acp.*",),
    "asyncio": (
        "gaia_bridge_cli.servers.server_connection",  # sees that a start is being cancelled, which anyio does not tell
        "gaia.background_loop",
        "gaia.mcp.aio.*",
        "gaia.mcp.client.transports.detached_connection",
        "gaia_bridge_doors.acp.*",
        "gaia_bridge_daemon.background.*",
        "gaia_bridge.calls.*",
        "gaia_bridge.bridge.chaining.*",
        "gaia_bridge.client.*",
        "gaia_bridge_doors.conversation.*",
        "gaia_bridge.runtime.*",
        "gaia_bridge.server.*",
        "gaia_bridge.sources.*",
    ),
    "click": ("gaia_bridge_cli.*", "gaia.cli"),
    "cryptography": ("gaia_bridge.protocol.sealed_state",),
    "dotenv": ("gaia.environment", "gaia_bridge_cli.servers.outside_variables"),
    "filelock": ("gaia_bridge.config.file_editor", "gaia_bridge.client.oauth.store"),
    "httptools": ("gaia_bridge.server.http.connection", "gaia_bridge.client.transports.http.http1"),
    "docstring_parser": ("gaia_bridge.sources.functions.docstrings",),
    "httpx2": ("gaia_bridge.client.*", "gaia_bridge_doors.openapi.*"),
    "jiter": ("gaia_bridge.text.json_text",),
    "jsonschema_rs": ("gaia_bridge.json_schema.validation", "gaia_bridge.server.tool_search"),
    "mcp": (
        "gaia_bridge.bridge.*",
        "gaia_bridge.bridge.chaining.sdk_transport",
        "gaia_bridge.bridge.chaining.sdk_transport",
        "gaia_bridge.client.oauth.*",
        "gaia_bridge.server.sdk_server",
    ),
    "mcp_types": (
        "gaia_bridge.bridge.chaining.sdk_transport",
        "gaia_bridge.server.sdk_server",
    ),  # otherwise its models are the oracle of the tests
    "openai": ("gaia.llm.wire",),
    "opentelemetry": ("gaia_bridge.sources.upstream.crossing", "gaia_bridge.server.call_log"),
    "pydantic": (
        "gaia_bridge.sources.functions.pydantic_schemas",
        "gaia.agents.chat.tool_execution",
        "gaia_bridge_doors.acp.*",
        "gaia_bridge.client.oauth.*",
    ),
    "pytest": ("gaia_bridge.bridge.testing.plugin",),
    "rich": ("gaia.agents.base.console", "gaia_bridge_cli.servers.common"),
    "sqlite3": ("gaia.agents.chat.store", "gaia_bridge.server.tool_search"),
    "sse_starlette": (
        "gaia_bridge_doors.openai_api.turn_endpoint",
        "gaia_bridge.server.transports.http_exchange",
    ),
    "starlette": (
        "gaia_bridge_daemon.background.usage",
        "gaia_bridge.bridge.*",
        "gaia_bridge.server.http.*",
        "gaia_bridge_doors.openai_api.*",
        "gaia_bridge.server.transports.event_writer",
        "gaia_bridge.server.transports.http_exchange",
    ),
    "uvicorn": ("gaia_bridge.server.http.*",),
    "uvloop": (),  # anyio loads it
}
"""The only modules that may import each of these libraries, as patterns."""

PROVIDED_BY = {
    "acp": "agent_client_protocol",
    "dotenv": "python_dotenv",
    "mcp_types": "mcp",
    "pydantic_core": "pydantic",
    "opentelemetry": "opentelemetry_api",
    "yaml": "pyyaml",
}
"""Import names whose distribution is called otherwise."""

MODULE_LINES = 600
INIT_LINES = 60


@dataclass(frozen=True, slots=True)
class Module:
    """One source file."""

    name: str
    source: str
    is_package: bool = False


@dataclass(frozen=True, slots=True)
class Import:
    """One import statement's target, resolved to a module as far as we know the modules."""

    importer: str
    target: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.target}"


@cache
def our_modules() -> tuple[Module, ...]:
    found: list[Module] = []
    for root in SOURCE_ROOTS:
        for path in sorted((ROOT / root).rglob("*.py")):
            parts = path.relative_to(ROOT / root).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            found.append(Module(name, path.read_text("utf-8"), is_package))
    return tuple(found)


def imports(modules: Iterable[Module]) -> Sequence[Import]:
    """Every import, also inside functions and under `TYPE_CHECKING`, with relative ones made absolute."""
    return _imports(tuple(modules))


@cache
def _imports(modules: tuple[Module, ...]) -> tuple[Import, ...]:
    known = {module.name for module in modules}
    return tuple(found for module in modules for found in _imports_of(module, known))


@cache
def _statements(source: str) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Return the imports of a module, read once for all tests."""
    return tuple(_imports_below(ast.parse(source)))


def _imports_below(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):  # most nodes are expressions
            yield from _imports_below(child)


def _imports_of(module: Module, known: set[str], *, at_load: bool = False) -> Iterator[Import]:
    for node in _statements(module.source):
        if at_load and node.col_offset:  # inside of something
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module.name, alias.name, node.lineno)
        else:
            base = _absolute(module, node)
            for alias in node.names:
                submodule = f"{base}.{alias.name}"
                yield Import(module.name, submodule if submodule in known else base, node.lineno)


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    parents = parts[: len(parts) - node.level + module.is_package]
    return ".".join([*parents, node.module] if node.module else parents)


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def package_of(name: str) -> str:
    return name.split(".")[0]


def is_ours(name: str) -> bool:
    return package_of(name) in OUR_PACKAGES


def layer_of(name: str, layers: Mapping[str, int]) -> int | None:
    owners = [owner for owner in layers if name == owner or (owner not in ALONE and within(name, owner))]
    return layers[max(owners, key=len)] if owners else None


def unplaced(modules: Iterable[Module], layers: Mapping[str, int] = LAYERS) -> list[str]:
    return [f"{module.name} has no layer" for module in modules if layer_of(module.name, layers) is None]


def upward(modules: Iterable[Module]) -> list[str]:
    """Imports from a higher layer, or across two parts that are kept apart."""
    found: list[str] = []
    for item in imports(modules):
        if not is_ours(item.target) or (item.importer, item.target) in OPENED:
            continue
        importer, target = layer_of(item.importer, LAYERS), layer_of(item.target, LAYERS)
        if importer is not None and target is not None and target > importer:
            found.append(f"{item}: layer {importer} imports layer {target}")
        found.extend(
            f"{item}: {one} and {other} meet in gaia_bridge.bridge only"
            for one, other in [*APART, *(pair[::-1] for pair in APART)]
            if within(item.importer, one) and within(item.target, other)
        )
    return found


def impure(modules: Iterable[Module]) -> list[str]:
    """Imports by the protocol of what does input and output."""
    return [
        str(item)
        for item in imports(modules)
        if any(within(item.importer, name) for name in PURE) and any(within(item.target, name) for name in IMPURE)
    ]


def core_imports_surface(modules: Iterable[Module]) -> list[str]:
    """Imports of `gaia` or `gaia_agents` by the bridge, which must work without either."""
    return [
        str(item)
        for item in imports(modules)
        if package_of(item.importer) in BRIDGE_PACKAGES and package_of(item.target) in ("gaia", "gaia_agents")
    ]


def strangers(modules: Iterable[Module]) -> list[str]:
    """Imports of a package of the bridge by somebody who is not among its users."""
    return [
        str(item)
        for item in imports(modules)
        if (package := package_of(item.target)) in USERS
        and package != package_of(item.importer)
        and not any(fnmatchcase(item.importer, user) for user in USERS[package])
        and (item.importer, item.target) not in OPENED
    ]


def loaded_with_the_core(modules: Iterable[Module]) -> list[str]:
    """Imports of the packages around the core that happen when a module of the core is loaded."""
    return [
        str(item)
        for item in imports_at_load(modules)
        if package_of(item.importer) == "gaia_bridge" and package_of(item.target) in USERS
    ]


def imports_at_load(modules: Iterable[Module]) -> Sequence[Import]:
    """What a module imports as it is loaded, with the packages of it that are loaded first."""
    return _imports_at_load(tuple(modules))


@cache
def _imports_at_load(modules: tuple[Module, ...]) -> tuple[Import, ...]:
    known = {module.name for module in modules}
    found: list[Import] = []
    for module in modules:
        for item in _imports_of(module, known, at_load=True):
            above = known.intersection(accumulate(item.target.split("."), "{}.{}".format))
            found.extend(Import(item.importer, name, item.line) for name in above if not within(item.importer, name))
    return tuple(found)


def cycles(modules: Iterable[Module]) -> list[str]:
    """Import cycles: of all imports, and of those at load, where any module can be the first that a program imports."""
    modules = tuple(modules)
    return [found for items in (imports(modules), imports_at_load(modules)) for found in _cycle(modules, items)]


def _cycle(modules: Iterable[Module], items: Iterable[Import]) -> Iterator[str]:
    graph: dict[str, set[str]] = {module.name: set() for module in modules}
    for item in items:
        if item.target in graph and item.target != item.importer:
            graph[item.importer].add(item.target)
    yield from _circle(graph)


def _circle(graph: Mapping[str, set[str]]) -> Iterator[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield " -> ".join(reversed(error.args[1]))


def place_of(name: str, depth: int) -> str:
    """The folder that a module is in, so many names deep; the module itself where it lies above that."""
    return ".".join(name.split(".")[:depth])


def room_of(name: str) -> str:
    """The folder or module that a module of the bridge is in, directly below its package."""
    return place_of(name, 2)


def circles(modules: Iterable[Module], depth: int) -> list[str]:
    """A circle of our folders that import one another, other than by a door that the core opens.

    Args:
        modules: All of them.
        depth: How many names a folder has: 1 for packages, 2 for rooms, more for the folders in them. A module that
            lies beside such folders is a place of its own.
    """
    graph: dict[str, set[str]] = {}
    for item in imports(modules):
        if item.importer in FACES or not is_ours(item.target) or (item.importer, item.target) in OPENED:
            continue
        importer, target = place_of(item.importer, depth), place_of(item.target, depth)
        if importer != target and not {(importer, target), (target, importer)} & IN_A_CIRCLE.keys():
            graph.setdefault(importer, set()).add(target)
    return list(_circle(graph))


def longest_chain(modules: Iterable[Module]) -> list[str]:
    """The most rooms of the core in a row of which each imports the next; rooms import one another in no circle."""
    modules = tuple(modules)
    rooms = {room_of(module.name) for module in modules if module.is_package or module.name.count(".") > 1}
    graph: dict[str, set[str]] = {room: set() for room in rooms if within(room, "gaia_bridge") and room not in FACES}
    for item in imports(modules):
        importer, target = room_of(item.importer), room_of(item.target)
        if importer != target and importer in graph and target in graph:
            graph[importer].add(target)
    chains: dict[str, list[str]] = {}
    for room in TopologicalSorter(graph).static_order():
        chains[room] = [room, *max((chains[target] for target in graph[room]), key=len, default=())]
    return max(chains.values(), key=len)


def files_in_folders(modules: Iterable[Module]) -> dict[str, int]:
    """How many modules of the core are directly in each of its folders, `__init__` among them."""
    folders = [module.name if module.is_package else module.name.rpartition(".")[0] for module in modules]
    return {name: folders.count(name) for name in set(folders) if within(name, "gaia_bridge")}


def misplaced_libraries(modules: Iterable[Module]) -> list[str]:
    found: list[str] = []
    for item in imports(modules):
        owners = OWNERS.get(item.target.split(".")[0])
        if owners is not None and not any(fnmatchcase(item.importer, owner) for owner in owners):
            found.append(f"{item}, which belongs to {', '.join(owners)}")
    return found


DATACLASSES = ("gaia.mcp.client.mcp_tool", "gaia.mcp.toolset.mcp_config", "gaia_agents.*")
"""Where dataclasses are left: what programs written for GAIA make, and agents as people write them."""


def dataclasses_in(modules: Iterable[Module]) -> list[str]:
    """Dataclasses where structs should be: each costs every start half a millisecond."""
    found = [item for item in imports(modules) if item.target == "dataclasses"]
    return [str(item) for item in found if not any(fnmatchcase(item.importer, name) for name in DATACLASSES)]


def undeclared(modules: Iterable[Module], dependencies: Iterable[str]) -> list[str]:
    """Imports of libraries that the project does not declare and gets by luck only."""
    declared = {name.lower().replace("-", "_") for name in dependencies}
    found: list[str] = []
    for item in imports(modules):
        top = item.target.split(".")[0]
        if top not in sys.stdlib_module_names and not is_ours(top) and PROVIDED_BY.get(top, top) not in declared:
            found.append(f"{item}, which pyproject.toml does not name")
    return found


def crumbs(modules: Iterable[Module]) -> list[str]:
    """Small modules that one other module imports, and loads whenever it is loaded itself."""
    given = tuple(modules)
    readers: dict[str, set[str]] = {module.name: set() for module in given}
    for item in imports(given):
        readers.get(item.target, set()).add(item.importer)
    packages = {module.name for module in given if module.is_package}
    at_load = {(item.importer, item.target) for item in imports_at_load(given)}
    return [
        f"{module.name} is used by {reader} alone"
        for module in given
        if not module.is_package and module.source.count("\n") < CRUMB and len(readers[module.name]) == 1
        for reader in readers[module.name] - packages
        if (reader, module.name) in at_load
    ]


_PUBLIC_CLASS = re.compile(r"^class ([^\W_]\w*)", re.MULTILINE)


def namesakes(modules: Iterable[Module]) -> list[str]:
    """Classes of the bridge that have one name in several modules; private ones are only read beside their module."""
    places: dict[str, list[Module]] = {}
    for module in modules:
        for name in _PUBLIC_CLASS.findall(module.source) if package_of(module.name) in BRIDGE_PACKAGES else ():
            places.setdefault(name, []).append(module)
    # Those alone are parsed: all of them take seconds.
    shared = {
        name: [module.name for module in where if _defines(module, name)] for name, where in places.items() if where[1:]
    }
    return [f"{name} is in {' and in '.join(where)}" for name, where in shared.items() if len(where) > 1]


def _defines(module: Module, name: str) -> bool:
    return any(isinstance(node, ast.ClassDef) and node.name == name for node in ast.parse(module.source).body)


def too_long(modules: Iterable[Module]) -> list[str]:
    found: list[str] = []
    for module in modules:
        lines, limit = module.source.count("\n"), INIT_LINES if module.is_package else MODULE_LINES
        if lines > limit:
            found.append(f"{module.name} has {lines} lines, the limit is {limit}")
    return found


def declared_dependencies() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lists = [project["dependencies"], *project.get("optional-dependencies", {}).values()]
    return [requirement_name(line) for lines in lists for line in lines]


def requirement_name(line: str) -> str:
    """The distribution's name in a dependency line such as `uvloop>=0.21; sys_platform != 'win32'`."""
    return line[: next((index for index, char in enumerate(line) if not (char.isalnum() or char in "-_.")), len(line))]


def test_the_source_roots_hold_our_packages_and_are_none_themselves() -> None:
    assert {module.name.split(".")[0] for module in our_modules()} == set(OUR_PACKAGES)
    assert not [root for root in SOURCE_ROOTS if (ROOT / root / "__init__.py").exists()]


def test_every_module_has_a_layer() -> None:
    assert unplaced(our_modules()) == []


def test_every_layer_has_a_module() -> None:
    names = {module.name for module in our_modules()}
    assert {package for package in LAYERS if package not in names} == set()


def test_imports_point_down() -> None:
    assert upward(our_modules()) == []


def test_the_protocol_does_no_input_and_no_output() -> None:
    assert impure(our_modules()) == []


def test_the_core_never_imports_the_agent_author_surface() -> None:
    assert core_imports_surface(our_modules()) == []


def test_each_package_of_the_bridge_is_imported_by_its_users_alone() -> None:
    assert strangers(our_modules()) == []


def test_the_core_is_loaded_without_the_packages_around_it() -> None:
    assert loaded_with_the_core(our_modules()) == []


def test_every_user_and_every_door_is_one() -> None:
    found = {(item.importer, item.target) for item in imports(our_modules())}
    assert OPENED.keys() - found == set()
    assert [
        (package, user)
        for package, users in USERS.items()
        for user in users
        if not any(within(target, package) and fnmatchcase(importer, user) for importer, target in found)
    ] == []


def test_there_is_no_import_cycle() -> None:
    assert cycles(our_modules()) == []


def test_no_folders_of_any_depth_import_one_another_in_a_circle() -> None:
    modules = our_modules()
    depths = range(1, max(module.name.count(".") for module in modules) + 1)
    assert [circle for depth in depths for circle in circles(modules, depth)] == []


def test_every_pair_of_folders_in_a_circle_is_one() -> None:
    depth = 3
    pairs = {(place_of(item.importer, depth), place_of(item.target, depth)) for item in imports(our_modules())}
    assert [pair for pair in IN_A_CIRCLE if not {pair, pair[::-1]} <= pairs] == []


@pytest.mark.parametrize(("one", "other", "depth"), [("config", "sources", 2), ("server.http", "server.transports", 3)])
def test_a_circle_of_folders_is_found_though_no_module_is_in_one(one: str, other: str, depth: int) -> None:
    there = Module(f"gaia_bridge.{one}.entries", f"import gaia_bridge.{other}.limits")
    back = Module(f"gaia_bridge.{other}.relay", f"import gaia_bridge.{one}.paths")
    others = [Module(f"gaia_bridge.{one}.paths", ""), Module(f"gaia_bridge.{other}.limits", "")]
    assert cycles([there, back, *others]) == []
    assert len(circles([there, back, *others], depth)) == 1
    assert circles([there, *others], depth) == []


def test_nothing_of_ours_imports_what_programs_begin_with() -> None:
    found = [item for item in imports(our_modules()) if package_of(item.importer) in BRIDGE_PACKAGES]
    assert [str(item) for item in found if item.target in FACES] == []


def test_each_library_stays_with_the_modules_that_own_it() -> None:
    assert misplaced_libraries(our_modules()) == []


def test_facts_are_structs() -> None:
    assert dataclasses_in(our_modules()) == []


def test_a_dataclass_is_found() -> None:
    wrong = "from dataclasses import dataclass"
    assert dataclasses_in([Module("gaia_bridge.errors", wrong)]) == ["gaia_bridge.errors:1 imports dataclasses"]
    assert dataclasses_in([Module("gaia_agents.git", wrong), Module("gaia.mcp.client.mcp_tool", wrong)]) == []


def test_every_owner_imports_what_it_owns() -> None:
    found = [(item.target.split(".")[0], item.importer) for item in imports(our_modules())]
    assert [
        f"{owner} does not import {library}"
        for library, owners in OWNERS.items()
        for owner in owners
        if not any(library == target and fnmatchcase(importer, owner) for target, importer in found)
    ] == []


def flat_modules(modules: Iterable[Module]) -> list[str]:
    """The modules of the core that lie beside its packages."""
    names = [module.name.split(".") for module in modules if not module.is_package]
    return [name[1] for name in names if len(name) == 2 and name[0] == "gaia_bridge" and name[1] != "__main__"]


def test_what_is_one_subject_has_a_folder() -> None:
    assert len(flat_modules(our_modules())) <= FLAT_MODULES, flat_modules(our_modules())


def test_the_core_has_few_rooms_and_no_folder_is_crowded() -> None:
    folders = files_in_folders(our_modules())
    assert len([name for name in folders if name.count(".") == 1]) <= ROOMS
    assert {name: count for name, count in folders.items() if count > FILES} == {}


def test_rooms_import_one_another_in_a_short_row() -> None:
    assert len(chain := longest_chain(our_modules())) <= CHAIN, chain


def test_rooms_in_a_row_and_files_in_a_folder_are_counted() -> None:
    sources = {"a": "import gaia_bridge.b.x", "b": "import gaia_bridge.c.x", "c": "", "d": "import gaia_bridge.c.x"}
    modules = [Module(f"gaia_bridge.{name}.x", source) for name, source in sources.items()]
    assert longest_chain(modules) == ["gaia_bridge.a", "gaia_bridge.b", "gaia_bridge.c"]
    assert files_in_folders([*modules, Module("gaia_bridge.a", "", is_package=True)])["gaia_bridge.a"] == 2


def test_a_module_beside_the_packages_is_counted() -> None:
    modules = [Module("gaia_bridge.a", ""), Module("gaia_bridge.b", "", is_package=True), Module("gaia_bridge.b.c", "")]
    assert flat_modules(modules) == ["a"]


def test_every_imported_library_is_declared() -> None:
    assert undeclared(our_modules(), declared_dependencies()) == []


def test_a_small_module_that_one_other_uses_is_part_of_it() -> None:
    of_agents_or_documented = ("gaia.", "gaia_bridge.cli ")
    assert [crumb for crumb in crumbs(our_modules()) if not crumb.startswith(of_agents_or_documented)] == []


def test_a_small_module_with_one_user_is_found() -> None:
    small, line = Module("gaia_bridge.a.small", ""), "from gaia_bridge.a.small import x"
    reader = Module("gaia_bridge.a.reader", line)
    assert crumbs([small, reader]) == ["gaia_bridge.a.small is used by gaia_bridge.a.reader alone"]
    assert crumbs([small, Module("gaia_bridge.a.reader", f"def late():\n    {line}")]) == []
    assert crumbs([small, reader, Module("gaia_bridge.a.other", line)]) == []
    assert crumbs([Module("gaia_bridge.a.small", "\n" * CRUMB), reader]) == []
    assert crumbs([small, Module("gaia_bridge.a", line, is_package=True)]) == []


def test_the_bridge_has_few_files() -> None:
    assert len([module for module in our_modules() if module.name.startswith("gaia_bridge")]) <= BRIDGE_FILES


def test_no_two_classes_of_the_bridge_share_a_name() -> None:
    assert namesakes(our_modules()) == []


def test_classes_that_share_a_name_are_found() -> None:
    one, other = (
        Module("gaia_bridge.a", "class Call: ..."),
        Module("gaia_bridge_cli.b", "class Call: ...\nclass _A: ..."),
    )
    assert namesakes([one, other]) == ["Call is in gaia_bridge.a and in gaia_bridge_cli.b"]
    assert (
        namesakes([other, Module("gaia_agents.c", "class Call: ..."), Module("gaia_bridge.d", "class _A: ...")]) == []
    )


def test_modules_stay_short() -> None:
    assert too_long(our_modules()) == []


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        ("gaia_bridge.errors", "from gaia_bridge.runtime.agent_runner import run"),
        ("gaia_bridge.errors", "import gaia_bridge.runtime.agent_runner"),
        ("gaia_bridge.errors", "from . import runtime"),
        ("gaia_bridge.errors", "def late():\n    from gaia_bridge.runtime.agent_runner import run"),
        ("gaia_bridge.errors", "if TYPE_CHECKING:\n    from gaia_bridge.runtime.agent_runner import run"),
        ("gaia_bridge.server.catalog", "from gaia_bridge import Bridge"),
        ("gaia_bridge.server.catalog", "from gaia_bridge.sources.upstream.source import Upstream"),
        ("gaia_bridge.sources.agent.source", "from gaia_bridge.server.call import Call"),
        ("gaia_bridge.sources.agent.source", "from gaia_bridge.client.connection import Connection"),
        ("gaia_bridge.protocol.messages", "from gaia_bridge.runtime.agent_runner import AgentRunner"),
        ("gaia_bridge.server.dispatcher", "from gaia_bridge.sources.upstream.source import Upstream"),
        ("gaia.agents.base.tools", "from gaia.agents.base.agent import Agent"),
        ("gaia.agents.base.agent", "import gaia"),
        ("gaia.agents.base.agent", "import gaia_agents.code"),
    ],
)
def test_an_import_that_points_up_is_found(importer: str, source: str) -> None:
    others = [Module("gaia_bridge.runtime.agent_runner", ""), Module("gaia_bridge", "", is_package=True)]
    assert len(upward([Module(importer, source), *others])) == 1


def test_an_import_that_points_down_is_no_breach() -> None:
    assert upward([Module("gaia_bridge.runtime.agent_runner", "from gaia_bridge.errors import BridgeError")]) == []
    assert upward([Module("gaia.agents.base.agent", "from gaia_bridge import get_request_context")]) == []


def test_a_protocol_that_does_input_or_output_is_found() -> None:
    assert len(impure([Module("gaia_bridge.protocol.messages", "from asyncio import sleep\nimport http.client")])) == 2
    assert len(impure([Module("gaia_bridge.text.json_text", "import pathlib")])) == 1
    assert impure([Module("gaia_bridge.protocol.messages", "import json")]) == []
    assert impure([Module("gaia_bridge.runtime.event_loops", "import ssl")]) == []


def test_a_module_without_a_layer_is_found() -> None:
    assert unplaced([Module("gaia_bridge.novelty", "")]) == ["gaia_bridge.novelty has no layer"]


def test_an_import_of_a_package_by_a_stranger_is_found() -> None:
    modules = [Module("gaia_bridge_desk.doctor.files", ""), Module("gaia_bridge_desk.editors.jsonc", "")]
    wrong = "import gaia_bridge_desk.doctor.files"
    for importer in ("gaia_bridge.server.catalog", "gaia_bridge_daemon.front.place", "gaia.agents.base.agent"):
        assert len(strangers([Module(importer, wrong), *modules])) == 1
    assert strangers([Module("gaia_bridge_cli.doctor", wrong), *modules]) == []
    assert strangers([Module("gaia_bridge_desk.editors.finding", wrong), *modules]) == []


def test_an_import_that_loads_what_is_around_the_core_is_found() -> None:
    modules = [Module("gaia_bridge_doors.openapi.transport", "")]
    line = "from gaia_bridge_doors.openapi.transport import OpenApiTransport"
    assert len(loaded_with_the_core([Module("gaia_bridge.client.transport_factory", line), *modules])) == 1
    inside = f"def late():\n    {line}"
    assert loaded_with_the_core([Module("gaia_bridge.client.transport_factory", inside), *modules]) == []


@pytest.mark.parametrize("target", ["gaia", "gaia.agents.base", "gaia_agents"])
def test_a_core_that_imports_the_surface_is_found(target: str) -> None:
    assert len(core_imports_surface([Module("gaia_bridge_cli", f"import {target}")])) == 1
    assert core_imports_surface([Module("gaia_bridge_cli", "import gaia_bridge.bridge")]) == []


def test_a_cycle_is_found() -> None:
    loop = [
        Module("gaia_bridge.model", "import gaia_bridge.errors"),
        Module("gaia_bridge.errors", "from . import model"),
    ]
    assert cycles(loop)[0].count("gaia_bridge.model") >= 1
    assert cycles(loop[:1]) == []


def test_a_cycle_through_a_package_that_loads_its_modules_is_found() -> None:
    loop = [
        Module("gaia.agents.base", "from gaia.agents.base.agent import Agent", is_package=True),
        Module("gaia.agents.base.agent", "from gaia.agents.chat.limits import ChatLimits"),
        Module("gaia.agents.base.console", ""),
        Module("gaia.agents.chat.limits", "from gaia.agents.base.console import Console"),
    ]
    assert cycles(loop)[0].count("gaia.agents.chat.limits") >= 1
    assert cycles(loop[1:]) == []


def test_a_library_in_the_wrong_module_is_found() -> None:
    assert len(misplaced_libraries([Module("gaia_bridge.errors", "from starlette.routing import Route")])) == 1
    assert misplaced_libraries([Module("gaia_bridge.server.http.guard", "from starlette.routing import Route")]) == []


def test_a_library_that_is_not_declared_is_found() -> None:
    modules = [Module("gaia_bridge_cli", "import requests, json\nfrom sse_starlette.sse import EventSourceResponse")]
    assert undeclared(modules, ["sse-starlette"]) == [
        "gaia_bridge_cli:1 imports requests, which pyproject.toml does not name"
    ]


def test_a_long_module_is_found() -> None:
    assert len(too_long([Module("a", "\n" * (MODULE_LINES + 1)), Module("b", "\n" * MODULE_LINES)])) == 1
    assert len(too_long([Module("a", "\n" * (INIT_LINES + 1), is_package=True)])) == 1


def test_dependency_names_are_read_from_their_lines() -> None:
    lines = ["uvloop>=0.21; sys_platform != 'win32'", "sse-starlette", "mcp[cli]>=2.3,<2.4"]
    assert [requirement_name(line) for line in lines] == ["uvloop", "sse-starlette", "mcp"]


ENDLESS = {
    "gaia_bridge_cli.background:_end": "ends at its deadline, and sleeps between two looks",
    "gaia_bridge.runtime.lent_loop:_result": "ends at its deadline, and each round waits for the result",
    "gaia_bridge.protocol.names:fitting_names": "a hash of a hash: each round costs one of the taken names",
    "gaia_bridge.runtime.agent_runner:_run": "runs the event loop of an agent, on a thread of its own, until its end",
    "gaia.agents.chat.turn_stream:next": "takes what is in a buffer of bounded size, and stops where it would wait",
}
"""Loops of synchronous code that have no end of their own, as module:function, each with what bounds it."""

_BLOCKING = {"get", "wait", "wait_for", "recv", "read", "readline", "select", "accept", "poll"}
"""Methods that wait for somebody else: a loop around one holds its own thread, which is what it is for."""

_UNBOUNDED = {"count", "cycle", "repeat"}

_ANY_LOOP = re.compile(rf"\bwhile\b|\b(?:{'|'.join(_UNBOUNDED)})\(")


def endless_loops(modules: Iterable[Module]) -> list[str]:
    """Loops of synchronous code that nothing in them can end, and iterations over what has no end."""
    found: list[str] = []
    for module in modules:
        if not _ANY_LOOP.search(module.source):  # most modules, and to parse all of them takes seconds
            continue
        for function in ast.walk(ast.parse(module.source)):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                place = f"{module.name}:{function.name}"
                found += [f"{place}: {ast.unparse(loop).splitlines()[0]}" for loop in _endless_in(function)]
    return found


def _endless_in(function: ast.AST) -> Iterator[ast.AST]:
    for node in _own_nodes(function):
        if isinstance(node, ast.While) and not _waits(node) and not _can_change(node):
            yield node
        elif isinstance(node, (ast.For, ast.comprehension)) and _has_no_end(node.iter):
            yield node.iter


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield child
            yield from _own_nodes(child)


def _waits(loop: ast.While) -> bool:
    inner = [node for statement in loop.body for node in ast.walk(statement)]
    calls = [node.func for node in [*inner, *ast.walk(loop.test)] if isinstance(node, ast.Call)]
    return any(
        isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)) for node in [*inner, *ast.walk(loop.test)]
    ) or any(isinstance(called, ast.Attribute) and called.attr in _BLOCKING for called in calls)


def _can_change(loop: ast.While) -> bool:
    """Whether the condition is about something that the body touches."""
    asked = {ast.unparse(node) for node in ast.walk(loop.test) if isinstance(node, (ast.Name, ast.Attribute))}
    if any(isinstance(node, ast.NamedExpr) for node in ast.walk(loop.test)):
        return True
    touched: set[str] = set()
    for node in (node for statement in loop.body for node in ast.walk(statement)):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            touched.add(ast.unparse(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            touched.add(ast.unparse(node.func.value))
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Del):
            touched.add(ast.unparse(node.value))
    return bool(asked & touched)


def _has_no_end(iterated: ast.expr) -> bool:
    if not isinstance(iterated, ast.Call):
        return False
    name = ast.unparse(iterated.func).rpartition(".")[2]
    return name in _UNBOUNDED and not (name == "repeat" and len(iterated.args) > 1)


@pytest.mark.requirement("F-205")
def test_no_loop_of_ours_is_unbounded() -> None:
    found = endless_loops(our_modules())
    assert [loop for loop in found if loop.split(": ")[0] not in ENDLESS] == []
    assert {loop.split(": ")[0] for loop in found} == set(ENDLESS), "what is gone needs no reason any more"


@pytest.mark.parametrize(
    ("body", "is_endless"),
    [
        ("while True: x = 1", True),
        ("while alive: work()", True),
        ("for n in itertools.count(): use(n)", True),
        ("return next(n for n in count(2) if n not in known)", True),
        ("while waiting: waiting.pop()", False),
        ("while n < 5: n += 1", False),
        ("while line := read(): use(line)", False),
        ("while True: queue.get()", False),
        ("for n in itertools.repeat(1, 5): use(n)", False),
        ("for n in range(5): use(n)", False),
    ],
)
def test_what_counts_as_unbounded(body: str, is_endless: bool) -> None:
    source = f"def f(self, waiting, n):\n    {body}\n"
    assert bool(endless_loops([Module("m", source)])) == is_endless


def test_waiting_coroutines_are_not_unbounded() -> None:
    assert endless_loops([Module("m", "async def f():\n    while True:\n        await once()\n")]) == []


_ROW = re.compile(r"\b(?:S[0-4]?|[CFP])-\d+[a-z]?\b|\bdocument 00\d|\bdesign section\b")
"""A row of the manifest, or a text that is not in the repository."""


def test_the_code_says_its_rules_itself_and_not_by_their_numbers() -> None:
    """Which row a rule comes from is said by the tests' marks, in one place: `tests/requirements.py`."""
    assert [
        f"{module.name}:{number}: {line.strip()}"
        for module in our_modules()
        for number, line in enumerate(module.source.splitlines(), 1)
        if _ROW.search(line)
    ] == []
