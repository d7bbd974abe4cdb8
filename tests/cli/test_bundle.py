"""`gaia-bridge bundle`, as it is typed: what it writes, shows, compares and refuses."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tests.cli.running import Run
from tests.support.bundled import ENTRIES, SECRET, write_project

PROJECT = """
[project]
name = "weather-agent"
version = "2.0.0"
description = "Knows the weather."
readme = "README.md"

[project.scripts]
weather-agent = "gaia_bridge.cli:main"

[project.entry-points."gaia.agents"]
weather = "weather_agent:WeatherAgent"
"""


@pytest.fixture
def agent() -> str:
    """An agent in the current folder, and a configuration."""
    Path("servers.json").write_text(json.dumps({"mcpServers": {**ENTRIES, "off": {"disabled": True}}}), "utf-8")
    return write_project(Path()).name


SAID = ("--description", "Greets people.", "--author", "Ada")


def test_a_plugin_is_written_once_and_never_over_other_files_unasked(run: Run, agent: str) -> None:
    wanted = ("bundle", "plugin", "--agent", agent, "--config", "servers.json", *SAID)
    code, _, err = run(*wanted)
    assert code == 0 and "wrote hello" in err and "whoever installs it says: GITHUB_TOKEN" in err
    assert SECRET not in "".join(path.read_text("utf-8") for path in Path("hello").rglob("*.*") if path.is_file())
    assert run(*wanted)[2].startswith("nothing to do: hello")
    assert run(*wanted, "--check")[0] == 0
    mine = Path("hello/README.md")
    mine.write_text("# Mine\n", "utf-8")
    code, _, err = run(*wanted)
    assert code == 78 and "there are other files already: README.md (--force writes over them)" in err
    code, _, err = run(*wanted, "--check")
    assert (code, err) == (78, "hello: README.md is another one\n")
    assert mine.read_text("utf-8") == "# Mine\n"
    assert run(*wanted, "--force")[0] == 0 and mine.read_text("utf-8").startswith("# hello")
    assert not [path for path in Path("hello").rglob(".*") if path.is_file()]


def test_a_bundle_says_of_itself_what_its_agent_says_and_asks_for_all_that_is_missing_at_once(
    run: Run, agent: str
) -> None:
    Path("talks.py").write_text(
        '"""A file."""\nclass _Base: ...\nclass Talks(_Base):\n    """Talks about\n    flowers.\n\n    Much."""\n'
        "class Other:\n    pass\n",
        "utf-8",
    )
    for reference, said in {"talks.py": "Talks about flowers.", "talks.py:Other": "A file."}.items():
        code, out, _ = run("bundle", "plugin", reference, "--print")
        assert code == 0 and f'"description": "{said}"' in out
    Path("silent.py").write_text("class Silent: ...\n", "utf-8")
    code, _, err = run("bundle", "mcpb", "silent.py")
    both = "--description says in one sentence what it is for; --author says who made it"
    assert code == 78 and f"missing options: {both}\n" in err


def test_what_is_printed_is_not_written(run: Run, agent: str) -> None:
    code, out, _ = run("bundle", "plugin", "--form", "claude", "--agent", agent, *SAID, "--print")
    assert code == 0 and "--- .claude-plugin/plugin.json\n{" in out and "--- skills/greet/SKILL.md\n---\n" in out
    code, out, _ = run("bundle", "mcpb", "--agent", agent, *SAID, "--print")
    assert code == 0 and '"manifest_version": "0.4"' in out
    assert not Path("hello").exists() and not Path("hello.mcpb").exists()


def test_a_bundle_for_claude_desktop_is_one_file(run: Run, agent: str) -> None:
    wanted = ("bundle", "mcpb", "--agent", agent, "--config", "servers.json", "--only", "github", "--env", "KEY", *SAID)
    code, _, err = run(*wanted, "--output", "out/hello.mcpb")
    assert code == 0 and "wrote out/hello.mcpb" in err and "GITHUB_TOKEN, KEY" in err
    with zipfile.ZipFile("out/hello.mcpb") as archive:
        assert [*json.loads(archive.read("server/servers.json"))["mcpServers"]] == ["github"]
    assert run(*wanted, "--output", "out/hello.mcpb", "--check")[0] == 0
    Path("greetings.py").write_text("def greeting(name): return name\n", "utf-8")
    code, _, err = run(*wanted, "--output", "out/hello.mcpb", "--check")
    assert (code, err) == (78, "out: hello.mcpb is another one\n")


def test_a_bundle_of_servers_alone_is_called_as_somebody_says(run: Run, agent: str) -> None:
    code, out, _ = run("bundle", "plugin", "--config", "servers.json", "--name", "our.tools", *SAID, "--print")
    assert code == 0 and '"name": "our.tools"' in out and '"--no-agents"' in out
    assert "hello_agent" not in out and "greet/SKILL" not in out


def test_a_bundle_is_called_as_the_project_that_its_agent_is_in(run: Run, agent: str) -> None:
    Path("pyproject.toml").write_text(PROJECT, "utf-8")
    code, out, _ = run("bundle", "plugin", "--agent", agent, "--print")
    assert code == 0 and '"name": "weather-agent",\n  "version": "2.0.0",\n  "description": "Knows' in out


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        ([], 78, "there is nothing in it"),
        (["--agent", "none.py"], 78, "there is no such file"),
        (["--only", "x"], 64, "name it with --config"),
        (["--config", "servers.json", "--only", "x"], 78, "there is no server 'x'"),
        (["silent.py"], 78, "missing option: --description says in one sentence what it is for"),
        (["--agent", "hello_agent.py", "--env", "A-B"], 64, "expected the name of a variable"),
        (["--agent", "hello_agent.py", "--name", "Hello!", *SAID], 78, "expected 1 to 64 of a-z 0-9 - ."),
        (["--agent", "hello_agent.py", "--version", ">=1", *SAID], 78, "is no version"),
    ],
)
def test_what_cannot_be_is_said_with_what_to_do(
    run: Run, agent: str, words: list[str], code: int, problem: str
) -> None:
    Path("silent.py").write_text("from gaia.agents.base import MCPAgent\nclass Silent(MCPAgent): ...\n", "utf-8")
    ended, _, err = run("bundle", "plugin", *words)
    assert ended == code and problem in err
    assert not Path("hello").exists()


def test_a_project_is_described_for_the_registry_and_its_readme_has_to_say_so(run: Run) -> None:
    Path("pyproject.toml").write_text(PROJECT, "utf-8")
    name = ("--name", "io.github.ada/weather")
    code, _, err = run("bundle", "server-json", *name)
    assert code == 0 and "<!-- mcp-name: io.github.ada/weather -->" in err
    assert json.loads(Path("server.json").read_text("utf-8"))["packages"][0]["identifier"] == "weather-agent"
    assert run("bundle", "server-json", *name, "--check")[0] == 78
    Path("README.md").write_text("<!-- mcp-name: io.github.ada/weather -->\n", "utf-8")
    assert run("bundle", "server-json", *name, "--check") == (0, "", "")
    code, out, _ = run("bundle", "server-json", *name, "--print", "--", "--quiet")
    assert code == 0 and json.loads(out)["packages"][0]["packageArguments"] == [
        {"type": "positional", "value": "--quiet"}
    ]


def test_a_plugin_of_a_package_starts_the_package(run: Run, agent: str) -> None:
    assert run("bundle", "plugin", "--package", "--print")[0] == 78
    Path("pyproject.toml").write_text(PROJECT, "utf-8")
    code, out, err = run("bundle", "plugin", "--package")
    assert (code, out) == (0, "") and "1.139" not in err
    [server] = json.loads(Path("weather-agent/mcp.json").read_text("utf-8"))["mcpServers"].values()
    assert server["args"] == ["weather-agent==2.0.0", "serve", "--stdio", "--no-servers", "weather"]
    assert Path("weather-agent/skills/greet/SKILL.md").is_file() and not Path("weather-agent/server").exists()
    assert run("bundle", "plugin", "--package", "--agent", agent)[0] == 64
    Path("pyproject.toml").write_text(PROJECT.replace("weather-agent =", "weather ="), "utf-8")
    assert "has no program of its own name" in run("bundle", "plugin", "--package")[2]


def test_links_lead_to_the_package_of_a_project(run: Run) -> None:
    Path("pyproject.toml").write_text(PROJECT, "utf-8")
    code, out, _ = run("bundle", "link")
    assert code == 0
    assert [line.partition("?")[0] for line in out.splitlines()] == [
        "vscode:mcp/install",
        "vscode-insiders:mcp/install",
        "cursor://anysphere.cursor-deeplink/mcp/install",
    ]
    assert "weather-agent%3D%3D2.0.0" in out
    code, out, _ = run("bundle", "link", "cursor", "--markdown")
    assert code == 0 and out.startswith("[Install in Cursor](https://cursor.com/install-mcp?name=weather-agent&config=")
    assert run("bundle", "link", "zed")[0] == 64
