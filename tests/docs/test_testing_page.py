"""The projects of the pages testing.md and asking.md pass their own tests."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2]


def files(page: str) -> list[tuple[str, str]]:
    text = (PAGES / "docs" / page).read_text("utf-8")
    return re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_agent_of_the_page_is_the_one_of_the_readme() -> None:
    assert dict(files("testing.md"))["hello_agent.py"] in (PAGES / "README.md").read_text("utf-8")


@pytest.mark.thorough
@pytest.mark.parametrize(("page", "passed"), [("testing.md", 6), ("asking.md", 4)])
def test_the_tests_of_a_page_pass_in_both_eras(page: str, passed: int, tmp_path: Path) -> None:
    for name, text in files(page):
        (tmp_path / name).write_text(text, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
    assert f"{passed} passed" in done.stdout, done.stdout + done.stderr
