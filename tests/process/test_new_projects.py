"""What `gaia-bridge init` writes works as it is: its own test, and an editor that calls its agent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.running import DEADLINE, run
from tests.process.driving import initialized


def test_a_new_project_passes_its_own_test_and_serves(tmp_path: Path) -> None:
    assert run("init", "my-weather", cwd=tmp_path).returncode == 0
    project = tmp_path / "my-weather"
    assert run("new", "agent", "sea level", cwd=project).returncode == 0
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    tested = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=DEADLINE)
    assert "12 passed" in tested.stdout, tested.stdout + tested.stderr
    with initialized("my_weather_agent.py", cwd=project) as client:
        answer = client.result("tools/call", name="greet", arguments={"name": "Ada"})
    assert answer["content"][0]["text"] == "Hello, Ada!"
