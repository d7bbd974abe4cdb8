"""No shipped agent writes what runs by itself, nor reads what is secret, whatever the place is called."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from gaia_agents.code_agent import CodeAgent
from gaia_agents.project_agent import ProjectAgent
from gaia_agents.protection import HARMLESS_HIDDEN, KEPT_SECRET, RUN_BY_THEMSELVES
from gaia_agents.workspace import MAX_PARTS, PathError, open_workspace
from gaia_bridge.errors import ConfigError, ToolError
from tests.support.workspaces import call, git, repository, write_files

DOCUMENT = Path(__file__).parents[2] / "docs" / "shipped-agents.md"
LIMIT = 1_000


class Publisher:
    """Publishes nothing; tells an agent which files its bridge loads."""

    def __init__(self, files: Collection[Path]) -> None:
        self.files = files

    def tools_changed(self) -> None: ...

    def prompts_changed(self) -> None: ...

    def resources_changed(self) -> None: ...

    def own_files(self) -> Collection[Path]:
        return self.files

    def resource_updated(self, uri: str) -> None: ...


def published(root: Path, *own: Path) -> CodeAgent:
    agent = CodeAgent(root)
    agent.on_mcp_published(Publisher(own))
    return agent


def refuses(agent: CodeAgent, path: str, reason: str) -> None:
    """Nothing is changed, and the client is told why and who may."""
    with pytest.raises(ToolError, match=f"{reason}.*; change it yourself"):
        call(agent, "create-file", path=path, content="changed", overwrite=True)


@pytest.mark.requirement("F-260", "C-17")
def test_a_file_that_the_bridge_loads_is_not_written_by_any_of_its_names(tmp_path: Path) -> None:
    write_files(tmp_path, {"conf/servers.json": "{}", "run.sh": "exit", "free.json": "{}"})
    (tmp_path / "link.json").symlink_to("conf/servers.json")
    (tmp_path / "hard.json").hardlink_to(tmp_path / "conf/servers.json")
    (tmp_path / "folder").symlink_to("conf")
    (tmp_path / "named.json").symlink_to("free.json")
    own = (tmp_path / "conf/servers.json", tmp_path / "absent.json", tmp_path / "run.sh", tmp_path / "named.json")
    agent = published(tmp_path, *own)
    for path in ("conf/servers.json", "link.json", "hard.json", "folder/servers.json", "absent.json", "run.sh"):
        refuses(agent, path, "this bridge itself loads or starts")
    refuses(agent, "free.json", "this bridge itself loads or starts")  # what it loads by another name
    assert call(agent, "create-file", path="conf/other.json", content="{}")["created"]
    assert (tmp_path / "conf/servers.json").read_text("utf-8") == "{}"
    assert not (tmp_path / "absent.json").exists()


@pytest.mark.requirement("F-260")
def test_what_the_bridge_loads_is_asked_for_at_each_write(tmp_path: Path) -> None:
    agent, publisher = CodeAgent(tmp_path), Publisher(())
    agent.on_mcp_published(publisher)
    assert call(agent, "create-file", path="a.json", content="{}")["created"]
    publisher.files = (tmp_path / "a.json",)
    refuses(agent, "a.json", "this bridge")


@pytest.mark.requirement("F-260", "C-17")
@pytest.mark.parametrize(
    "path",
    [f"{name}/x" for name in (".vscode", ".cursor", ".idea", ".zed", ".husky", ".githooks", ".devcontainer", ".venv")]
    + [".env", ".env.local", "sub/.envrc", "sub/.mcp.json", ".pre-commit-config.yaml", ".gitattributes", ".bashrc"]
    + ["MCP.json", "sub/mcp_servers.json", "a.code-workspace", "sub/lefthook.yml", "mise.toml", "x.pth"]
    + ["node_modules/a/index.js", "venv/lib/python3.11/site-packages/a.py", "venv/pyvenv.cfg", "sitecustomize.py"],
)
def test_what_runs_by_itself_is_not_written(tmp_path: Path, path: str) -> None:
    refuses(CodeAgent(tmp_path), path, "start")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.requirement("F-260")
@pytest.mark.parametrize("path", ["conftest.py", "tests/conftest.py", "package.json", "Makefile", "servers.json"])
def test_what_a_person_starts_is_written(tmp_path: Path, path: str) -> None:
    assert call(CodeAgent(tmp_path), "create-file", path=path, content="")["created"]


@pytest.mark.requirement("F-260")
def test_a_list_of_servers_that_another_bridge_may_use_is_not_replaced(tmp_path: Path) -> None:
    write_files(tmp_path, {"team.json": '{"mcpServers": {}}', "data.json": '{"servers": {}}'})
    refuses(CodeAgent(tmp_path), "team.json", "lists MCP servers")
    assert not call(CodeAgent(tmp_path), "create-file", path="data.json", content="{}", overwrite=True)["created"]


@pytest.mark.requirement("F-260")
def test_hooks_and_included_configuration_of_git_are_not_written_wherever_they_are(tmp_path: Path) -> None:
    repository(tmp_path)
    write_files(tmp_path, {"hooks/pre-commit": "", "settings/git": "[user]\n\tname = x\n", "settings/other": ""})
    git(tmp_path, "config", "core.hooksPath", "hooks")
    git(tmp_path, "config", "include.path", "../settings/git")
    agent = CodeAgent(tmp_path)
    refuses(agent, "hooks/post-commit", "this bridge itself loads or starts")
    refuses(agent, "settings/git", "this bridge itself loads or starts")
    assert not call(agent, "create-file", path="settings/other", content="", overwrite=True)["created"]


@pytest.mark.requirement("F-260")
def test_a_repository_whose_git_folder_is_called_otherwise_is_left_to_git(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--separate-git-dir", "store")
    for path in ("store/config", "store/hooks/pre-commit"):
        refuses(CodeAgent(tmp_path), path, "this bridge itself loads or starts")


@pytest.mark.requirement("F-260")
def test_where_agents_of_the_bridge_are_imported_from_no_module_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new `filelock.py` beside an agent would be imported instead of the real one, the next time it is needed."""
    write_files(tmp_path, {"agents/shop.py": "", "agents/pkg/__init__.py": "", "agents/data/a.py": ""})
    monkeypatch.setattr(sys, "path", [str(tmp_path / "agents"), *sys.path])
    agent = CodeAgent(tmp_path)
    for path in ("agents/shop.py", "agents/filelock.py", "agents/pkg/new.py", "agents/new/__init__.py"):
        refuses(agent, path, "imports Python code from")
    for path in ("other/shop.py", "agents/data/new.py", "agents/README.md"):
        assert call(agent, "create-file", path=path, content="")["created"]


@pytest.mark.requirement("F-262")
@pytest.mark.parametrize("entry", sorted(KEPT_SECRET))
def test_keys_and_passwords_are_neither_read_nor_written_nor_listed_nor_found(tmp_path: Path, entry: str) -> None:
    inner = f"home/{entry}" if "." in entry.rpartition("/")[2][1:] or entry == "_netrc" else f"home/{entry}/key"
    write_files(tmp_path, {inner: "secret needle", "a.txt": "needle", f"up/{entry.upper()}": "secret needle"})
    agent = CodeAgent(tmp_path)
    for path in (inner, f"home/{entry}", f"up/{entry.upper()}"):
        with pytest.raises(PathError, match="where keys and passwords are kept"):
            call(agent, "read-file", path=path)
        with pytest.raises(PathError, match="where keys and passwords are kept"):
            call(agent, "create-file", path=path, content="", overwrite=True)
    found = call(agent, "search-code", pattern="needle")
    assert [match["path"] for match in found["matches"]] == ["a.txt"]
    assert "home" not in agent.read_mcp_resource("code://tree")["contents"][0]["text"]


@pytest.mark.requirement("F-262")
@pytest.mark.parametrize("agent", [CodeAgent, ProjectAgent])
def test_the_home_folder_is_no_workspace_unless_it_is_named(
    agent: type[CodeAgent | ProjectAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(os.environ["HOME"])
    write_files(home, {".gaia/bridge-token": "token", "notes.txt": "mine"})
    for folder in (home, home.parent, Path("/")):
        monkeypatch.chdir(folder)
        with pytest.raises(ConfigError, match="(is|holds) your home folder.*GAIA_WORKSPACE=FOLDER"):
            agent()
    agent(home)
    monkeypatch.setenv("GAIA_WORKSPACE", "~")
    workspace = open_workspace(None)
    assert workspace.root == home.resolve()
    assert workspace.read("notes.txt", LIMIT) == b"mine"
    with pytest.raises(PathError, match="keys and passwords"):
        workspace.read(".gaia/bridge-token", LIMIT)
    monkeypatch.setenv("GAIA_WORKSPACE", "nowhere")
    with pytest.raises(ConfigError, match="'nowhere' is not a folder"):
        agent()


@pytest.mark.requirement("F-275")
def test_a_path_of_more_folders_than_anybody_has_is_refused_before_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = open_workspace(tmp_path)
    deep = "/".join("a" * MAX_PARTS)
    assert workspace.write(f"{deep}/b", b"", overwrite=False) == (f"{deep}/b", True)
    monkeypatch.setattr(os, "listdir", None)  # who calls it, fails
    with pytest.raises(PathError, match="more than 100 folders"):
        workspace.read("a/" * 2_000 + "b", LIMIT)


@pytest.mark.requirement("F-260", "F-262")
def test_the_document_lists_every_name() -> None:
    words = DOCUMENT.read_text("utf-8")
    names = {*KEPT_SECRET, *HARMLESS_HIDDEN, *RUN_BY_THEMSELVES}
    assert [name for name in sorted(names) if f"`{name}`" not in words] == []
