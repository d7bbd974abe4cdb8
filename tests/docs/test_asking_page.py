"""The page about questions names the methods and attributes that there are; test_testing_page runs its tests."""

from __future__ import annotations

import re
from typing import Final

from gaia_bridge.calls.request_context import Elicited, RequestContext
from tests.docs.pages import DOCS

TEXT: Final = (DOCS / "asking.md").read_text("utf-8")


def section(heading: str) -> str:
    return TEXT.partition(heading)[2].partition("\n## ")[0]


def test_every_method_and_attribute_that_the_page_names_exists() -> None:
    methods = re.findall(r"request\.(\w+)\(", section("## All questions") + section("## Clients that cannot answer"))
    assert len(methods) == 9
    assert [name for name in methods if not hasattr(RequestContext, name)] == []
    attributes = re.findall(r"^\| `(\w+)` \|", section("| attribute |").partition("\n\n")[0], re.MULTILINE)
    assert len(attributes) == 3 and all(hasattr(Elicited("accept"), name) for name in attributes)
