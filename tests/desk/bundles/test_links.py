"""Links by which editors install a server, read as the editors read them."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from gaia_bridge_desk.bundles import EDITORS_WITH_LINKS, install_links
from gaia_bridge_desk.editors.table import EDITORS

ENTRY = {"type": "stdio", "command": "uvx", "args": ["weather==1.0", "--say", "a b&c=d#e%f+g ü"]}
INPUTS = [{"type": "promptString", "id": "token", "description": "Token", "password": True}]


def of_vscode(link: str, scheme: str) -> dict[str, Any]:
    """What VS Code makes of a link: it decodes the query once, and reads it as JSON."""
    parts = urlsplit(link)
    assert (parts.scheme, parts.path, parts.fragment) == (scheme, "mcp/install", "")
    found: dict[str, Any] = json.loads(unquote(parts.query))
    return found


@pytest.mark.parametrize(("editor", "host"), [("vscode", "vscode.dev"), ("vscode-insiders", "insiders.vscode.dev")])
def test_a_link_of_vs_code_has_name_entry_and_inputs(editor: str, host: str) -> None:
    link, on_the_web = install_links(editor, "weather", ENTRY, INPUTS)
    assert of_vscode(link, editor) == {"name": "weather", **ENTRY, "inputs": INPUTS}
    parts = urlsplit(on_the_web)
    assert (parts.scheme, parts.netloc, parts.path) == ("https", host, "/redirect")
    assert parse_qs(parts.query) == {"url": [link]}


def test_a_link_of_cursor_has_its_name_and_its_entry() -> None:
    link, on_the_web = install_links("cursor", "weather & more", ENTRY)
    for each, place in ((link, "anysphere.cursor-deeplink"), (on_the_web, "cursor.com")):
        parts = urlsplit(each)
        assert parts.netloc == place
        query = parse_qs(parts.query)
        assert query["name"] == ["weather & more"]
        assert json.loads(base64.b64decode(query["config"][0], validate=True)) == ENTRY


def test_editors_with_links_are_editors_that_are_known() -> None:
    assert {*EDITORS_WITH_LINKS} < {editor.name for editor in EDITORS}
