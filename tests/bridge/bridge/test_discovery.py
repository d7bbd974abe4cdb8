"""What a reference leads to, and what a user is told where it leads nowhere. Real modules, files, folders, installs."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

import pytest

from gaia_bridge.bridge.discovery import (
    ENTRY_POINT_GROUP,
    LoadedAgent,
    find_agents,
    load_agent,
    search,
)
from gaia_bridge.bridge.discovery.classes import AGENT_METHODS, name_of_class
from gaia_bridge.contract import AgentLike
from gaia_bridge.errors import AgentLoadError
from gaia_bridge.protocol.names import is_source_name

AGENT = """
class {name}{bases}:
    def get_mcp_tool_definitions(self):
        return []

    def execute_mcp_tool(self, tool_name, arguments):
        return {{}}
"""


def agent_source(*names: str, bases: str = "") -> str:
    return "\n".join(AGENT.format(name=name, bases=bases) for name in names)


def write(path: Path, source: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    return path


def install(site: Path, distribution: str, agents: dict[str, str]) -> None:
    """Make `site` look as if pip had installed a distribution there."""
    info = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
    write(info / "METADATA", f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    lines = "\n".join(f"{name} = {value}" for name, value in agents.items())
    write(info / "entry_points.txt", f"[gaia.agents]\n{lines}\n")


def put_on_path(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])


def names(agents: list[LoadedAgent]) -> list[str]:
    return [agent.name for agent in agents]


def problem_of(reference: str) -> str:
    with pytest.raises(AgentLoadError) as caught:
        load_agent(reference)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"agent {reference!r}: ")
    return text


def is_installed(module: ModuleType) -> bool:
    return str(getattr(module, "__file__", None)).startswith((sys.prefix, sys.base_prefix))


@pytest.fixture(autouse=True)
def fresh_imports() -> Iterator[None]:
    """Each test imports as a new process would, and leaves nothing behind."""
    modules, path = dict(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - set(modules):
        if not is_installed(sys.modules[name]):  # libraries in another language are loaded once in a process
            del sys.modules[name]
    sys.path[:] = path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# What a reference leads to


def test_a_class_of_a_module_in_the_current_folder_is_built(folder: Path) -> None:
    write(folder / "shop.py", agent_source("StoreAgent", "OtherAgent"))
    (found,) = load_agent("shop:StoreAgent")
    assert (found.name, found.reference) == ("store", "shop:StoreAgent")
    assert type(found.agent).__name__ == "StoreAgent"
    assert isinstance(found.agent, AgentLike)


def test_an_instance_and_a_function_are_agents_too(folder: Path) -> None:
    write(folder / "made.py", agent_source("MadeAgent") + "ready = MadeAgent()\ndef make():\n    return MadeAgent()\n")
    (instance,) = load_agent("made:ready")
    assert instance.agent is sys.modules["made"].ready
    (made,) = load_agent("made:make")
    assert (made.name, made.reference) == ("made", "made:make")


def test_dots_reach_into_a_class(folder: Path) -> None:
    write(folder / "nest.py", "class Outer:\n" + textwrap.indent(agent_source("InnerAgent"), "    "))
    assert names(load_agent("nest:Outer.InnerAgent")) == ["inner"]


def test_a_module_without_a_class_means_every_class_that_it_defines(folder: Path) -> None:
    write(folder / "base.py", agent_source("BaseAgent"))
    write(
        folder / "many.py",
        f"from base import BaseAgent\n{agent_source('ZooAgent', 'AntAgent', '_Hidden')}\nAlias = ZooAgent",
    )
    assert names(load_agent("many")) == ["zoo", "ant"]


def test_a_package_offers_the_classes_of_its_own_modules(folder: Path) -> None:
    write(folder / "elsewhere.py", agent_source("ForeignAgent"))
    write(folder / "pack/__init__.py", "from elsewhere import ForeignAgent\nfrom pack.inner import InnerAgent\n")
    write(folder / "pack/inner.py", agent_source("InnerAgent"))
    assert names(load_agent("pack.inner")) == ["inner"]
    assert names(load_agent("pack")) == ["inner"]
    (found,) = load_agent(f"pack{os.sep}__init__.py")
    assert found.name == "inner"


def test_a_file_is_loaded_from_anywhere_and_finds_its_neighbours(folder: Path) -> None:
    write(folder / "far/neighbour.py", "GREETING = 'hello'\n")
    write(folder / "far/greeter.py", f"from neighbour import GREETING\n{agent_source('GreeterAgent')}")
    (found,) = load_agent("far/greeter.py")
    assert (found.name, found.reference) == ("greeter", "far/greeter.py:GreeterAgent")
    (named,) = load_agent(f"{folder}/far/greeter.py:GreeterAgent")
    assert type(named.agent) is type(found.agent), "one file is one module"


def test_a_relative_reference_starts_at_the_root_that_is_given(folder: Path) -> None:
    write(folder / "here/root_agent.py", agent_source("RootAgent"))
    assert names(load_agent("root_agent.py", root=folder / "here")) == ["root"]
    assert names(load_agent("root_agent:RootAgent", root=folder / "here")) == ["root"]


def test_two_files_of_one_name_are_two_modules(folder: Path) -> None:
    write(folder / "a/agent.py", agent_source("FirstAgent"))
    write(folder / "b/agent.py", agent_source("SecondAgent"))
    assert names(load_agent("a/agent.py")) + names(load_agent("b/agent.py")) == ["first", "second"]
    assert names(load_agent("b/agent.py")) == ["second"]


def test_a_file_named_like_a_standard_module_does_not_replace_it(folder: Path) -> None:
    write(folder / "tabnanny.py", agent_source("ColourAgent"))
    assert names(load_agent("tabnanny.py")) == ["colour"]
    assert "tabnanny" not in sys.modules


def test_a_file_in_a_package_is_imported_as_its_module(folder: Path) -> None:
    write(folder / "proj/kit/__init__.py", "")
    write(folder / "proj/kit/tools.py", "LIMIT = 3\n")
    write(folder / "proj/kit/worker.py", f"from .tools import LIMIT\n{agent_source('WorkerAgent')}")
    (found,) = load_agent("proj/kit/worker.py")
    assert type(found.agent).__module__ == "kit.worker"


def test_a_file_whose_package_name_is_taken_is_refused(folder: Path) -> None:
    write(folder / "one/twin/__init__.py", "")
    write(folder / "one/twin/agent.py", agent_source("OneAgent"))
    write(folder / "two/twin/__init__.py", "")
    write(folder / "two/twin/agent.py", agent_source("TwoAgent"))
    assert names(load_agent("one/twin/agent.py")) == ["one"]
    assert "'twin.agent'" in problem_of("two/twin/agent.py")


@pytest.mark.parametrize("reference", ["plugins", "plugins/", "./plugins"])
def test_a_folder_means_its_python_files_in_order(folder: Path, reference: str) -> None:
    write(folder / "plugins/zebra.py", agent_source("ZebraAgent"))
    write(folder / "plugins/apple.py", agent_source("AppleAgent"))
    write(folder / "plugins/_private.py", "raise RuntimeError('never imported')")
    write(folder / "plugins/deep/below.py", agent_source("BelowAgent"))
    assert names(load_agent(reference)) == ["apple", "zebra"]


def test_in_a_folder_a_broken_file_is_reported_and_the_others_load(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(folder / "plugins/broken.py", "import does_not_exist_anywhere\n")
    write(folder / "plugins/good.py", agent_source("GoodAgent"))
    write(folder / "plugins/plain.py", "VALUE = 1\n")
    caplog.set_level(logging.INFO)
    (found,) = find_agents(["plugins"])
    assert names(list(found.agents)) == ["good"]
    (failure,) = found.failures
    assert failure.reference == "plugins/broken.py"
    assert "does_not_exist_anywhere" in str(failure)
    assert "plugins/plain.py: skipped, it defines no agent" in caplog.text
    assert names(load_agent("plugins")) == ["good"]
    assert "left out: agent 'plugins/broken.py'" in caplog.text


def test_one_reference_that_fails_does_not_keep_the_others_from_loading(folder: Path) -> None:
    write(folder / "fine.py", agent_source("FineAgent"))
    wrong, right = find_agents(["nothing.py", "fine.py"])
    assert (wrong.agents, len(wrong.failures)) == ((), 1)
    assert (names(list(right.agents)), right.failures) == (["fine"], ())


# Installed agents


def test_an_installed_agent_has_the_name_that_it_was_installed_under(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "site/weather_pkg.py", agent_source("ForecastAgent"))
    install(folder / "site", "weather-agents", {"Wetter": "weather_pkg:ForecastAgent"})
    put_on_path(monkeypatch, folder / "site")
    (found,) = load_agent("Wetter")
    assert (found.name, found.reference) == ("wetter", "Wetter")


def test_an_installed_agent_is_not_imported_from_the_current_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Editors start the bridge in a folder that may come from a stranger."""
    write(folder / "site/inst_pkg.py", f"import inst_helper\n{agent_source('InstalledAgent')}")
    write(folder / "site/inst_helper.py", "")
    write(folder / "inst_helper.py", "raise RuntimeError('this folder is not trusted')")
    install(folder / "site", "inst-agents", {"inst": "inst_pkg:InstalledAgent"})
    put_on_path(monkeypatch, folder / "site")
    path = list(sys.path)
    assert names(load_agent("inst")) == ["inst"]
    assert sys.path == path


def test_two_installed_agents_of_one_name_are_not_guessed_between(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(folder / "one", "one-agents", {"twice": "one_pkg:A"})
    install(folder / "two", "two-agents", {"twice": "two_pkg:B"})
    put_on_path(monkeypatch, folder / "one")
    put_on_path(monkeypatch, folder / "two")
    assert "choose one of one_pkg:A, two_pkg:B" in problem_of("twice")


def shipped() -> list[LoadedAgent]:
    """The agents that are published where no reference is given."""
    return [agent for result in find_agents() for agent in result.agents]


def test_without_references_the_shipped_agents_are_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "gaia_agents.py", agent_source("CodeAgent", "ProjectAgent"))
    stand_in_for_the_shipped_agents(folder, monkeypatch)
    assert names(shipped()) == ["code", "project"]
    assert [agent.reference for agent in shipped()] == ["code", "project"]


def test_the_shipped_agents_are_found_where_no_entry_point_is_installed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "gaia_agents.py", agent_source("CodeAgent", "ProjectAgent"))
    stand_in_for_the_shipped_agents(folder, monkeypatch)

    def none_installed(**_: str) -> list[EntryPoint]:
        return []

    monkeypatch.setattr(search, "_entry_points", none_installed)
    assert names(shipped()) == ["code", "project"]


def test_a_shipped_agent_that_cannot_load_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "gaia_agents.py", agent_source("CodeAgent"))
    stand_in_for_the_shipped_agents(folder, monkeypatch)
    [_, project] = find_agents()
    assert re.search("'project'.*no attribute 'ProjectAgent'", str(project.failures[0]))


def test_the_entry_points_of_the_project_are_the_shipped_agents() -> None:
    declared = {
        entry.name: entry.value
        for entry in entry_points(group=ENTRY_POINT_GROUP)
        if entry.dist is not None and entry.dist.name == "gaia-mcp-bridge"
    }
    assert declared == {"code": "gaia_agents:CodeAgent", "project": "gaia_agents:ProjectAgent"}


def stand_in_for_the_shipped_agents(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "gaia_agents"]:
        monkeypatch.delitem(sys.modules, name)
    put_on_path(monkeypatch, folder)


# Building


def test_an_agent_that_has_a_silent_mode_is_built_silent(folder: Path) -> None:
    source = agent_source("QuietAgent", "OpenAgent", "PlainAgent")
    source = source.replace(
        "class QuietAgent:",
        "class QuietAgent:\n    def __init__(self, silent_mode=False):\n        self.seen = silent_mode\n",
    )
    source = source.replace(
        "class OpenAgent:", "class OpenAgent:\n    def __init__(self, **options):\n        self.seen = options\n"
    )
    write(folder / "modes.py", source)
    quiet, opened, plain = (found.agent for found in load_agent("modes"))
    assert vars(quiet) == {"seen": True}
    assert vars(opened) == {"seen": {"silent_mode": True}}
    assert vars(plain) == {}


def test_an_agent_whose_base_refuses_the_silent_mode_is_built_without(folder: Path) -> None:
    source = agent_source("MixinAgent")
    write(
        folder / "mix.py",
        source.replace(
            "class MixinAgent:",
            "class MixinAgent:\n    def __init__(self, **options):\n        super().__init__(**options)\n",
        ),
    )
    assert names(load_agent("mix")) == ["mixin"]


def test_a_class_with_methods_from_a_base_class_is_an_agent(folder: Path) -> None:
    """Structure decides, so that classes of AMD's own package can be published."""
    write(folder / "amd.py", agent_source("Base"))
    write(folder / "derived.py", "import amd\nclass SmallAgent(amd.Base):\n    pass\n")
    assert names(load_agent("derived.py")) == ["small"]


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        ("CodeAgent", "code"),
        ("MyHTTPAgent", "my-http"),
        ("HTTPServerAgent", "http-server"),
        ("OAuth2Client", "o-auth2-client"),
        ("My_Odd_Agent", "my-odd"),
        ("Agent", "agent"),
        ("ÜberAgent", "uber"),
        ("代理", "agent"),
        ("lowercase", "lowercase"),
        ("X" * 80, "x" * 64),
    ],
)
def test_a_class_gives_its_agent_a_name(cls: str, name: str) -> None:
    assert name_of_class(type(cls, (), {})) == name
    assert is_source_name(name)


def test_two_agents_of_one_name_are_told_apart(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for index in range(3):
        write(folder / f"f{index}.py", agent_source("CodeAgent"))
    long = "L" + "o" * 70
    write(folder / "long.py", agent_source(long))
    found = find_agents(["f0.py", "f1.py", "f2.py", "long.py", "long.py"])
    assert [agent.name for entry in found for agent in entry.agents] == [
        "code",
        "code-2",
        "code-3",
        "l" + "o" * 63,
        "l" + "o" * 61 + "-2",
    ]
    assert "'code' is there already, published as 'code-2'" in caplog.text


# What a user is told


def test_a_module_that_is_not_there_is_named(folder: Path) -> None:
    assert "there is no module 'nowhere'" in problem_of("nowhere:Agent")
    write(folder / "pack/__init__.py", "")
    assert "there is no module 'pack.missing'" in problem_of("pack.missing:Agent")


def test_a_module_that_misses_another_says_which_and_where(folder: Path) -> None:
    write(folder / "needs.py", "VALUE = 1\nimport not_installed_here.deep\n")
    text = problem_of("needs:Agent")
    assert "needs.py:2" in text
    assert "'not_installed_here'" in text
    assert "install it" in text


def test_a_name_close_to_an_installed_agent_is_suggested(folder: Path) -> None:
    assert "did you mean 'project'?" in problem_of("projct")


def test_a_missing_attribute_comes_with_the_closest_name(folder: Path) -> None:
    write(folder / "typo.py", agent_source("StoreAgent"))
    assert "module typo has no attribute 'StorAgent' (did you mean 'StoreAgent'?)" in problem_of("typo:StorAgent")
    assert "(it defines StoreAgent)" in problem_of("typo:zzz")
    assert "class StoreAgent has no attribute 'Inner'" in problem_of("typo:StoreAgent.Inner")


def test_an_abstract_class_names_what_is_missing(folder: Path) -> None:
    write(
        folder / "abstracted.py",
        """
        from abc import ABC, abstractmethod
        class Base(ABC):
            @abstractmethod
            def get_mcp_tool_definitions(self): ...
            @abstractmethod
            def execute_mcp_tool(self, tool_name, arguments): ...
        """,
    )
    expected = "Base is abstract: it does not implement execute_mcp_tool, get_mcp_tool_definitions"
    assert f"class {expected}" in problem_of("abstracted:Base")
    assert f"abstracted defines no agent class ({expected})" in problem_of("abstracted")


def test_something_that_is_no_agent_names_the_methods_it_lacks(folder: Path) -> None:
    write(
        folder / "wrong.py",
        """
        import json
        class Half:
            def execute_mcp_tool(self, tool_name, arguments): ...
        number = 3
        async def later(): return 3
        """,
    )
    assert "class Half is not an agent: it has no get_mcp_tool_definitions" in problem_of("wrong:Half")
    assert "int object is not an agent" in problem_of("wrong:number")
    assert "module json is not an agent" in problem_of("wrong:json")
    assert "int object is not an agent" in problem_of("wrong:later")
    assert "wrong.py defines no agent class" in problem_of("wrong.py")


@pytest.mark.requirement("F-368")
def test_a_file_with_mcp_servers_in_it_is_these_servers(folder: Path) -> None:
    write(
        folder / "my_tools.py",
        """
        from mcp.server.lowlevel import Server
        from mcp.server.mcpserver import MCPServer

        app = same = Server("Some tools")
        other = MCPServer()
        _private = MCPServer("hidden")
        """,
    )
    assert [(it.name, it.reference) for it in load_agent("my_tools.py")] == [
        ("some-tools", "my_tools.py:app"),
        ("mcp-server", "my_tools.py:other"),
    ]
    assert [it.name for it in load_agent("my_tools:app")] == ["some-tools"]


def test_a_file_of_decorated_functions_is_an_agent_of_its_name(folder: Path) -> None:
    write(
        folder / "plain_sums.py",
        """
        from gaia_bridge import prompt, tool

        @tool
        def add(a: int, b: int) -> int:
            return a + b

        @prompt
        def explain(number: int) -> str:
            return f"Explain {number}"
        """,
    )
    [loaded] = load_agent("plain_sums.py")
    assert (loaded.name, loaded.reference) == ("plain_sums", "plain_sums.py")
    assert isinstance(loaded.agent, AgentLike)
    assert [tool["name"] for tool in loaded.agent.get_mcp_tool_definitions()] == ["add"]
    [one] = load_agent("plain_sums.py:add")
    assert one.name == "add"


def test_decorated_functions_that_are_imported_belong_to_their_own_module(folder: Path) -> None:
    write(folder / "shared_sums.py", "from gaia_bridge import tool\n@tool\ndef add(a: int) -> int:\n    return a\n")
    write(folder / "user.py", "from shared_sums import add\n")
    assert "user.py defines no agent" in problem_of("user.py")


def test_two_decorated_functions_of_one_name_are_told_apart(folder: Path) -> None:
    write(
        folder / "twice.py",
        """
        from gaia_bridge import tool

        @tool(name="add")
        def first(a: int) -> int: ...

        @tool(name="add")
        def second(a: int) -> int: ...
        """,
    )
    expected = "tool 'add' is defined twice: by first (twice.py:4) and by second (twice.py:7)"
    assert expected in problem_of("twice.py")


@pytest.mark.requirement("F-368")
def test_a_file_that_needs_fastmcp_may_be_a_server(folder: Path) -> None:
    write(folder / "server.py", "import fastmcp.nothing_like_this")
    program = "publish it as a program: gaia-bridge add NAME -- PYTHON FILE"
    assert f"if this is an MCP server, {program}" in problem_of("server.py")
    write(folder / "older.py", "from mcp.server.fastmcp import FastMCP")
    assert problem_of("older.py").endswith(f"(its FastMCP is mcp.server.mcpserver.MCPServer there; or {program})")


def test_a_protocol_that_describes_agents_is_no_agent(folder: Path) -> None:
    write(folder / "shape.py", f"from typing import Protocol\n{agent_source('Shape', bases='(Protocol)')}")
    assert "defines no agent class" in problem_of("shape.py")


def test_an_agent_that_only_converses_is_one(folder: Path) -> None:
    write(folder / "talk.py", "from gaia.agents.base import Agent\n\nclass Talk(Agent):\n    pass\n")
    assert [agent.name for agent in load_agent("talk.py")] == ["talk"]


def test_a_module_with_an_instance_only_is_that_agent(folder: Path) -> None:
    write(
        folder / "kept.py",
        f"def make():\n{textwrap.indent(agent_source('K'), '    ')}\n    return K()\nready = make()\n",
    )
    assert [(agent.name, agent.reference) for agent in load_agent("kept.py")] == [("ready", "kept.py:ready")]


def test_a_folder_has_each_agent_once_whoever_builds_or_imports_it(folder: Path) -> None:
    server = "from mcp.server.mcpserver import MCPServer\nserver = MCPServer('sums')\n"
    write(folder / "all" / "a_server.py", server)
    write(folder / "all" / "b_class.py", agent_source("HelloAgent"))
    write(
        folder / "all" / "c_main.py",
        "from a_server import server\nfrom b_class import HelloAgent\nx = y = HelloAgent()\n",
    )
    assert [agent.name for agent in load_agent("all/")] == ["sums", "hello"]
    assert [agent.reference for agent in load_agent("all/c_main.py")] == ["all/c_main.py:x"]


def test_a_constructor_that_fails_says_where_in_the_agents_own_file(folder: Path) -> None:
    source = """
        import json
        class BrokenAgent:
            def __init__(self):
                json.loads("{")
            def get_mcp_tool_definitions(self): ...
            def execute_mcp_tool(self, tool_name, arguments): ...
        """
    write(folder / "broken.py", source)
    text = problem_of("broken:BrokenAgent")
    assert "building BrokenAgent raised JSONDecodeError at broken.py:5: Expecting property name" in text
    assert "json" + os.sep not in text


def test_the_cause_is_kept_for_the_debugger(folder: Path) -> None:
    write(folder / "caused.py", "raise LookupError('first\\nsecond\\x1b[31m')\n")
    with pytest.raises(AgentLoadError) as caught:
        load_agent("caused:X")
    assert isinstance(caught.value.__cause__, LookupError)
    assert "raised LookupError at caused.py:1: first second [31m" in str(caught.value)


def test_a_constructor_with_arguments_is_told_the_way_out(folder: Path) -> None:
    source = agent_source("NeedyAgent").replace(
        "class NeedyAgent:", "class NeedyAgent:\n    def __init__(self, model, *rest, key, silent_mode): ...\n"
    )
    write(folder / "needy.py", source)
    text = problem_of("needy:NeedyAgent")
    assert "the constructor of NeedyAgent needs arguments: model, key (name an instance, or a function" in text


@pytest.mark.requirement("F-101")
@pytest.mark.parametrize(
    "statement", ["raise SystemExit(3)", "raise KeyboardInterrupt", "raise GeneratorExit", "exit(0)"]
)
def test_an_agent_that_ends_the_program_while_it_loads_ends_only_itself(folder: Path, statement: str) -> None:
    write(folder / "ending.py", statement)
    write(folder / "plugins/ending.py", statement)
    write(folder / "plugins/going.py", agent_source("GoingAgent"))
    assert "importing it raised" in problem_of("ending.py")
    assert names(load_agent("plugins")) == ["going"]
    assert "ending" not in sys.modules


def test_a_syntax_error_is_located(folder: Path) -> None:
    write(folder / "odd.py", "x = 1\ndef (:\n")
    assert "syntax error in odd.py:2:" in problem_of("odd.py:Agent")
    assert "syntax error in odd.py:2:" in problem_of("odd:Agent")


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("missing.py", "there is no file missing.py"),
        ("missing/", "there is no folder missing"),
        ("some/agent.txt", "there is no folder some/agent.txt"),
        ("~no-such-user/x.py", "home directory"),
        ("", "neither module:Class, nor a file"),
        ("a b", "neither module:Class, nor a file"),
        (".relative:Agent", "neither module:Class, nor a file"),
        ("empty", "it has no .py files (`gaia-bridge new agent NAME` writes an agent"),
        ("plain", "there is no agent in any of its 1 .py files (`gaia-bridge new agent NAME`"),
        ("shp_agent.py", "there is no file shp_agent.py (did you mean 'shop_agent.py'?)"),
        ("shop", "there is no module 'shop' (did you mean 'shop_agent'?)"),
        ("notes.txt", "there is no module 'notes' (an agent's file ends in .py)"),
        ("json:", "'' is no name"),
        ("json:loads.", "'loads.' is no name"),
    ],
)
def test_a_reference_that_cannot_be_followed_says_why(folder: Path, reference: str, expected: str) -> None:
    (folder / "empty").mkdir()
    write(folder / "plain/x.py", "x = 1\n")
    write(folder / "shop_agent.py", "")
    write(folder / "notes.txt", "")
    assert expected in problem_of(reference)


SHOP = """from gaia.agents.base import MCPAgent, tool


class Shop(MCPAgent):
    @tool
    def price(self, article: str) -> float:
        return 1.5
"""


@pytest.mark.parametrize(
    ("written", "instead", "expected"),
    [
        ("import MCPAgent", "import McpAgent", "(did you mean 'MCPAgent'?)"),
        ("@tool", "@tol", "NameError at slip.py:5: name 'tol' is not defined (did you mean 'tool'?)"),
        ("@tool", "@tool('cost')", "write @tool directly above a def; a name is given as name='cost'"),
        ("@tool", "# @tool", "get_mcp_tool_definitions; decorate its methods with @tool, or implement these"),
        ("return 1.5", "retrn 1.5", "syntax error in slip.py:7: invalid syntax: retrn 1.5"),
        ("article:", "*article:", "write article: list[...] instead of *article, in Shop.price (slip.py:5)"),
        ("article: str", "article, /", "leave the '/' out, in Shop.price (slip.py:5)"),
        ("self, article", "article", "tool 'price' is a method without 'self', in Shop.price (slip.py:5)"),
        ("self, article: str", "article: 'str'", "tool 'price' is a method without 'self', in Shop.price (slip.py:5)"),
        ("self, article: str", "", "tool 'price' is a method without 'self', in Shop.price (slip.py:5)"),
        ("article: str", "article: MCPAgent", "schema for <class 'gaia.agents.base.mcp_agent.MCPAgent'> (annotate its"),
        ("    @tool", "    def __init__(self): ...\n    @tool", "Shop.__init__ (slip.py:5) does not call super()"),
    ],
    ids=[
        "import", "name", "positional name", "no decorator", "syntax", "varargs", "positional only",
        "no self", "no self, as text", "no parameter", "no JSON", "no super",
    ],
)  # fmt: skip
def test_a_slip_is_told_with_its_place_and_what_to_write(
    folder: Path, written: str, instead: str, expected: str
) -> None:
    write(folder / "slip.py", SHOP.replace(written, instead, 1))
    problem = problem_of("slip.py")
    assert expected in problem
    assert "gaia_bridge" not in problem and "/agents/base" not in problem


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("from gaia_bridge import MCPAgent", "(write: from gaia.agents.base import MCPAgent)"),
        ("from gaia import tool", "(write: from gaia.agents.base import tool)"),
        ("from gaia.agents import MCPAgent", "(write: from gaia.agents.base import MCPAgent)"),
        ("from gaia_bridge import MCPClientMixin", "(write: from gaia.mcp import MCPClientMixin)"),
        ("from gaia.agents.base import Bridge", "(write: from gaia_bridge import Bridge)"),
        ("import gaia_bridge; gaia_bridge.MCPAgent", "(write: from gaia.agents.base import MCPAgent)"),
        ("from gaia_bridge import RequestContex", "(did you mean 'RequestContext'?)"),
        ("import gaia_bridge; gaia_bridge.Bridg", "(did you mean 'Bridge'?)"),
        ("from gaia_bridge import bridg", "(did you mean 'bridge'?)"),
        ("from gaia_bridge.mcp import MCPClientMixin", "(write: from gaia.mcp import MCPClientMixin)"),
        ("from gaia_bridge.mcp import X", "which 'gaia_bridge' does not have (did you mean 'gaia_bridge'?)"),
        ("from gaia.agents.bas import agent", "(did you mean 'gaia.agents.base'?)"),
        ("import json.decode", "which 'json' does not have (did you mean 'json.decoder'?)"),
        ("from json import MCPAgent", "cannot import name 'MCPAgent' from 'json'"),
    ],
)
def test_a_name_of_ours_that_is_imported_from_a_wrong_package_is_led_to_its_place(
    folder: Path, line: str, expected: str
) -> None:
    write(folder / "wrong.py", line)
    assert problem_of("wrong.py").endswith(expected)


def test_an_attribute_that_raises_is_contained(folder: Path) -> None:
    write(folder / "lazy.py", "def __getattr__(name):\n    raise RuntimeError(f'no {name} today')\n")
    assert "looking up Agent raised RuntimeError at lazy.py:2: no Agent today" in problem_of("lazy:Agent")


def test_an_object_that_cannot_be_inspected_is_contained(folder: Path) -> None:
    write(
        folder / "proxy.py",
        """
        class Proxy:
            def __getattr__(self, name):
                raise RuntimeError("not bound")
        current = Proxy()
        """,
    )
    assert "proxy.py defines no agent class" in problem_of("proxy.py")
    assert "looking at it raised RuntimeError at proxy.py:4: not bound" in problem_of("proxy.py:current")


def test_an_error_whose_text_cannot_be_read_is_contained(folder: Path) -> None:
    write(
        folder / "mute.py",
        """
        class MuteError(Exception):
            def __str__(self):
                raise RuntimeError
        raise MuteError
        """,
    )
    assert "raised MuteError at mute.py:5: (its text cannot be read)" in problem_of("mute.py")


def test_the_methods_of_an_agent_are_those_of_the_contract() -> None:
    members = [name for name in vars(AgentLike) if not name.startswith("_")]
    assert sorted(AGENT_METHODS) == sorted(members)


def test_a_chat_model_is_an_agent_too(folder: Path) -> None:
    write(
        folder / "models.py",
        """
        class ChatAgent:
            def get_model_id(self): return "gaia-chat"
            def get_model_info(self): return {}
        class BothAgent(ChatAgent):
            def get_mcp_tool_definitions(self): return []
            def execute_mcp_tool(self, tool_name, arguments): ...
        class HalfAgent(ChatAgent):
            def get_mcp_tool_definitions(self): return []
        class NamedAgent:
            def get_model_id(self): return "gaia-named"
        """,
    )
    assert [agent.name for agent in load_agent("models.py")] == ["chat", "both"]
    assert "it has no execute_mcp_tool" in problem_of("models.py:HalfAgent")
    assert "it has no get_mcp_tool_definitions and no execute_mcp_tool" in problem_of("models.py:NamedAgent")


def test_discovery_imports_nothing_of_the_surface() -> None:
    """The core works without the agent-author package, and `--help` starts fast."""
    code = "import sys, gaia_bridge.bridge.discovery; print(sorted({'gaia', 'gaia_agents', 'mcp'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert result.stdout.strip() == "[]"
