"""The shipped agents work on our base class, on amd-gaia's, and without either. Each case in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.workspaces import write_files

AMD_AGENT = '''
import abc


class Agent(abc.ABC):
    """The shape of amd-gaia 0.25's: many options, a model server unless told otherwise, abstract tool registration."""

    def __init__(self, use_claude=False, use_chatgpt=False, claude_model="", base_url=None, model_id=None,
                 max_steps=None, debug_prompts=False, show_prompts=False, output_dir=None, streaming=False,
                 show_stats=False, silent_mode=False, debug=False, output_handler=None, skip_lemonade=False):
        if not skip_lemonade:
            raise ConnectionError("no model server")
        assert silent_mode
        self.error_history = []
        self.console = self._create_console()
        self._register_tools()

    def _create_console(self):
        return "silent"

    @abc.abstractmethod
    def _register_tools(self):
        raise NotImplementedError


class MCPAgent(Agent):
    @abc.abstractmethod
    def get_mcp_tool_definitions(self): ...

    @abc.abstractmethod
    def execute_mcp_tool(self, tool_name, arguments): ...

    def get_mcp_prompts(self):
        return []

    def get_mcp_resources(self):
        return []

    def get_mcp_server_info(self):
        return {"name": f"GAIA {type(self).__name__}", "version": "2.0.0"}
'''

AMD_GAIA = {
    "gaia/__init__.py": "",
    "gaia/agents/__init__.py": "",
    "gaia/agents/base/__init__.py": "from gaia.agents.base.mcp_agent import MCPAgent\n",
    "gaia/agents/base/mcp_agent.py": AMD_AGENT,
}

WORK = """
import sys
from gaia_agents import CodeAgent, ProjectAgent

heard = []


class Publisher:
    def resource_updated(self, uri):
        heard.append(uri)


for agent in CodeAgent(), ProjectAgent():
    publisher = Publisher()
    agent.on_mcp_published(publisher)
    agent.notify_mcp_resource_updated("a://b")
    agent.on_mcp_unpublished(publisher)
    agent.notify_mcp_resource_updated("a://c")
    assert agent.get_mcp_prompts() and agent.get_mcp_resources()
    assert agent.get_mcp_server_info()["title"]
assert CodeAgent().execute_mcp_tool("read-file", {"path": "a.py"})["content"] == "x = 1\\n"
assert ProjectAgent().execute_mcp_tool("get-status", {})["repository"] is False
assert heard == ["a://b", "a://b"]
"""


def run(folder: Path, code: str, *search_path: Path) -> str:
    """Run a program in `folder`, with further folders in front of the import path."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, search_path))},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files(tmp_path, {"work/a.py": "x = 1\n"} | {f"amd/{name}": text for name, text in AMD_GAIA.items()})
    return tmp_path


def test_they_work_on_our_base_class(folder: Path) -> None:
    check = "from gaia.agents.base import MCPAgent, ApiAgent\nassert issubclass(CodeAgent, MCPAgent)\n"
    run(folder / "work", WORK + check)


def test_they_work_on_the_base_class_of_amd_gaia(folder: Path) -> None:
    check = (
        "from gaia.agents.base import MCPAgent\nassert MCPAgent.__init__.__code__.co_argcount > 10\n"
        "assert issubclass(CodeAgent, MCPAgent) and issubclass(ProjectAgent, MCPAgent)\n"
        "assert CodeAgent().console == 'silent'\n"
    )
    run(folder / "work", WORK + check, folder / "amd")


def test_they_work_without_any_base_class(folder: Path) -> None:
    write_files(folder, {"none/gaia/__init__.py": "raise ImportError('some dependency is missing')\n"})
    run(folder / "work", WORK, folder / "none")


def test_importing_them_does_not_import_the_protocol_or_the_network(folder: Path) -> None:
    heavy = ("anyio", "mcp", "starlette", "uvicorn", "httpx2")
    code = f"import sys, gaia_agents; gaia_agents.CodeAgent; print([n for n in {heavy} if n in sys.modules])"
    assert run(folder / "work", code) == "[]"


def test_importing_the_package_imports_no_agent(folder: Path) -> None:
    code = "import sys, gaia_agents; print('gaia' in sys.modules, gaia_agents.__all__)"
    assert run(folder / "work", code) == "False ['CodeAgent', 'ProjectAgent']"


def test_another_name_is_an_attribute_error(folder: Path) -> None:
    code = "import gaia_agents\ntry: gaia_agents.Nobody\nexcept AttributeError as error: print(error)"
    assert run(folder / "work", code) == "module 'gaia_agents' has no attribute 'Nobody'"
