"""The documents that VS Code reads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from gaia_bridge_desk.editors.vscode import document, examples, http_server, stdio_server, to_text, write_examples


def test_a_stdio_server_is_the_command_line_that_serves_stdio() -> None:
    assert stdio_server() == {
        "type": "stdio",
        "command": "gaia-bridge",
        "args": ["serve", "--stdio"],
        "cwd": "${workspaceFolder}",
    }


def test_a_stdio_server_names_its_agents_and_program() -> None:
    server = stdio_server(["my agent.py", "pkg:Agent"], command="/opt/x/gaia-bridge")
    assert server == {
        "type": "stdio",
        "command": "/opt/x/gaia-bridge",
        "args": ["serve", "--stdio", "my agent.py", "pkg:Agent"],
        "cwd": "${workspaceFolder}",
    }


def test_an_http_server_takes_its_token_from_the_environment() -> None:
    assert http_server("http://127.0.0.1:1/mcp") == {"type": "http", "url": "http://127.0.0.1:1/mcp"}
    assert http_server("http://127.0.0.1:1/mcp", token_variable="TOKEN")["headers"] == {
        "Authorization": "Bearer ${env:TOKEN}"
    }


def test_a_document_is_text_that_reads_back_the_same() -> None:
    content = document(stdio_server(["ünïcode.py"]), "mine")
    assert json.loads(to_text(content)) == content
    assert list(content["servers"]) == ["mine"]
    assert to_text(content).endswith("}\n")
    assert "ünïcode.py" in to_text(content)


def test_the_examples_are_written_where_they_are_asked_for(tmp_path: Path) -> None:
    written = write_examples(tmp_path)
    assert {path.name: path.read_text(encoding="utf-8") for path in written} == examples()


def test_the_module_writes_the_examples_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gaia_bridge_desk.editors"]
    subprocess.run([*command, str(tmp_path)], check=True, timeout=30)
    assert {path.name for path in tmp_path.iterdir()} == set(examples())
    wrong = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (wrong.returncode, wrong.stderr.strip()) == (1, "usage: python -m gaia_bridge_desk.editors FOLDER")
