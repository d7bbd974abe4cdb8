"""Writes the schema of each revision of MCP beside itself, without its prose: `python -m tests.schemas.generate`.

Those of 2025-03-26 and later are the specification's own JSON schemas, which the official conformance suite carries in
its program. Of 2024-11-05 no package has one: its schema is what pydantic says of the types of the Python SDK that was
generated from it.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from gaia_bridge.text.json_types import JSON, is_array, is_object
from tests.conformance.runner import HERE as CONFORMANCE
from tests.support.installed_programs import NodePackages, Source

__all__ = ["FIRST", "FOLDER", "SOURCE_OF_FIRST", "SUITE", "first_schema", "suite_schemas", "written"]

FOLDER: Final = Path(__file__).parent
FIRST: Final = "2024-11-05"
SUITE: Final = NodePackages(CONFORMANCE)
SOURCE_OF_FIRST: Final = Source("mcp==1.6.0")
"""The release of the SDK before it knew 2025-03-26."""
EVALUATE_SECONDS: Final = 60

_TABLE: Final = re.compile(r'\{"2025-03-26":(\w+),"2025-06-18":(\w+),"2025-11-25":(\w+),\[\w+\]:(\w+)\}')
"""Where the program says which of its variables is the schema of which revision."""
_SUITE: Final = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
_PROSE: Final = frozenset({"default", "description", "examples", "title"})
_NAMED: Final = frozenset({"$defs", "definitions", "properties"})
"""Keywords whose members have names, which are no keywords."""


def suite_schemas(program: str) -> dict[str, JSON]:
    """The schemas that the conformance suite carries, by revision.

    Args:
        program: The text of its `index.js`.
    """
    table = _TABLE.search(program)
    assert table is not None, "the suite keeps its schemas in another way"
    literals = {
        revision: _literal(program, variable) for revision, variable in zip(_SUITE, table.groups(), strict=True)
    }
    script = f"console.log(JSON.stringify({{{','.join(f'{json.dumps(k)}:{v}' for k, v in literals.items())}}}))"
    done = subprocess.run(
        ["node", "-"], input=script, capture_output=True, encoding="utf-8", timeout=EVALUATE_SECONDS, check=True
    )
    schemas: dict[str, JSON] = json.loads(done.stdout)
    return {revision: {"$defs": _with_numbers(_plain(_definitions(schema)))} for revision, schema in schemas.items()}


def first_schema(source: Path) -> JSON:
    """The schema of 2024-11-05.

    Args:
        source: The unpacked source of `SOURCE_OF_FIRST`.
    """
    spec = importlib.util.spec_from_file_location("mcp_of_2024_11_05", source / "src" / "mcp" / "types.py")
    assert spec is not None and spec.loader is not None
    types = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(types)
    from pydantic import BaseModel
    from pydantic.json_schema import models_json_schema

    models: list[Any] = [
        model
        for model in vars(types).values()
        if isinstance(model, type) and issubclass(model, BaseModel) and model.__module__ == spec.name
    ]
    _, schema = models_json_schema([(model, "validation") for model in models], by_alias=True)
    del sys.modules[spec.name]
    return {"$defs": _plain(_definitions(schema))}


def written(schema: JSON) -> str:
    """A schema as it is kept: one definition in a line."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(told, sort_keys=True)}" for name, told in sorted(schema["$defs"].items())
    )
    return '{"$defs": {\n' + ",\n".join(lines) + "\n}}\n"


def _literal(program: str, variable: str) -> str:
    """The text of the object that a variable is set to."""
    start = re.search(rf"[ ,]{re.escape(variable)}=(?=\{{\$schema)", program)
    assert start is not None
    depth, quote, place = 0, "", start.end()
    while True:
        character = program[place]
        if quote:
            place += character == "\\"
            quote = "" if character == quote else quote
        elif character in "`\"'":
            quote = character
        else:
            depth += {"{": 1, "}": -1}.get(character, 0)
        place += 1
        if depth == 0:
            return program[start.end() : place]


def _definitions(schema: JSON) -> JSON:
    definitions: JSON = schema.get("$defs") or schema["definitions"]
    return definitions


def _plain(value: Any, *, named: bool = False) -> Any:
    """A schema without prose; `null` as one of several choices is a habit of Python, and not MCP's."""
    if is_array(value):
        return [_plain(item) for item in value if item != {"type": "null"}]
    if isinstance(value, str):
        return value.replace("#/definitions/", "#/$defs/")
    if not is_object(value):
        return value
    return {
        key: _plain(item, named=not named and key in _NAMED)
        for key, item in value.items()
        if named or key not in _PROSE
    }


def _with_numbers(definitions: JSON) -> JSON:
    """The bounds of a number are numbers in the specification's `schema.ts`: integers in its JSON schema by mistake."""
    for name in ("maximum", "minimum", "default"):
        bound = definitions.get("NumberSchema", {}).get("properties", {}).get(name)
        if bound is not None:
            bound["type"] = "number"
    return definitions


def main() -> None:
    """Write them all."""
    program = SUITE.install() / "conformance-alpha" / "dist" / "index.js"
    schemas = {FIRST: first_schema(SOURCE_OF_FIRST.install()), **suite_schemas(program.read_text("utf-8"))}
    for revision, schema in schemas.items():
        (FOLDER / f"{revision}.json").write_text(written(schema), "utf-8")


if __name__ == "__main__":
    main()
