"""Results are held against what their tools promised, once per promise compiled, and never at any price."""

from __future__ import annotations

from typing import Any

import pytest

from gaia_bridge.json_schema import output_schemas as outputs
from gaia_bridge.json_schema.output_schemas import OutputSchemas
from gaia_bridge.json_schema.validation import SchemaValidator

SUM: dict[str, Any] = {"type": "object", "properties": {"sum": {"type": "integer"}}}


def tool(name: Any, schema: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {}, "outputSchema": schema}


def promised(*tools: dict[str, Any]) -> OutputSchemas:
    schemas = OutputSchemas("server")
    schemas.replace(tools)
    return schemas


@pytest.mark.requirement("F-063", "S-29")
@pytest.mark.parametrize(
    ("result", "kept"),
    [
        ({"structuredContent": {"sum": 3}}, True),
        ({"structuredContent": {"sum": "3"}}, False),
        ({"structuredContent": [3]}, False),
        ({"structuredContent": {"sum": "3"}, "isError": False}, False),
        ({"structuredContent": {"sum": "3"}, "isError": True}, True),
        ({"structuredContent": {"sum": "3"}, "resultType": "complete"}, False),
        ({"structuredContent": {"sum": "3"}, "resultType": "input_required"}, True),
        ({"structuredContent": None}, True),
        ({"content": []}, True),
    ],
)
def test_only_structured_content_of_a_complete_success_is_judged(result: dict[str, Any], kept: bool) -> None:
    assert (promised(tool("add", SUM)).problem("add", result) is None) == kept


@pytest.mark.requirement("F-063")
def test_a_problem_names_the_place() -> None:
    problem = promised(tool("add", SUM)).problem("add", {"structuredContent": {"sum": "3"}})
    assert problem is not None
    assert problem.startswith("- at /sum: got '3'; ")


@pytest.mark.parametrize("schema", [None, True, [], "x"])
def test_what_is_no_schema_promises_nothing(schema: Any) -> None:
    schemas = promised(tool("odd", schema), {"name": "none"}, tool(5, SUM))
    assert [schemas.problem(name, {"structuredContent": 5}) for name in ("odd", "none", "5", "unknown")] == [None] * 4


def test_a_promise_holds_until_it_is_replaced_and_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []

    class Counting(SchemaValidator):
        def __init__(self, schema: Any) -> None:
            compiled.append(schema)
            super().__init__(schema)

    monkeypatch.setattr(outputs, "SchemaValidator", Counting)
    text = {"type": "string"}
    schemas = promised(tool("a", SUM), tool("b", text))
    assert compiled == []
    for _ in range(3):
        assert schemas.problem("a", {"structuredContent": "x"}) is not None
    schemas.replace([tool("a", dict(SUM)), tool("b", SUM)])
    assert schemas.problem("a", {"structuredContent": "x"}) is not None
    assert schemas.problem("b", {"structuredContent": "x"}) is not None
    assert compiled == [SUM, SUM]
    schemas.replace([tool("a", text)])
    assert schemas.problem("a", {"structuredContent": "x"}) is None
    assert schemas.problem("b", {"structuredContent": "x"}) is None
    assert compiled == [SUM, SUM, text]


def test_a_schema_that_cannot_be_used_is_told_once_and_promises_nothing(caplog: pytest.LogCaptureFixture) -> None:
    schemas = promised(tool("bad\n", {"$ref": "#/nowhere"}))
    assert [schemas.problem("bad\n", {"structuredContent": 5}) for _ in range(3)] == [None] * 3
    [message] = caplog.messages
    assert message.startswith("server: tool 'bad\\n': its output schema cannot be used: at (root): ")


def test_a_keyword_that_cannot_be_used_turns_off_no_other() -> None:
    for bad in ({"pattern": "[a-z"}, {"type": "banana"}, {"minimum": "0"}):
        schemas = promised(tool("a", {"properties": {"x": {"type": "integer"}, "y": bad}}))
        assert schemas.problem("a", {"structuredContent": {"x": "1", "y": "?"}}) is not None
        assert schemas.problem("a", {"structuredContent": {"x": 1, "y": "?"}}) is None


@pytest.mark.requirement("F-105")
def test_text_that_is_no_unicode_is_not_judged() -> None:
    assert promised(tool("add", SUM)).problem("add", {"structuredContent": {"x": "\ud800"}}) is None


@pytest.mark.requirement("S-30", "S-37")
def test_what_would_take_too_long_to_judge_is_let_through() -> None:
    """Thousands of alternatives that each fail at the last of many items: half a minute, in which nobody is served."""
    schema = {"anyOf": [{"items": {"type": "integer", "maximum": limit}} for limit in range(1_600)]}
    assert promised(tool("slow", schema)).problem("slow", {"structuredContent": [0] * 1_000_000 + ["x"]}) is None


@pytest.mark.requirement("S-30", "S-37")
def test_a_large_value_with_errors_everywhere_is_refused_in_one_line() -> None:
    schema = {"anyOf": [{"items": {"type": "string"}}, {"items": {"type": "integer"}}]}
    problem = promised(tool("wrong", schema)).problem("wrong", {"structuredContent": [None] * 3_000})
    assert problem == "- at (root): it does not fit the schema, and is too large or too nested to say where"
