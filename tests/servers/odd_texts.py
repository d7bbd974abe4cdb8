"""A server that has one text in every place of every message where a text can be, and in keys too.

    ODD_TEXT='"\\ud800"' python -S odd_texts.py legacy|modern

`Odd` is what it says, whatever carries it; run as a program, it is said over the standard streams. It speaks one era.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

__all__ = ["Odd"]

JSON = dict[str, Any]

LEGACY, MODERN = "2025-11-25", "2026-07-28"


class Odd:
    """The server.

    Args:
        era: `legacy` or `modern`.
        text: What it says everywhere.
    """

    def __init__(self, era: str, text: str) -> None:
        self.modern = era == "modern"
        self.era = era
        self.text = text

    def replies(self, message: JSON) -> Iterator[JSON]:
        """What it sends when it is sent something, in order; the answer comes last."""
        number, method = message.get("id"), message.get("method")
        if number is None or method is None:
            return
        params: JSON = message.get("params") or {}
        if method == "tools/call":
            yield from self._meanwhile(params)
        yield {"jsonrpc": "2.0", "id": number, **self._outcome(method, params)}

    def _outcome(self, method: str, params: JSON) -> JSON:
        text = self.text
        if method == "tools/call" and params["name"] == "refuse":
            return {"error": {"code": -32050, "message": text, "data": {text: [text]}}}
        result = self._results().get(method)
        if result is None:
            return {"error": {"code": -32601, "message": f"{text} {method}"}}
        if self.modern:
            info = {"io.modelcontextprotocol/serverInfo": self._info()}
            result = {"resultType": "complete", **result, "_meta": {**result.get("_meta", {}), **info}}
        return {"result": {**result, text: text}}

    def _info(self) -> JSON:
        return {"name": self.text, "version": self.text, "title": self.text, "description": self.text}

    def _results(self) -> dict[str, JSON]:
        text = self.text
        capabilities = {
            "tools": {"listChanged": True},
            "prompts": {"listChanged": True},
            "resources": {"listChanged": True},
            "completions": {},
            "logging": {},
            "experimental": {text: {text: text}},
        }
        about = {"title": text, "description": text, "_meta": {text: text}, text: text}
        schema = {"type": "object", "properties": {text: {"type": "string", "description": text}}}
        uri, cached = f"{self.era}://{text}", {"ttlMs": 0, "cacheScope": "private"}
        blocks = [
            {"type": "text", "text": text, "_meta": {text: text}},
            {"type": "resource_link", "uri": uri, "name": text, "description": text},
            {"type": "resource", "resource": {"uri": uri, "text": text, "mimeType": text}},
            {"type": text, text: text},
        ]
        results: dict[str, JSON] = {
            "tools/list": {
                "tools": [
                    {**about, "name": name, "inputSchema": schema, "annotations": {"title": text}}
                    for name in ("speak", "refuse", f"named{text}")
                ]
            },
            "prompts/list": {"prompts": [{**about, "name": "prompt", "arguments": [{"name": text, **about}]}]},
            "resources/list": {"resources": [{**about, "uri": uri, "name": text, "mimeType": text}]},
            "resources/templates/list": {
                "resourceTemplates": [{**about, "uriTemplate": f"{self.era}://t/{{x}}", "name": text}]
            },
            "tools/call": {"content": blocks, "structuredContent": {text: [text]}, "_meta": {text: {text: text}}},
            "prompts/get": {"description": text, "messages": [{"role": "user", "content": blocks[0]}]},
            "resources/read": {"contents": [{"uri": uri, "text": text, "mimeType": text, "_meta": {text: text}}]},
            "completion/complete": {"completion": {"values": [text]}},
        }
        if self.modern:
            results = {method: {**result, **cached} for method, result in results.items()}
            results["server/discover"] = {
                "supportedVersions": [MODERN],
                "capabilities": capabilities,
                "instructions": text,
                **cached,
            }
        else:
            results |= {"ping": {}, "logging/setLevel": {}}
            results["initialize"] = {
                "protocolVersion": LEGACY,
                "capabilities": capabilities,
                "serverInfo": self._info(),
                "instructions": text,
            }
        return results

    def _meanwhile(self, params: JSON) -> Iterator[JSON]:
        text = self.text
        meta: JSON = params.get("_meta") or {}
        token = meta.get("progressToken")
        if token is not None:
            yield _notification("progress", progressToken=token, progress=1, message=text, **{text: text})
        yield _notification("message", level="error", logger=text, data={text: [text]}, **{text: text})
        if not self.modern:
            yield _notification("resources/updated", uri=f"{self.era}://{text}")
            yield _notification("elicitation/complete", elicitationId=text)
        yield _notification(text, **{text: text})
        yield {"jsonrpc": "2.0", "id": text, "method": text, "params": {text: text}}


def _notification(name: str, **params: Any) -> JSON:
    return {"jsonrpc": "2.0", "method": f"notifications/{name}", "params": params}


def main() -> None:
    """Answer line by line until the end of input."""
    odd = Odd(sys.argv[1], json.loads(os.environ["ODD_TEXT"]))
    for line in sys.stdin:
        for reply in odd.replies(json.loads(line)):
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
