"""What the tests have a registry list is as the published rules want it, and is understood whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gaia_bridge.json_schema.validation import SchemaValidator
from gaia_bridge_desk.server_registry.documents import RegistryFormatError, listed_of, page_of
from tests.support.mcp_registry import LISTED, listed, package

SCHEMA = SchemaValidator(json.loads(Path(__file__).with_name("server.schema.json").read_text("utf-8")))


def test_what_the_tests_have_listed_is_as_the_published_rules_want_it() -> None:
    assert [errors for item in LISTED if (errors := SCHEMA.errors(item["server"])) is not None] == []
    wrong = listed("a.b/c", packages=[package("npm", "x", "latest")])
    assert SCHEMA.errors(wrong["server"]) is not None


def test_a_page_has_what_can_be_read_of_it() -> None:
    document = {"servers": [*LISTED, {"server": {"name": 7}}, 8], "metadata": {"nextCursor": "x", "count": 9}}
    page = page_of(json.dumps(document).encode())
    assert (len(page.servers), page.unread, page.cursor) == (len(LISTED), 2, "x")
    assert {listed.official.status for listed in page.servers} == {"active", "deprecated", "deleted"}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"packages": [package("npm", "x", runtimeArguments=[{"type": "other"}])]}, "runtimeArguments"),
        ({"packages": {"npm": "x"}}, "packages"),
        ({"remotes": [{"type": "sse"}]}, "remotes"),
    ],
)
def test_an_entry_that_is_not_as_the_api_says_is_told_with_the_place(change: dict[str, Any], place: str) -> None:
    with pytest.raises(RegistryFormatError, match=rf"not as the API says: .*{place}"):
        listed_of(json.dumps(listed("a.b/c", **change)).encode())
