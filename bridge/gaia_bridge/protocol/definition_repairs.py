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
"""The kind under which a part of an output schema is reported as left out: not every client can compile that part."""
_OPTIONAL: Final = frozenset(
    "title description icons _meta annotations outputSchema execution arguments mimeType size".split()
)
"""The optional fields of all kinds of definitions. MCP does not allow null in them, but servers often send it."""
_PARTS: Final[Mapping[str, int]] = {"annotations": 2, "arguments": 3, "icons": 2}
"""The depth of the part to be left out where an optional field is not left out whole: a hint, an icon, or one
property of an argument."""
_NOTES: Final = frozenset({"$comment", "$defs", "$id", "$schema", "definitions", "description", "title"})
"""Keywords that may stand beside a reference because they validate nothing."""
_MAX_REFERENCES: Final = 8
"""The longest chain of references to be resolved."""


def repaired(kind: str, definition: Mapping[str, Any]) -> JSON:
    """Repair violations of MCP's schema in a definition, as far as its meaning is clear; `kind` is as in `kinds.KINDS`.

    Valid and unknown fields are left unchanged. An optional part that stays invalid is left out: less information, but
    none that is wrong.
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
    return _without_invalid_parts(MODERN_DEFINITIONS[kind], definition)


def with_portable_output(tool: JSON) -> tuple[JSON, str | None]:
    """Return a tool with an output schema that every client can compile, and the part that had to be left out.

    The tool is `repaired`, and has no problem of its shape.
    """
    if (schema := tool.get("outputSchema")) is None:
        return tool, None
    written, fault = portable(schema)
    fault = None if fault is None else f"not every client can compile it {fault}"
    return (tool if written is schema else {**tool, "outputSchema": written}), fault


def without_tasks_only(tool: JSON) -> JSON:
    """Make tasks optional in a tool that requires them: the bridge waits for the task if its client knows no tasks."""
    execution = tool.get("execution")
    if not is_object(execution) or execution.get("taskSupport") != "required":
        return tool
    return {**tool, "execution": {**execution, "taskSupport": "optional"}}


def repaired_result(method: str, result: JSON) -> JSON:
    """Repair violations of MCP's schema in a result, as far as its meaning is clear; the same object if it has none."""
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
    """Remove nulls and invalid decoration from a block of content, a message or the contents of a resource."""
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
    return _without_invalid_parts(DECORATION, block)


def _without_invalid_parts(shape: Record, value: JSON) -> JSON:
    """Remove the parts of optional fields that do not fit the shape."""
    if shape.accepts(value):
        return value
    without: JSON = _without(value, {_optional_part(problem) for problem in shape.problems(value)} - {()})
    return without


def _optional_part(problem: Problem) -> tuple[str | int, ...]:
    """Return the place of the part to be left out because of a problem; empty if that part is not optional."""
    field = problem.place[0] if problem.place else None
    place = problem.place[: _PARTS.get(str(field), 1)]
    if field not in _OPTIONAL or (field == "arguments" and (len(place) < 3 or place[2] == "name")):
        return ()
    return place


def _without(value: Any, places: Set[tuple[str | int, ...]]) -> Any:
    """Remove the parts at the places; all at once, since a list of icons may have thousands of faults."""
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
    """Rewrite `lastModified` in the form of RFC 3339 where it is in another form that names one moment."""
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
    """Add empty `properties` to an input schema that has none. They are optional in MCP, but some frameworks (mcpadapt,
    and with it smolagents) read them without checking, and lose the whole list because of one tool without them."""
    schema: JSON = tool["inputSchema"]
    return tool if "properties" in schema else {**tool, "inputSchema": {**schema, "properties": {}}}


def with_object_properties(schema: object) -> Any:
    """Replace boolean property schemas by objects, since revisions before 2026-07-28 do not allow booleans."""
    properties = schema.get("properties") if is_object(schema) else None
    if not is_object(schema) or not is_object(properties) or not any(isinstance(s, bool) for s in properties.values()):
        return schema
    objects: dict[bool, JSON] = {True: {}, False: {"not": {}}}
    converted = {name: objects[inner] if isinstance(inner, bool) else inner for name, inner in properties.items()}
    return {**schema, "properties": converted}


def _without_nulls(given: Mapping[str, Any], fields: frozenset[str] | None = None) -> JSON:
    return {
        name: value for name, value in given.items() if value is not None or (fields is not None and name not in fields)
    }


def _object_schema(schema: object) -> object:
    """Repair an input schema so that it describes an object; a value that is no JSON object is returned unchanged."""
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
    """Copy a schema; a type `["object", "null"]` becomes `object`: arguments and structured content are never null."""
    kind = schema.get("type")
    return {**schema, "type": "object"} if is_array(kind) and "object" in kind else dict(schema)


def _inlined(schema: JSON) -> JSON:
    """Replace a reference at the root of a schema by its target: msgspec and Effect write such references, and many
    clients look for `type` and `properties` at the root."""
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
    """Return schemas by name. A value that is none becomes `{}`, which accepts all: the server checks arguments."""
    given = properties if is_object(properties) else {}
    return {name: schema if isinstance(schema, dict | bool) else {} for name, schema in given.items()}


def _required(required: object) -> list[str] | None:
    """Return a list of names; `None` for a value that is no such list, as the boolean of draft 3 of JSON Schema."""
    if isinstance(required, str):
        return [required]
    return [name for name in required if isinstance(name, str)] if is_array(required) else None
