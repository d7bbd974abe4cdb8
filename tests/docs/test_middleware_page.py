"""What `docs/middleware.md` shows is what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gaia_bridge import middleware
from gaia_bridge.middleware import Middleware

PAGE = Path(__file__).parents[2] / "docs" / "middleware.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(2))
def test_a_program_of_the_page_prints_what_the_page_says(number: int, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(blocks("python")[number], "utf-8")
    done = subprocess.run([sys.executable, file], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == (blocks("text")[number], 0), done.stderr


def test_the_page_lists_the_hooks_that_there_are() -> None:
    listed = re.findall(r"^\| `(on_\w+)", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(name for name in vars(Middleware) if name.startswith("on_"))


def test_the_page_lists_the_middleware_that_is_included() -> None:
    listed = re.findall(r"^\| `([A-Z]\w+)\(", PAGE.read_text("utf-8"), re.MULTILINE)
    members = {name: getattr(middleware, name) for name in middleware.__all__}
    included = [name for name, kind in members.items() if isinstance(kind, type) and issubclass(kind, Middleware)]
    assert sorted(listed) == sorted(name for name in included if name != "Middleware")
