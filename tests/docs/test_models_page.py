"""The model of `docs/models.md` is made as the page shows it."""

from __future__ import annotations

from typing import Any

from gaia.llm import OpenAIModel
from tests.docs.pages import DOCS, blocks

PAGE = DOCS / "models.md"


def test_the_model_of_the_page_is_made() -> None:
    [program] = [block.text for block in blocks(PAGE) if block.language == "python"]
    names: dict[str, Any] = {}
    exec(program, names)
    assert isinstance(names["model"], OpenAIModel)
