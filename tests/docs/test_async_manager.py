"""What `docs/async-manager.md` shows is what happens."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.support.gated_servers import gate

PAGE = Path(__file__).parents[2] / "docs" / "async-manager.md"


def example(word: str, kind: str = "python") -> str:
    """The block that has a word in it."""
    blocks = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    [found] = [block for block in blocks if word in block]
    return str(found)


def printed(code: str, folder: Path) -> str:
    """What an example prints, in a folder with a configuration of one server, of which nothing is left."""
    with gate() as servers:
        entry = servers.server("12:00", "get_current_time") | {"allowed_tools": ["get_current_time"]}
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"time": entry}}), "utf-8")
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60, check=False
        )
        servers.wait_all_dead()
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_manager_connects_and_calls(tmp_path: Path) -> None:
    assert printed(example("execute_tool"), tmp_path) == example("success", "text")
