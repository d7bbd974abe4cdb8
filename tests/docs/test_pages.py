"""Every page can be reached, and every link, picture and block of code in it is what it seems to be."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final
from urllib.parse import unquote
from xml.etree import ElementTree

import click
import pytest

from gaia_bridge_cli.program import program
from tests.docs.pages import DOCS, ROOT, Block, anchors, blocks, headings, links, pages
from tests.docs.site import navigation, staged

PICTURES: Final = DOCS / "pictures"
PICTURES_BYTES: Final = 1_500_000

OF_OTHERS: Final = {
    "curl": "asks a bridge that runs; tests/docs/test_shipped_agents_page.py and the tests of `POST /` do so",
    "fastmcp": "another program, beside which ours is shown",
    "pip": "installs; .ci/run does so with the commands of the README",
    "pytest": "runs tests",
    "python": "builds the site; test_site does so",
    "python3": "makes an environment; .ci/run does so with the commands of the README",
    "MCP_FETCH=True": "sets a variable; tests/docs/test_toolset.py does",
}
"""Commands in blocks that are not ours, and why nobody runs them here."""

RUN_BY: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "README.md": {"python": (2, "test_examples test_shop_agent"), "json": (1, "test_examples")},
    "docs/agents-that-use-agents.md": {"python": (2, "test_examples"), "text": (1, "test_examples")},
    "docs/acp.md": {"python": (2, "test_acp_page"), "json": (2, "test_acp_page")},
    "docs/asking.md": {"python": (2, "test_testing_page")},
    "docs/async-manager.md": {
        "python": (2, "test_async_manager test_tool_agent_page"), "text": (1, "test_async_manager"),
    },
    "docs/background.md": {"json": (1, "test_background_page")},
    "docs/bundles.md": {"": (1, "test_bundles_page"), "html": (1, "test_bundles_page")},
    "docs/chat.md": {"python": (2, "test_chat_page")},
    "docs/clients.md": {"python": (1, "test_examples"), "text": (1, "test_examples")},
    "docs/coming-from-gaia.md": {
        "python": (1, "test_coming_from_gaia_page"), "json": (1, "test_coming_from_gaia_page"),
    },
    "docs/coming-from.md": {"python": (27, "test_coming_from_page")},
    "docs/composition.md": {"python": (2, "test_composition_page"), "text": (1, "test_composition_page")},
    "docs/configuration-file.md": {"json": (2, "test_examples")},
    "docs/editors.md": {"diff": (1, "test_editors_page")},
    "docs/embedding.md": {"python": (3, "test_embedding_page"), "text": (1, "test_embedding_page")},
    "docs/five-minutes.md": {"python": (1, "test_five_minutes_page"), "text": (1, "test_five_minutes_page")},
    "docs/guide.md": {"python": (7, "test_examples")},
    "docs/middleware.md": {"python": (2, "test_middleware_page"), "text": (2, "test_middleware_page")},
    "docs/models.md": {"python": (1, "test_models_page")},
    "docs/network.md": {"json": (2, "test_examples")},
    "docs/openai-endpoint.md": {"python": (5, "test_openai_endpoint")},
    "docs/openapi.md": {
        "python": (1, "test_openapi_page"), "json": (1, "test_openapi_page"), "text": (1, "test_openapi_page")
    },
    "docs/serve.md": {"nginx": (1, "test_serve_page")},
    "docs/servers-in-python.md": {"python": (3, "test_examples")},
    "docs/skills.md": {
        "python": (1, "test_skills_page"), "text": (2, "test_skills_page"), "markdown": (1, "test_skills_page")
    },
    "docs/testing.md": {"python": (3, "test_testing_page")},
    "docs/tool-search.md": {"python": (1, "test_examples"), "json": (1, "test_examples")},
    "docs/toolset.md": {"python": (3, "test_toolset"), "bash": (1, "test_toolset")},
}  # fmt: skip
"""For each page and language: how many blocks there are, and the modules in this folder that run them.

`python -m tests.docs.poisoned` shows that they do."""

ONLY_READ: Final = {
    ("docs/acp.md", "lua"): "the settings of a plugin of Neovim; test_acp_page looks at the command in them",
    ("docs/architecture.md", ""): "a drawing; what it names is looked up by test_architecture_page",
    ("docs/concepts.md", ""): "a drawing",
    ("docs/doctor.md", "text"): "what is found on a machine with faults; test_doctor_page looks for the findings in it",
    ("docs/openai-endpoint.md", "console"): "has what the program prints; test_openai_endpoint looks for it",
    ("docs/schemas.md", ""): "needs FastMCP, an environment of its own and minutes",
    ("docs/serve.md", "caddyfile"): "Caddy is in no registry that tests use",
    ("docs/serve.md", "yaml"): "so is Traefik; test_serve_page reads it as YAML",
    ("docs/command-line.md", "text"): "a part of a program; the tests of `generate client` run whole ones",
    ("docs/servers-in-python.md", "text"): "what a console shows of servers that nobody has",
    ("tests/README.md", "console"): "runs these very tests",
}
"""Blocks that are shown and not run, and why."""

SHELL: Final = ("bash", "console", "sh")


def every_block() -> list[Block]:
    return [block for page in pages() for block in blocks(page)]


def commands(block: Block) -> Iterator[list[str]]:
    for line in block.text.replace("\\\n", " ").splitlines():
        for part in re.split(r" && | \|\| ", line.removeprefix("$ ")):
            yield shlex.split(part, comments=True)


def test_every_link_leads_to_a_file_and_to_a_heading_in_it() -> None:
    dead: list[str] = []
    for page in pages():
        for link in links(page.read_text("utf-8")):
            if re.match(r"[a-z]+:", link.target):
                continue
            path, _, anchor = unquote(link.target).partition("#")
            found = (page.parent / path).resolve() if path else page
            if not found.exists() or (anchor and anchor not in anchors(found.read_text("utf-8"))):
                dead.append(f"{page.relative_to(ROOT)}: {link.target}")
    assert dead == []


def test_a_dead_link_and_a_dead_anchor_are_seen() -> None:
    text = "# A `b` & c\n\n[x `y`](a.md#b) `[no](n.md)`\n\n```text\n# no\n[no](n.md)\n```\n"
    text += "[![p](p.png)](q.md)\n\n# A b  c\n"
    assert [link.target for link in links(text)] == ["a.md#b", "q.md", "p.png"]
    assert anchors(text) == {"a-b--c", "a-b--c-1"}


def test_each_page_has_one_title_and_no_heading_skips_a_level() -> None:
    for page in pages():
        levels = [level for level, _ in headings(page.read_text("utf-8"))]
        assert levels[0] == 1 and levels.count(1) == 1, page.name
        assert all(after <= before + 1 for before, after in pairwise(levels)), page.name


def test_the_navigation_leads_to_every_page_once() -> None:
    assert Counter(navigation()) == Counter(staged(page).as_posix() for page in pages())


def test_every_picture_is_shown_somewhere_says_what_it_shows_and_is_small() -> None:
    shown: set[Path] = set()
    for page in pages():
        text = page.read_text("utf-8")
        for link in links(text):
            if link.is_picture:
                shown.add((page.parent / link.target).resolve())
                alt = text[: link.start].rpartition("![")[2].removesuffix("](")
                assert len(alt.split()) > 3, f"{page.name} says of {link.target} no more than {alt!r}"
    kept = {path.resolve() for path in PICTURES.iterdir()}
    assert shown == kept
    assert sum(path.stat().st_size for path in kept) < PICTURES_BYTES


def test_pictures_of_terminals_load_nothing_and_show_nobodys_folders() -> None:
    for path in PICTURES.glob("*.svg"):
        text = path.read_text("utf-8")
        parts = list(ElementTree.fromstring(text).iter())
        assert {part.tag.rpartition("}")[2] for part in parts} <= {"svg", "style", "rect", "text", "tspan"}, path.name
        assert not any("href" in name for part in parts for name in part.attrib), path.name
        assert not re.search(r"url\(|@import|/root|/tmp|\.cache", text), path.name
        assert set(re.findall(r"/home/(\w+)", text)) <= {"you"}, path.name


def test_every_block_of_code_is_run_or_it_is_said_why_not() -> None:
    found = Counter((block.page, block.language) for block in every_block())
    for page, language in ONLY_READ:
        assert found.pop((page, language), 0), f"{page} has no such block any more"
    known = {(page, language): count for page, of in RUN_BY.items() for language, (count, _) in of.items()}
    shell = {(page, language) for page, language in found if language in SHELL and (page, language) not in known}
    assert {key: count for key, count in found.items() if key not in shell} == known


def test_who_is_said_to_run_the_blocks_of_a_page_reads_that_page() -> None:
    for page, languages in RUN_BY.items():
        for modules in (modules for _, modules in languages.values()):
            texts = [Path(__file__).with_name(f"{name}.py").read_text("utf-8") for name in modules.split()]
            assert all(Path(page).name in text for text in texts), f"{modules} and {page}"


@pytest.mark.parametrize("language", ["python", "json"])
def test_every_block_is_well_formed(language: str) -> None:
    readers: dict[str, Callable[[str], object]] = {"python": ast.parse, "json": json.loads}
    for block in every_block():
        if block.language == language:
            readers[language](block.text)


def test_every_command_in_a_block_is_one_of_ours_or_it_is_said_why_not() -> None:
    strange: set[str] = set()
    for block in every_block():
        if block.language not in SHELL or (block.page, block.language) in ONLY_READ or block.language == "bash":
            continue
        for words in commands(block):
            if not words or words[0] == ".":
                continue
            if words[0] != "gaia-bridge":
                strange.add(words[0])
                continue
            name, *rest = words[1:]
            command = program.get_command(click.Context(program), name)
            if isinstance(command, click.Group):
                name, *rest = rest
                command = command.get_command(click.Context(command), name)
            assert command is not None, f"{block.page}: {' '.join(words)}"
            command.make_context(name, rest, parent=click.Context(program))
    assert strange == OF_OTHERS.keys()
