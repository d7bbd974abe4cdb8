"""What `docs/coming-from.md` shows in three libraries does the same in all of them, and is never longest in ours."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.installed_programs import WITH_FASTMCP, needs, with_fastmcp

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "coming-from.md").read_text("utf-8")
PROGRAM: Final = Path(__file__).with_name("side_by_side.py")
FILES: Final = (
    "shop.py", "context.py", "application.py", "chain.py", "filtered.py",
    "test_shop.py", "reload", "api.py", "client.py", "prompts.py",
)  # fmt: skip
"""What the blocks of each task are called, in the order of the page."""
THEIRS: Final = ("FastMCP", "mcp")
OURS: Final = "gaia-mcp-bridge"

CLOCK: Final = ROOT / "tests" / "servers" / "clock.py"
STOCK: Final = {
    "openapi": "3.1.0",
    "info": {"title": "Stock", "version": "1"},
    "paths": {
        "/items/{number}": {
            "get": {
                "operationId": "get_item",
                "summary": "One item by its number.",
                "parameters": [{"name": "number", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {
                    "200": {
                        "description": "It is there.",
                        "content": {"application/json": {"schema": {"type": "object"}}},
                    }
                },
            }
        }
    },
}


def blocks() -> dict[str, dict[str, str]]:
    """The blocks of each library, by the names of their files."""
    found: dict[str, dict[str, str]] = {name: {} for name in (*THEIRS, OURS)}
    tasks = re.split(r"^## \d+\. .*$", PAGE, flags=re.MULTILINE)[1:]
    assert len(tasks) == len(FILES)
    for file, task in zip(FILES, tasks, strict=True):
        own = task.partition("\n## ")[0]
        for name, text in re.findall(r"^\*\*([\w-]+)\*\*[^\n]*\n\n```\w+\n(.*?)^```$", own, re.MULTILINE | re.DOTALL):
            found[name][file] = text
        assert len(re.findall(r"^```\w+$", own, re.MULTILINE)) == sum(file in each for each in found.values())
    return found


def outcome(library: str, folder: Path, interpreter: str, variables: dict[str, str]) -> dict[str, Any]:
    """What the blocks of a library come to, in an environment that has it."""
    own = blocks()[library]
    for name, text in own.items():
        (folder / name).write_text(text, "utf-8")
    (folder / "clock.py").write_text(CLOCK.read_text("utf-8"), "utf-8")
    (folder / "stock.json").write_text(json.dumps(STOCK), "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = own.get("reload", "").split()
    if command[:1] == ["fastmcp"]:
        command += ["--transport", "http"]
    done = subprocess.run(
        [interpreter, "-W", "ignore", str(PROGRAM), str(folder), *command],
        cwd=folder,
        env={**os.environ, **variables, "FASTMCP_CHECK_FOR_UPDATES": "off"},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def environment_of(library: str) -> tuple[str, dict[str, str]]:
    """The interpreter that has a library, and what it needs to know."""
    if library == "FastMCP":
        return with_fastmcp()
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return sys.executable, {"PATH": path}


PRICE: Final = {"result": 9.5}
TOOL: Final = ["price", "What an article costs."]
SAME: Final = {
    "publish": [[TOOL], PRICE],
    "mount": PRICE,
    "client": "9.5\n",
    "filter": [[TOOL], PRICE],
    "prompts": ["occasion", "Which tea goes with rain?"],
    "test": "passed",
}
ITEM: Final = [["number"], {"number": 7, "name": "tea"}]
BOTH: Final = [["clock_now", "price"], PRICE, ["noon"]]
ASKED: Final = ["bought", ["asking"]]
OTHER: Final = {
    "FastMCP": {
        "inject": {"legacy": ASKED, "modern": "cannot ask"},
        "chain": {"legacy": BOTH, "modern": [["price"], PRICE, []]},
        "openapi": ["get_item", *ITEM],
        "reload": [9.5, 10.25],
    },
    "mcp": {
        "inject": {"legacy": ASKED, "modern": "cannot ask"},
        "chain": dict.fromkeys(("legacy", "modern"), BOTH),
        "openapi": ["get_item", *ITEM],
    },
    OURS: {
        "inject": {"legacy": ASKED, "modern": ASKED},
        "chain": dict.fromkeys(("legacy", "modern"), [["clock__now", "price"], PRICE, ["noon"]]),
        "openapi": ["stock__get_item", *ITEM],
        "reload": [9.5, 10.25],
    },
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "library", [pytest.param(name, marks=[pytest.mark.thorough] if name == "FastMCP" else []) for name in OTHER]
)
@pytest.mark.timeout(300)  # on a busy machine, FastMCP takes long to start
@needs(WITH_FASTMCP)
def test_the_blocks_of_each_library_do_what_the_page_says(library: str, tmp_path: Path) -> None:
    interpreter, variables = environment_of(library)
    assert outcome(library, tmp_path, interpreter, variables) == SAME | OTHER[library]


def test_ours_is_never_the_longest_and_shows_every_task() -> None:
    def length(text: str) -> int:
        return sum(bool(line.strip()) for line in text.splitlines())

    ours, *theirs = (blocks()[name] for name in (OURS, *THEIRS))
    assert set(ours) == set(FILES)
    longer = [
        f"{file}: {length(ours[file])} lines, not {length(other[file])}"
        for other in theirs
        for file in other
        if length(ours[file]) > length(other[file])
    ]
    assert longer == []
