"""The schemas of decorated functions beside those that FastMCP derives from the same signatures.

    python -m venv /tmp/fastmcp && /tmp/fastmcp/bin/pip install fastmcp==4.2.3 -e .
    /tmp/fastmcp/bin/python benchmarks/fastmcp_schemas.py [--check docs/schemas.md] [--json]

Prints a table with every signature of `tests/bridge/sources/functions/battery.py` whose tool differs, and in what. With
`--check`, it fails unless that table is in the document. FastMCP's mark of wrapped results is no difference.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "bridge" / "sources" / "functions"))

from gaia_bridge import tool
from gaia_bridge.sources.functions.collection import DecoratedFunctions, decorated_members
from gaia_bridge.text.json_types import is_object

_FIELDS = ("description", "inputSchema", "outputSchema")


def ours(function: Callable[..., Any]) -> dict[str, Any]:
    """A tool as we publish it, or the reason why not."""
    try:
        [definition] = DecoratedFunctions(decorated_members(tool(function))).get_mcp_tool_definitions()
    except TypeError as problem:
        return {"refused": str(problem)}
    return {name: definition.get(name) for name in _FIELDS}


def theirs(function: Callable[..., Any]) -> dict[str, Any]:
    """A tool as FastMCP publishes it, or the reason why not."""
    made: Any = importlib.import_module("fastmcp.tools").Tool
    try:
        found = made.from_function(function)
    except Exception as problem:  # whatever it raises: that is what is compared
        return {"refused": str(problem)}
    output = found.output_schema
    if output is not None:
        output = {key: value for key, value in output.items() if key != "x-fastmcp-wrap-result"}
    return {"description": found.description, "inputSchema": found.parameters, "outputSchema": output}


def differences(one: Any, other: Any, place: str = "") -> Iterator[str]:
    """Where two values differ: each place with what is there, ours first."""
    for name, refused, accepted in (("FastMCP", other, one), ("gaia_bridge", one, other)):
        if not place and "refused" in refused and "refused" not in accepted:
            yield f"{name} refuses it"
            return
    if is_object(one) and is_object(other):
        for key in dict.fromkeys([*one, *other]):
            yield from differences(one.get(key), other.get(key), f"{place}/{key}")
    elif one != other and (one or other):
        yield f"`{place.lstrip('/')}`: {_shown(one)}; FastMCP {_shown(other)}"


def table(signatures: tuple[Callable[..., Any], ...]) -> tuple[str, int]:
    """The differences as a table in Markdown, and how many signatures have none."""
    rows: list[str] = []
    same = 0
    for function in signatures:
        found = list(differences(ours(function), theirs(function)))
        same += not found
        if found:
            rows.append(f"| `{function.__name__}` | {'<br>'.join(found)} |")
    return "\n".join(["| signature | differs in |", "|---|---|", *rows]), same


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    text = json.dumps(value).replace("|", "\\|")
    return f"`{text if len(text) <= 160 else text[:160] + '...'}`"


def main() -> int:
    """Compare; the exit status is 1 if a document is not up to date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", type=Path, help="a document that has to have the table")
    parser.add_argument("--json", action="store_true", help="print both tools of every signature")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    signatures: tuple[Callable[..., Any], ...] = importlib.import_module("battery").SIGNATURES
    if options.json:
        found = {it.__name__: {"ours": ours(it), "FastMCP": theirs(it)} for it in signatures}
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
        return 0
    text, same = table(signatures)
    sys.stdout.write(text + "\n")
    version = importlib.metadata.version("fastmcp")
    sys.stderr.write(f"\n{same} of {len(signatures)} signatures are alike in FastMCP {version}." + "\n")
    if options.check is None:
        return 0
    is_current = text in options.check.read_text(encoding="utf-8")
    sys.stderr.write(f"{options.check} is {'up to date' if is_current else 'NOT up to date'}" + "\n")
    return not is_current


if __name__ == "__main__":
    sys.exit(main())
