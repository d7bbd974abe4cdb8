"""The project of the page about testing passes its own tests."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2]
TEXT = (PAGES / "docs" / "testing.md").read_text("utf-8")
FILES = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_agent_of_the_page_is_the_one_of_the_readme() -> None:
    assert dict(FILES)["hello_agent.py"] in (PAGES / "README.md").read_text("utf-8")


@pytest.mark.thorough
def test_the_tests_of_the_page_pass_in_both_eras(tmp_path: Path) -> None:
    for name, text in FILES:
        (tmp_path / name).write_text(text, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
    assert "6 passed" in done.stdout, done.stdout + done.stderr
