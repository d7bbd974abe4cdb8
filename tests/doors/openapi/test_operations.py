"""Operations as tools: names, arguments, descriptions, hints, schemas, and what is left out."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from gaia_bridge.settings import OpenApiLimits
from gaia_bridge.text.json_types import JSON
from gaia_bridge_doors.openapi.document import document_of
from gaia_bridge_doors.openapi.operations import Operation, read_operations

LIMITS = OpenApiLimits()


def read(
    paths: JSON,
    version: str = "3.1.0",
    limits: OpenApiLimits = LIMITS,
    fixed: frozenset[str] = frozenset(),
    **more: Any,
) -> Any:
    return read_operations(document_of({"openapi": version, "paths": paths, **more}), limits, fixed)


def one(operation: JSON, path: str = "/x", method: str = "get", **more: Any) -> Operation:
    [found], left_out = read({path: {method: operation}}, **more)
    assert left_out == []
    jsonschema_rs.meta.validate(found.definition["inputSchema"])
    assert isinstance(found, Operation)
    return found


def tool(operation: JSON, path: str = "/x", method: str = "get", **more: Any) -> JSON:
    return one(operation, path, method, **more).definition


def schema(operation: JSON, **more: Any) -> JSON:
    found: JSON = tool(operation, **more)["inputSchema"]
    return found


def body(schema: JSON, media: str = "application/json", **more: Any) -> JSON:
    return {"requestBody": {"content": {media: {"schema": schema}}, "required": True, **more}}


def left_out_of(operation: JSON, path: str = "/x", **more: Any) -> str:
    found, [item] = read({path: {"post": operation}}, **more)
    assert found == []
    return str(item.reason)


def test_names_come_from_the_operation_or_the_path_and_are_valid_and_unique() -> None:
    paths: JSON = {
        "/a": {"get": {"operationId": "list all/things!"}, "post": {"operationId": "list all things"}},
        "/pets/{id}/toys": {"parameters": [{"in": "path", "name": "id", "schema": {}}], "get": {}, "x-note": {}},
        "/b": {"get": {"operationId": "n" * 100}, "put": {"operationId": "n" * 100}, "summary": "no method"},
        "x-extension": {"get": {}},
    }
    found, left_out = read(paths)
    assert left_out == []
    names = [operation.name for operation in found]
    assert names == ["list_all_things", "list_all_things_2", "get_pets_id_toys", "n" * 64, "n" * 62 + "_2"]


def test_descriptions_have_the_summary_and_say_what_is_deprecated() -> None:
    assert tool({})["description"] == "GET /x"
    told = tool({"summary": "Short.", "description": "Long.", "deprecated": True})
    assert told["title"] == "Short."
    assert told["description"].endswith("Short.\n\nLong.")
    assert told["description"].startswith("Deprecated:")


def test_methods_say_what_they_promise() -> None:
    hints = {method: tool({}, method=method).get("annotations") for method in ("get", "head", "put", "delete", "post")}
    assert hints == {
        "get": {"readOnlyHint": True},
        "head": {"readOnlyHint": True},
        "put": {"idempotentHint": True},
        "delete": {"destructiveHint": True, "idempotentHint": True},
        "post": None,
    }


def test_parameters_become_arguments_and_those_of_the_operation_win() -> None:
    paths: JSON = {
        "/x/{id}": {
            "parameters": [
                {"$ref": "#/components/parameters/Id"},
                {"in": "query", "name": "q", "schema": {"type": "string"}},
            ],
            "get": {
                "parameters": [
                    {
                        "in": "query",
                        "name": "q",
                        "required": True,
                        "description": "How many.",
                        "schema": {"type": "integer"},
                    },
                    {"in": "query", "name": "id", "schema": {"type": "boolean"}, "deprecated": True},
                    {
                        "in": "query",
                        "name": "filter[a]",
                        "content": {"application/json": {"schema": {"type": "object"}}},
                    },
                ]
            },
        }
    }
    components = {"parameters": {"Id": {"in": "path", "name": "id", "required": True, "schema": {"type": "string"}}}}
    [found], _ = read(paths, components=components)
    assert found.definition["inputSchema"] == {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "q": {"type": "integer", "description": "How many."},
            "id_query": {"type": "boolean", "deprecated": True},
            "filter_a_": {"type": "object"},
        },
        "required": ["id", "q"],
        "additionalProperties": False,
    }


def test_headers_that_are_not_for_a_model_are_no_arguments() -> None:
    names = ("Accept", "Content-Type", "Authorization", "Host", "X-Api-Key", "X-Trace")
    parameters: Any = [{"in": "header", "name": name, "required": True, "schema": {}} for name in names]
    assert schema({"parameters": parameters}, fixed=frozenset({"x-api-key"}))["properties"] == {"X-Trace": {}}


def test_an_object_body_is_merged_and_what_would_collide_is_not() -> None:
    item: JSON = {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}
    assert schema(body(item), method="post")["properties"] == {"a": {"type": "string"}, "b": {}}
    assert schema(body(item), method="post")["required"] == ["a"]
    assert "additionalProperties" not in schema(body(item), method="post")  # nothing says that there are no others
    assert schema(body({**item, "additionalProperties": False}), method="post")["additionalProperties"] is False
    query: JSON = {"parameters": [{"in": "query", "name": "a", "schema": {}}]}
    collided = schema({**body(item), **query}, method="post")
    assert collided["properties"] == {"a": {}, "body": item}
    assert collided["required"] == ["body"]
    assert collided["additionalProperties"] is False


@pytest.mark.parametrize(
    "item",
    [
        {"type": "array", "items": {}, "minItems": 1},
        {"type": "object", "additionalProperties": {"type": "string"}, "properties": {"a": {}}},
        {"type": "object", "properties": {"a b": {}}},
        {"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]},
        {"type": ["object", "null"], "properties": {"a": {}}},
        {"type": "object"},
    ],
)
def test_other_bodies_are_one_argument(item: JSON) -> None:
    assert schema(body(item), method="post")["properties"] == {"body": item}


def test_a_body_that_may_be_left_out_and_needs_something_if_it_is_there_is_one_argument() -> None:
    item: JSON = {"type": "object", "properties": {"a": {}}, "required": ["a"]}
    found = schema(body(item, required=False), method="post")
    assert (found["properties"], found.get("required")) == ({"body": item}, None)


def test_references_become_definitions_also_where_they_go_in_circles() -> None:
    components = {
        "schemas": {
            "Node": {
                "type": "object",
                "properties": {"next": {"$ref": "#/components/schemas/Node"}, "v": {"$ref": "#/components/schemas/V"}},
            },
            "V": {"type": "integer"},
            "Unused": {},
        }
    }
    item: JSON = {"type": "array", "items": {"$ref": "#/components/schemas/Node"}}
    found = schema(body(item), method="post", components=components)
    assert found["properties"]["body"] == {"type": "array", "items": {"$ref": "#/$defs/Node"}}
    assert found["$defs"] == {
        "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "v": {"$ref": "#/$defs/V"}}},
        "V": {"type": "integer"},
    }
    validator = jsonschema_rs.validator_for(found)
    assert validator.is_valid({"body": [{"next": {"next": {"v": 1}}}]})
    assert not validator.is_valid({"body": [{"next": {"next": {"v": "1"}}}]})


def test_two_parts_with_one_name_stay_two() -> None:
    more: JSON = {"components": {"schemas": {"A": {"type": "string"}}}, "x-other": {"A": {"type": "integer"}}}
    item: JSON = {"anyOf": [{"$ref": "#/components/schemas/A"}, {"$ref": "#/x-other/A"}]}
    found = schema(body(item), method="post", **more)
    assert {value["type"] for value in found["$defs"].values()} == {"string", "integer"}


def test_version_3_0_is_translated_to_json_schema() -> None:
    item: JSON = {
        "type": "object",
        "required": ["n"],
        "properties": {
            "n": {"type": "integer", "nullable": True, "minimum": 1, "exclusiveMinimum": True, "example": 2},
            "e": {"type": "string", "nullable": True, "enum": ["a"]},
            "m": {"type": "number", "maximum": 9, "exclusiveMaximum": False},
            "r": {"$ref": "#/components/schemas/V", "description": "does not count"},
            "w": {"nullable": True, "allOf": [{"$ref": "#/components/schemas/V"}]},
        },
        "discriminator": {"propertyName": "e"},
        "xml": {"name": "x"},
        "x-more": 1,
    }
    found = schema(body(item), method="post", version="3.0.3", components={"schemas": {"V": {"type": "integer"}}})
    assert found["properties"] == {
        "n": {"type": ["integer", "null"], "exclusiveMinimum": 1, "examples": [2]},
        "e": {"type": ["string", "null"], "enum": ["a", None]},
        "m": {"type": "number", "maximum": 9},
        "r": {"$ref": "#/$defs/V"},
        "w": {"anyOf": [{"allOf": [{"$ref": "#/$defs/V"}]}, {"type": "null"}]},
    }
    assert found["required"] == ["n"]


def test_properties_that_only_come_back_are_left_out() -> None:
    item: JSON = {
        "type": "object",
        "required": ["id", "secret", "name"],
        "properties": {"id": {"readOnly": True}, "secret": {"writeOnly": True}, "name": {}},
    }
    found = schema(body(item), method="post")
    assert (found["required"], list(found["properties"])) == (["secret", "name"], ["secret", "name"])
    apart: JSON = {"allOf": [{"$ref": "#/components/schemas/Base"}, {"required": ["id", "name"]}], "required": ["id"]}
    base = {"properties": {"id": {"readOnly": True}}}
    parts = schema(body(apart), method="post", components={"schemas": {"Base": base}})["properties"]["body"]
    assert (parts["allOf"][1]["required"], parts["required"]) == (["name"], [])


def test_no_output_is_promised_because_no_api_is_held_to_its_document() -> None:
    """Clients throw away what breaks a promise, and the call has been made by then."""
    answers: JSON = {"200": {"content": {"application/json": {"schema": {"type": "object", "properties": {"a": {}}}}}}}
    assert "outputSchema" not in tool({"responses": answers})


UNUSABLE: list[tuple[JSON, str]] = [
    (body({}, "application/xml2+zip;x"), "expected JSON, a form, text or a file"),
    ({"requestBody": {}}, "no media type"),
    ({"parameters": [{"in": "query"}]}, "without a name and a place"),
    ({"parameters": [{"in": "query", "name": "a", "style": "matrix"}]}, "a style that is none for a query"),
    ({"parameters": [{"$ref": "p.yaml"}]}, "is in another file"),
    ({"servers": [{"url": "https://uploads.example.com"}]}, "servers of its own"),
    (
        {"parameters": [{"in": "query", "name": "a", "content": {"application/xml": {}}}]},
        "expected a schema, or JSON",
    ),
    (body({"$ref": "#/nowhere"}), "nothing is there"),
    ({"parameters": 5}, "its 'parameters' are no list"),
    (body({"$ref": 5}), "a reference that is no text"),
    ({"parameters": [{"in": "header", "name": "X: a\r\nB"}]}, "cannot be the name of a header"),
]


@pytest.mark.parametrize(("operation", "reason"), UNUSABLE)
def test_what_cannot_be_called_is_left_out_with_the_reason(operation: JSON, reason: str) -> None:
    assert reason in left_out_of(operation)


def test_a_path_with_a_parameter_that_nothing_describes_is_left_out() -> None:
    assert "{id}, which none of its parameters describes" in left_out_of({}, "/x/{id}")


def test_one_bad_operation_leaves_the_others_alone_and_too_many_are_cut() -> None:
    paths: JSON = {"/a": {"get": {"parameters": [1]}, "put": {}}, "/b": {"get": {}}, "/c": {"get": {}}}
    found, left_out = read(paths, limits=OpenApiLimits(operations=2))
    assert [operation.name for operation in found] == ["put_a", "get_b"]
    assert [item.name for item in left_out] == ["get_a", "get_c"]
    assert "more than 2 operations" in left_out[1].reason


def test_schemas_that_go_on_for_ever_are_left_out() -> None:
    deep: JSON = {}
    for _ in range(80):
        deep = {"items": deep}
    assert "nested deeper" in left_out_of(body(deep))
    assert "parts" in left_out_of(body({"anyOf": [{}] * 6_000}))


def test_no_more_is_kept_of_what_is_left_out_than_of_what_is_not() -> None:
    paths: JSON = {f"/{number}": {"get": {"parameters": [1]}} for number in range(9)}
    found, left_out = read(paths, limits=OpenApiLimits(operations=3))
    assert (found, len(left_out)) == ([], 4)


def test_what_all_operations_refer_to_is_read_once_and_all_tools_together_have_a_bound() -> None:
    chain: JSON = {f"S{n}": {"properties": {"next": {"$ref": f"#/components/schemas/S{n + 1}"}}} for n in range(99)}
    chain["S99"] = {"type": "string", "description": "x" * 1_000}
    item = body({"$ref": "#/components/schemas/S0"})
    paths: JSON = {f"/{number}": {"post": item} for number in range(50)}
    found, left_out = read(paths, components={"schemas": chain}, limits=OpenApiLimits(tools_bytes=100_000))
    assert (len(found) + len(left_out), 5 < len(found) < 25) == (50, True)
    assert "more than 100,000 bytes" in left_out[0].reason
    first, second = (operation.definition["inputSchema"]["$defs"]["S50"] for operation in found[:2])
    assert first is second


def test_a_path_may_be_a_reference_and_one_that_leads_nowhere_is_told() -> None:
    paths: JSON = {"/a": {"$ref": "#/components/pathItems/A"}, "/b": {"$ref": "paths.yaml#/b"}}
    found, left_out = read(paths, components={"pathItems": {"A": {"get": {}, "put": {}}}})
    assert [operation.name for operation in found] == ["get_a", "put_a"]
    assert [(item.name, "in another file" in item.reason) for item in left_out] == [("any_b", True)]


def test_methods_of_version_3_2_are_named_and_the_others_work() -> None:
    paths: JSON = {"/a": {"get": {}, "query": {}, "additionalOperations": {"LINK": {}}}}
    [found], left_out = read(paths, version="3.2.0")
    assert found.name == "get_a"
    assert [item.reason for item in left_out] == [f"{one} /a: its method is not supported" for one in ("QUERY", "LINK")]


def test_what_would_send_the_configured_headers_back_is_left_out() -> None:
    found, [item] = read({"/a": {"trace": {}}})
    assert found == []
    assert "repeats the request with all of its headers" in item.reason


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({"items": [{"$ref": "#/components/schemas/S"}]}, {"prefixItems": [{"$ref": "#/$defs/S"}]}),
        ({"$id": "http://elsewhere/", "$ref": "#/components/schemas/S"}, {"$ref": "#/$defs/S"}),
        ({"$dynamicRef": "#/components/schemas/S"}, {}),
        ({"unknown": {"$ref": "#/components/schemas/S"}}, {"unknown": {"$ref": "#/components/schemas/S"}}),
        ({"type": "string", "required": True}, {"type": "string"}),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
    ],
)
def test_keywords_of_other_drafts_mean_what_they_meant_and_break_no_document(said: JSON, meant: JSON) -> None:
    found = schema(body({"type": "array", "items": said}), components={"schemas": {"S": {"type": "string"}}})
    assert found["properties"]["body"]["items"] == meant


@pytest.mark.parametrize("junk", [None, 5, True, "x", [], [[]]])
def test_an_object_that_is_described_with_nonsense_breaks_no_document(junk: Any) -> None:
    for media in ("application/json", "multipart/form-data"):
        for described in (
            {"properties": {"a": {"readOnly": True}}, "required": junk},
            {"properties": {"a": {"readOnly": True}}, "required": [junk]},
            {"properties": junk},
            {"allOf": [{"properties": junk}, {"required": junk}]},
        ):
            found, left_out = read({"/a": {"post": body({"type": "object", **described}, media)}, "/b": {"get": {}}})
            assert len(found) + len(left_out) == 2
