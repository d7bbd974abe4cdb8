"""`vscode-config/` is what the program generates, what VS Code accepts, and what our command line understands."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from gaia_bridge.constants import DEFAULT_HOST, DEFAULT_PORT
from gaia_bridge_cli.program import program
from gaia_bridge_desk.editors.vscode import SERVER_NAME, TOKEN_VARIABLE, examples

FOLDER = Path(__file__).parents[2] / "vscode-config"

ALLOWED_KEYS = {
    "stdio": {"type", "command", "args", "cwd", "env", "envFile"},
    "http": {"type", "url", "headers"},
}
"""The keys of VS Code's schema, which refuses all others, that an example may need."""

VARIABLES = {"${workspaceFolder}", "${userHome}", f"${{env:{TOKEN_VARIABLE}}}"}
"""What VS Code fills in; anything else between `${` and `}` would stay as it is."""


def readme() -> str:
    return (FOLDER / "README.md").read_text(encoding="utf-8")


def server_of(name: str) -> dict[str, Any]:
    content = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    assert list(content) == ["servers"]
    assert list(content["servers"]) == [SERVER_NAME]
    server: dict[str, Any] = content["servers"][SERVER_NAME]
    return server


def parsed(arguments: list[str]) -> dict[str, Any]:
    """What our command line makes of `gaia-bridge ARGUMENTS`, without running it."""
    name, *rest = arguments
    command = program.get_command(click.Context(program), name)
    assert command is not None, f"there is no command {name!r}"
    return dict(command.make_context(name, rest, parent=click.Context(program)).params)


def test_the_folder_holds_the_generated_files_and_nothing_else() -> None:
    found = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir() if path.name != "README.md"}
    assert found == examples()


@pytest.mark.parametrize("name", sorted(examples()))
def test_a_file_has_only_what_vs_code_knows(name: str) -> None:
    server = server_of(name)
    assert set(server) <= ALLOWED_KEYS[server["type"]]
    assert set(re.findall(r"\$\{[^}]*\}", json.dumps(server))) <= VARIABLES


def test_the_stdio_file_starts_the_bridge_on_stdio() -> None:
    server = server_of("stdio.mcp.json")
    assert server["command"] == "gaia-bridge"
    options = parsed(server["args"])
    assert options["stdio"] is True
    assert options["agents"] == ()


def test_the_http_files_name_the_address_that_serve_listens_on() -> None:
    options = parsed(["serve"])
    assert (options["host"], options["port"]) == (DEFAULT_HOST, DEFAULT_PORT)
    for name in ("http.mcp.json", "http-token.mcp.json"):
        assert server_of(name)["url"] == f"http://{DEFAULT_HOST}:{DEFAULT_PORT}/mcp"
    assert "headers" not in server_of("http.mcp.json")
    assert server_of("http-token.mcp.json")["headers"] == {"Authorization": f"Bearer ${{env:{TOKEN_VARIABLE}}}"}


def test_the_readme_names_every_file_and_only_commands_that_exist() -> None:
    for name in examples():
        assert f"[{name}]({name})" in readme()
        assert f"cp ~/gaia-mcp-bridge/vscode-config/{name} .vscode/mcp.json" in readme()
    commands = set(re.findall(r"`gaia-bridge ([^`]+)`", readme()))
    assert {command: parsed(shlex.split(command))["auth"] for command in commands} == {
        "serve": False,
        "serve --auth": True,
    }


def test_the_readme_gives_three_steps_for_each_file() -> None:
    sections = readme().split("\n## ")[1:]
    assert [re.findall(r"^(\d)\. ", section, re.MULTILINE) for section in sections] == [["1", "2", "3"]] * 3
