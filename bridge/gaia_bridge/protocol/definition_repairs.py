"""Repairs of common mistakes in definitions: a strict client refuses a whole list for one invalid definition. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from datetime import datetime
from typing import Any, Final

from gaia_bridge.json_schema.portable_schemas import portable, without_nulls
from gaia_bridge.protocol.content import DECORATION, EXECUTION, LAST_MODIFIED, MODERN_DEFINITIONS, RESULTS
from gaia_bridge.protocol.shapes import Problem, Record
from gaia_bridge.text.json_types import JSON, at_pointer, is_array, is_object

OUTPUT_PART: Final = "part of the output schema of tool"
"""The kind of thing that is left out of a tool whose output schema not every client can compile."""

_OPTIONAL: Final = frozenset(
    {
        "title",
        "description",
        "icons",
        "_meta",
        "annotations",
        "outputSchema",
        "execution",
        "arguments",
        "mimeType",
        "size",
    }
)
"""The optional fields of all kinds of definitions. MCP does not allow null in them, but servers often send it."""

_PARTS: Final[Mapping[str, int]] = {"annotations": 2, "arguments": 3, "icons": 2}
"""How deep the part lies that is left out of an optional field, if not all of the field is: a hint, an icon, or one
thing that is said of an argument."""

_NOTES: Final = frozenset({"$comment", "$defs", "$id", "$schema", "definitions", "description", "title"})
"""Keywords beside a reference that demand nothing."""

_MAX_REFERENCES: Final = 8
"""References of which each leads to the next."""


def repaired(kind: str, definition: Mapping[str, Any]) -> JSON:
    """The definition without violations of MCP's schema, as far as its meaning is clear.

    An optional part that stays invalid is left out; the definition says less then, but nothing wrong.

    Args:
        kind: A key of `vocabulary.LIST_FIELDS`.
        definition: The definition, unchecked. Valid and unknown fields are left unchanged.
    """
    definition = _without_nulls(definition, _OPTIONAL)
    if is_object(annotations := definition.get("annotations")):
        definition["annotations"] = _with_timestamp(_without_nulls(annotations))
    if is_array(icons := definition.get("icons")):
        definition["icons"] = [_without_nulls(icon) if is_object(icon) else icon for icon in icons]
    if kind == "tool":
        definition["inputSchema"] = _object_schema(definition.get("inputSchema"))
        if is_object(output := definition.get("outputSchema")):
            definition["outputSchema"] = _with_root_type(_inlined(output))
        if "execution" in definition and not EXECUTION.is_plain(definition["execution"]):
            del definition["execution"]
    elif kind == "prompt" and is_array(arguments := definition.get("arguments")):
        definition["arguments"] = [_without_nulls(item) if is_object(item) else item for item in arguments]
    return _without_invalid_parts(MODERN_DEFINITIONS[kind], definition, _OPTIONAL)


def with_portable_output(tool: JSON) -> tuple[JSON, str | None]:
    """The tool with an output schema that every client can compile, and the part of it that had to be left out.

    Args:
        tool: A definition that is `repaired`, and has no `shape_problem`; not changed.
    """
    if (schema := tool.get("outputSchema")) is None:
        return tool, None
    written, fault = portable(schema)
    fault = None if fault is None else f"not every client can compile it {fault}"
    return (tool if written is schema else {**tool, "outputSchema": written}), fault


def without_tasks_only(tool: JSON) -> JSON:
    """The tool as the bridge plays it: whoever calls one that runs only as a task need not know of tasks."""
    execution = tool.get("execution")
    if not is_object(execution) or execution.get("taskSupport") != "required":
        return tool
    return {**tool, "execution": {**execution, "taskSupport": "optional"}}


def repaired_result(method: str, result: JSON) -> JSON:
    """The result without violations of MCP's schema, as far as its meaning is clear; the same one if it has none.

    Args:
        method: A key of `RESULTS`.
        result: The result, unchecked; not changed.
    """
    if (shape := RESULTS.get(method)) is None or shape.is_plain(result):
        return result
    result = _without_nulls(result, frozenset({"_meta", "description", "isError", "structuredContent"}))
    for field in ("content", "contents", "messages"):
        if is_array(blocks := result.get(field)):
            result[field] = [_repaired_block(block) for block in blocks]
    if method == "tools/call" and "structuredContent" in result and result.get("content") is None:
        result["content"] = []
    return result


def _repaired_block(block: Any) -> Any:
    """A block of content, a message or the contents of a resource, without nulls and invalid decoration."""
    if not is_object(block):
        return block
    block = _without_nulls(block, _OPTIONAL)
    if "uri" in block and {"text", "blob"} <= block.keys():  # of which one may be null
        block = _without_nulls(block, frozenset({"text", "blob"}))
    for field in ("content", "resource"):
        if is_object(inner := block.get(field)):
            block[field] = _repaired_block(inner)
    if is_object(annotations := block.get("annotations")):
        block["annotations"] = _with_timestamp(_without_nulls(annotations))
    return _without_invalid_parts(DECORATION, block, _OPTIONAL)


def _without_invalid_parts(shape: Record, value: JSON, optional: frozenset[str]) -> JSON:
    """The value without the parts of optional fields that do not fit."""
    if shape.accepts(value):
        return value
    places = {_optional_part(problem, optional) for problem in shape.problems(value)}
    without: JSON = _without(value, places - {()})
    return without


def _optional_part(problem: Problem, optional: frozenset[str]) -> tuple[str | int, ...]:
    """The place of the part that is left out because of a problem; empty if that is not optional."""
    field = problem.place[0] if problem.place else None
    place = problem.place[: _PARTS.get(str(field), 1)]
    if field not in optional or (field == "arguments" and (len(place) < 3 or place[2] == "name")):
        return ()
    return place


def _without(value: Any, places: Set[tuple[str | int, ...]]) -> Any:
    """The value without what is at the places; all at once, since a list of icons may have thousands of faults."""
    inner: dict[str | int, set[tuple[str | int, ...]]] = {}
    for step, *rest in places:
        inner.setdefault(step, set()).add(tuple(rest))

    def kept(items: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        for step, item in items:
            rests = inner.get(step, set())
            if () not in rests:
                yield step, _without(item, rests) if rests else item

    if is_array(value):
        return [item for _, item in kept(enumerate(value))]
    return dict(kept(value.items())) if is_object(value) else value


def _with_timestamp(annotations: JSON) -> JSON:
    """Annotations with a time in the form of RFC 3339, where another form names one moment, too."""
    written = annotations.get("lastModified")
    if not isinstance(written, str):
        return annotations
    try:
        moment = datetime.fromisoformat(written)
    except ValueError:
        return annotations
    if moment.tzinfo is None or LAST_MODIFIED.accepts(written):
        return annotations
    return {**annotations, "lastModified": moment.isoformat()}


def with_named_properties(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """The tool with `properties` in its input schema. They are optional in MCP, but some frameworks (mcpadapt, and
    with it smolagents) read them without checking, and lose the whole list because of one tool without them."""
    schema: JSON = tool["inputSchema"]
    return tool if "properties" in schema else {**tool, "inputSchema": {**schema, "properties": {}}}


def with_object_properties(schema: object) -> Any:
    """The schema with objects in place of boolean property schemas, which revisions before 2026-07-28 do not allow."""
    properties = schema.get("properties") if is_object(schema) else None
    if not is_object(schema) or not is_object(properties) or not any(isinstance(s, bool) for s in properties.values()):
        return schema
    converted = {name: _as_object(inner) for name, inner in properties.items()}
    return {**schema, "properties": converted}


def _as_object(schema: object) -> object:
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    return schema


def _without_nulls(given: Mapping[str, Any], fields: frozenset[str] | None = None) -> JSON:
    return {
        name: value for name, value in given.items() if value is not None or (fields is not None and name not in fields)
    }


def _object_schema(schema: object) -> object:
    """The input schema, repaired so that it describes an object; returned unchanged if it describes something else."""
    if schema is None:
        schema = {}
    if not is_object(schema):
        return schema
    repaired_schema: JSON = _with_root_type(_inlined(schema))
    kind = repaired_schema.get("type")
    if kind is None:
        none: JSON = {"type": "object", "properties": {}}
        repaired_schema = none | _without_nulls(repaired_schema, frozenset({"type"}))
    if "$schema" in repaired_schema and not isinstance(repaired_schema["$schema"], str):
        del repaired_schema["$schema"]
    if "properties" in repaired_schema:
        repaired_schema["properties"] = _properties(repaired_schema["properties"])
    if "required" in repaired_schema and (required := _required(repaired_schema.pop("required"))) is not None:
        repaired_schema["required"] = required
    return without_nulls(repaired_schema)


def _with_root_type(schema: JSON) -> JSON:
    """A copy of the schema of an object whose type is that alone: arguments and structured content are never null."""
    kind = schema.get("type")
    return {**schema, "type": "object"} if is_array(kind) and "object" in kind else dict(schema)


def _inlined(schema: JSON) -> JSON:
    """The schema with what its root refers to in place of the reference: msgspec and Effect write definitions so, and
    many clients look for `type` and `properties` at the root."""
    for _ in range(_MAX_REFERENCES):
        reference = schema.get("$ref")
        others = {key: value for key, value in schema.items() if key != "$ref"}
        if not isinstance(reference, str) or not reference.startswith("#/") or "$id" in others:
            return schema
        if not others.keys() <= _NOTES | {"type"} or others.get("type", "object") != "object":
            return schema
        target = at_pointer(schema, reference)
        if not is_object(target) or "$id" in target or not target.keys().isdisjoint(("$defs", "definitions")):
            return schema
        schema = {**target, **others}
    return schema


def _properties(properties: object) -> JSON:
    """Schemas by name. What is none is one that takes anything: the server checks its arguments itself."""
    given = properties if is_object(properties) else {}
    return {name: schema if isinstance(schema, dict | bool) else {} for name, schema in given.items()}


def _required(required: object) -> list[str] | None:
    """A list of names; `None` for what is none, such as the boolean of draft 3 of JSON Schema."""
    if isinstance(required, str):
        return [required]
    return [name for name in required if isinstance(name, str)] if is_array(required) else None
