"""docs/skills.md: its program runs, and prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "skills.md"

pytestmark = pytest.mark.timeout(60)


def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    text = PAGE.read_text("utf-8")
    [(program, output)] = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    (tmp_path / "program.py").write_text(program, "utf-8")
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False
    )
    assert done.stdout == output, done.stderr
