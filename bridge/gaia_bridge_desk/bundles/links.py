"""Links that make an editor show a server, and offer to install the server.

VS Code: https://code.visualstudio.com/api/extension-guides/ai/mcp; Cursor: https://cursor.com/docs/context/mcp/install-links.
GitHub shows no links but those of the web, so each editor's link has a web link that redirects to that one.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import quote, urlencode

from gaia_bridge.text.json_types import JSON

_VSCODE: Final = {"vscode": "vscode", "vscode-insiders": "vscode-insiders"}
_CURSOR: Final = "cursor"

EDITORS_WITH_LINKS: Final = (*_VSCODE, _CURSOR)
"""The editors that install servers by a link."""


def install_links(editor: str, name: str, entry: JSON, inputs: Sequence[JSON] = ()) -> Iterator[str]:
    """Yield the links for an editor: its own, and one for pages on the web that show no other.

    Args:
        editor: One of `EDITORS_WITH_LINKS`.
        name: The server's name there.
        entry: The server's entry, in the editor's form.
        inputs: The inputs with which the editor asks for values.
    """
    if editor == _CURSOR:
        config = base64.b64encode(_compact(entry).encode()).decode()
        query = urlencode({"name": name, "config": config}, quote_via=quote)
        yield f"cursor://anysphere.cursor-deeplink/mcp/install?{query}"
        yield f"https://cursor.com/install-mcp?{query}"
        return
    server = {"name": name, **entry} | ({"inputs": list(inputs)} if inputs else {})
    link = f"{_VSCODE[editor]}:mcp/install?{quote(_compact(server), safe='')}"
    place = "insiders.vscode.dev" if editor == "vscode-insiders" else "vscode.dev"
    yield link
    yield f"https://{place}/redirect?url={quote(link, safe='')}"


def _compact(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
