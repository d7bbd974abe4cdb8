"""docs/skills.md: its program runs, and prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gaia_bridge.settings import AgentLimits
from gaia_bridge.sources.skills.folders import SkillFolders

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


def test_the_folder_that_the_page_draws_has_the_skills_that_it_names(tmp_path: Path) -> None:
    text = PAGE.read_text("utf-8")
    drawn = re.findall(r"[├└]── ([\w/.-]+)", text)
    assert drawn == ["refunds/", "SKILL.md", "templates/mail.md", "acme/billing/disputes/SKILL.md"]
    refunds = text.partition("```markdown\n")[2].partition("```")[0]
    for path, content in (
        ("refunds/SKILL.md", refunds),
        ("refunds/templates/mail.md", "Dear customer"),
        ("acme/billing/disputes/SKILL.md", refunds.replace("refunds", "disputes")),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content, "utf-8")
    found = SkillFolders([tmp_path], AgentLimits()).read()
    told = re.findall(r"`(skill://[^`]+)`", text.partition("They are at ")[2].partition(". ")[0])
    assert sorted(skill["uri"] for skill in found.entries) == sorted(told)
