"""Whatever a server lists, the SDKs of other hands show all that others list beside it, and call every tool."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import anyio.to_thread
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gaia_bridge.model import ServerOptions, StdioServerSpec
from gaia_bridge.text.json_types import JSON
from tests.conformance.runner import node_binary
from tests.foreign.test_foreign_clients import HERE, PYTHON, TYPESCRIPT
from tests.interaction.connecting import serving
from tests.support.installed_programs import needs, required
from tests.support.odd_definitions import GOOD, KEYS, LISTS, odd_definitions
from tests.support.upstreams import TESTS, until_ready

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]  # the first run installs everything

EXAMPLES: Final = 80
SECONDS: Final = 120
FIELDS: Final = {"tool": "tools", "prompt": "prompts", "resource": "resources", "resource template": "templates"}
OUTPUTS: Final[list[JSON]] = [
    {"type": "object", "properties": {"a": {"pattern": "^(?P<word>yes)$"}}},
    {"type": "object", "properties": {"a": {"pattern": "(?i)YES"}}},
    {"type": "object", "properties": {"a": {"pattern": r"yes\z"}}},
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "bigint"}}},
    {"type": "object", "id": "Answer", "properties": {"a": {"id": "#a", "type": "string"}}},
    {"type": "object", "$id": "same", "required": ["a"]},
    {"type": "object", "$id": "same", "properties": {"a": {"type": "string"}, "b": {"items": False}}},
    {"type": "object", "required": None, "properties": None},
    {"$ref": "#/$defs/Answer", "$defs": {"Answer": {"type": "object", "properties": {"a": {"type": "string"}}}}},
    {"type": "object", "$schema": "http://json-schema.org/draft-04/schema#"},
    {"type": "object", "properties": {"b": {"enum": []}, "c": {"nullable": True}}},
    {
        "type": "object",
        "oneOf": [{"properties": {"a": {"pattern": "(?P<n>yes)"}}}, {"properties": {"a": {"const": "no"}}}],
    },
    {"type": "object", "not": {"properties": {"a": {"pattern": "(?P<n>no)"}}}},
]
"""Output schemas that `{"a": "yes"}` fits, and not every client compiles."""


def collected(kind: str) -> list[JSON]:
    """Odd definitions of a kind, each with a name of its own where that is not what is odd about it."""
    found: list[JSON] = []

    @settings(
        max_examples=EXAMPLES,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType]  # a metaclass of theirs
    )
    @given(odd_definitions[kind], st.none())
    def collect(definition: JSON, _: None) -> None:
        key = KEYS[kind]
        found.append({**definition, "name": f"odd-{len(found)}", key: f"{definition[key]}{len(found)}"})

    collect()
    if kind == "tool":
        for tool in found:
            tool.pop("outputSchema", None) if tool["name"][-1] in "02468" else None
        found += [
            {"name": f"promised-{number}", "inputSchema": {"type": "object"}, "outputSchema": schema}
            for number, schema in enumerate(OUTPUTS)
        ]
        found.append({"name": "task", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}})
    return found


def lists_of(definitions: dict[str, Sequence[JSON]]) -> JSON:
    return {method: {field: definitions[kind]} for kind, (method, field) in LISTS.items()}


def specs(folder: Path) -> list[StdioServerSpec]:
    """A server that lists odd things, and one that lists good ones."""
    made: list[StdioServerSpec] = []
    listed: dict[str, dict[str, Sequence[JSON]]] = {
        "odd": {kind: collected(kind) for kind in LISTS},
        "good": {kind: [GOOD[kind]] for kind in LISTS},
    }
    for name, definitions in listed.items():
        file = folder / f"{name}.json"
        file.write_text(json.dumps(lists_of(definitions)), "utf-8")
        program = str(TESTS / "servers" / "odd_lists.py")
        made.append(
            StdioServerSpec(name, sys.executable, ("-S", program, str(file)), options=ServerOptions(lazy=False))
        )
    return made


def told(*command: str) -> Any:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=SECONDS, check=False, cwd=HERE)
    assert done.returncode == 0, done.stderr[-2_000:]
    return json.loads(done.stdout)


def judged(client: str, said: dict[str, Any]) -> None:
    """Everything that is good was listed, and every promise was kept."""
    for field in FIELDS.values():
        assert isinstance(said[field], list), (client, field, said[field])
        names: list[str] = said[field]
        assert any(name.endswith("good") for name in names), (client, field)
        assert sum("odd" in name for name in names) > EXAMPLES // 4, (client, field)
    expected = [f"odd__promised-{number}" for number in range(len(OUTPUTS))]
    for name in ("good__good", "odd__task", *expected):
        assert json.loads(said["calls"][name]) == {"a": "yes"}, (client, name, said["calls"][name])


@needs(*TYPESCRIPT, PYTHON)
async def test_sdks_list_and_call_everything_good_beside_odd_definitions(tmp_path: Path) -> None:
    with required("the SDKs for TypeScript and Python"):
        node = node_binary(TYPESCRIPT[0].install().parent)
        TYPESCRIPT[1].install()
        python = PYTHON.install()
    async with serving({}) as (url, bridge):
        for spec in specs(tmp_path):
            await bridge.add_upstream(spec)
        await until_ready(*bridge.sources)
        script, early = str(HERE / "typescript_lists.mjs"), str(HERE / "early_python_lists.py")
        typescript = await anyio.to_thread.run_sync(told, node, script, f"{url}/mcp")
        for client, said in typescript[f"{url}/mcp"].items():
            judged(client, said)
        judged("Python SDK 1", await anyio.to_thread.run_sync(told, python, early, f"{url}/mcp"))
