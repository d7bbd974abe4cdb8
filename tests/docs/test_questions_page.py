"""Each question has an answer that names a command of ours or leads to a page, and the search finds it by its words."""

from __future__ import annotations

import re
import shlex
from typing import Final

import click

from gaia_bridge_cli.program import program
from tests.docs.pages import DOCS, links

PAGES: Final = [DOCS / "questions.md", DOCS / "serve.md"]
PAGE: Final = PAGES[0].read_text("utf-8")


def test_each_question_is_one_and_its_answer_leads_to_a_page() -> None:
    first, *answers = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    assert first.startswith("# Questions") and len(answers) > 20
    for answer in answers:
        question = answer.partition("\n")[0]
        assert question.endswith("?"), question
        assert any(not link.target.startswith("#") for link in links(answer)), question


def test_every_command_of_these_pages_is_one_of_ours() -> None:
    shown = [line for page in PAGES for line in re.findall(r"`gaia-bridge ([a-z][^`]*)`", page.read_text("utf-8"))]
    assert len(shown) > 40
    for line in shown:
        name, *words = shlex.split(line)
        command = program.get_command(click.Context(program), name)
        if isinstance(command, click.Group):
            name, *words = words
            command = command.get_command(click.Context(command), name)
        assert command is not None, line
        command.make_context(name, words, parent=click.Context(program))
