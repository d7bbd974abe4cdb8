"""An editor that the desktop starts has next to no environment, and finds the same servers as a terminal."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from tests.process.windows import user
from tests.support.waiting import eventually

SERVER = Path(__file__).parents[1] / "servers" / "raw_server.py"
SHORT = "/usr/bin:/bin"


def test_what_was_added_in_a_terminal_is_found_by_an_editor_without_its_path() -> None:
    with user() as me:
        tools = me.folder / "tools"
        tools.mkdir()
        python, runner = tools / "own-python", tools / "own-runner"
        python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
        source = SERVER.read_text(encoding="utf-8")
        (me.folder / "server.py").write_text(source, encoding="utf-8")
        runner.write_text('#!/bin/sh\nexec own-python -S "$@"\n', encoding="utf-8")
        for program in (python, runner):
            program.chmod(0o755)
        me.environment["PATH"] = f"{tools}:{SHORT}"
        for words in (("add", "own", "own-runner", "server.py"), ("install", "cursor", "--yes")):
            done = me.run(*words)
            assert done.returncode == 0, done.stderr
        document = json.loads((me.folder / ".cursor/mcp.json").read_text(encoding="utf-8"))
        entry = document["mcpServers"]["gaia-bridge"]
        assert entry["args"] == ["connect"] and "env" not in entry

        me.environment = {name: me.environment[name] for name in ("HOME", "XDG_RUNTIME_DIR")} | {"PATH": SHORT}
        window = me.window()
        eventually(lambda: "own__pid" in {tool["name"] for tool in window.result_of("tools/list")["tools"]})
        assert int(window.told("own__pid")) > 0
