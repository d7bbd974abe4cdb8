"""Shows that the blocks of the pages are run: `python -m tests.docs.poisoned [PAGE]...`, which takes some minutes.

In a copy of the project each block that `RUN_BY` lists is spoiled, one after the other, and the tests that are said to
run it have to fail. What they do not notice is printed, and makes the exit code 1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.docs.pages import ROOT, Block, blocks
from tests.docs.test_pages import RUN_BY

__all__ = ["main"]

_COPIED: Final = ("agents", "benchmarks", "bridge", "docs", "tests", "vscode-config")
_FILES: Final = ("CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml")
_POISON: Final = "raise SystemError('spoiled')\n"
_SECONDS: Final = 300


def spoiled(block: Block) -> str:
    """What stands in the place of a block.

    Args:
        block: The block.
    """
    match block.language:
        case "python":
            lines = block.text.splitlines(keepends=True)
            kept = [line for line in lines[:2] if line.startswith(("# ", "from __future__"))]
            return "".join([*kept, _POISON, *(line for line in lines if line not in kept)])
        case "json":
            return '{"spoiled": 1}\n'
        case _:
            return "spoiled\n"


def main() -> int:
    """Spoil the blocks of the pages that are named, or of all."""
    named, unnoticed = sys.argv[1:], 0
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work)
        for folder in _COPIED:
            shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
        for name in _FILES:
            shutil.copy(ROOT / name, copy)
        for page in named or RUN_BY:
            for block in blocks(ROOT / page):
                if block.language in RUN_BY[page] and not _notices(copy, block):
                    unnoticed += 1
                    sys.stdout.write(f"{page}: block {block.number} ({block.language}) is not run\n")
    return min(unnoticed, 1)


def _notices(copy: Path, block: Block) -> bool:
    page = copy / block.page
    whole = page.read_text("utf-8")
    page.write_text(whole[: block.start] + spoiled(block) + whole[block.start + len(block.text) :], "utf-8")
    modules = [f"tests/docs/{name}.py" for name in RUN_BY[block.page][block.language][1].split()]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n0", "-x", "-m", "thorough or not thorough", *modules],
            cwd=copy,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    finally:
        page.write_text(whole, "utf-8")
    return done.returncode in (1, 2)  # a test failed, or its module cannot be imported


if __name__ == "__main__":
    sys.exit(main())
