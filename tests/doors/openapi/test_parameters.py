"""What is sent is what was given: parameters and bodies as OpenAPI's styles, read back by Starlette."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.routing import compile_path

from gaia_bridge.errors import ToolError
from gaia_bridge.settings import OpenApiLimits
from gaia_bridge.text.json_types import JSON
from gaia_bridge_doors.openapi.bodies import Body, Encoding, encoded_body
from gaia_bridge_doors.openapi.document import document_of
from gaia_bridge_doors.openapi.operations import Operation, read_operations
from gaia_bridge_doors.openapi.parameters import header_value, path_segment, query_pairs
from gaia_bridge_doors.openapi.requests import ApiRequest, request_for

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=10)
BASE = httpx2.URL("https://api.example/v1")


def query_of(pairs: list[str]) -> list[tuple[str, str]]:
    url = httpx2.URL("http://h/").copy_with(raw_path=f"/?{'&'.join(pairs)}".encode())
    return Request({"type": "http", "query_string": url.query, "headers": []}).query_params.multi_items()


def form_of(media: str, body: bytes) -> list[tuple[str, Any]]:
    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def read() -> list[tuple[str, Any]]:
        headers = [(b"content-type", media.encode())]
        async with Request({"type": "http", "method": "POST", "headers": headers}, receive).form() as form:
            return [
                (name, value if isinstance(value, str) else await value.read()) for name, value in form.multi_items()
            ]

    return asyncio.run(read())


def operation(path: str = "/x", *parameters: JSON, **more: Any) -> Operation:
    item = {"post": {"operationId": "op", "parameters": parameters, **more}}
    [found], left_out = read_operations(document_of({"openapi": "3.1.0", "paths": {path: item}}), OpenApiLimits())
    assert left_out == []
    return found


def sent(made: Operation, base: httpx2.URL = BASE, **arguments: Any) -> ApiRequest:
    return request_for(made, arguments, base, {})


@given(NAMES, TEXTS)
def test_a_text_in_a_query_is_what_it_was(name: str, value: str) -> None:
    assert query_of(query_pairs(name, value, "form", explode=True, reserved=False)) == [(name, value)]


@given(NAMES, st.lists(TEXTS, max_size=5))
def test_a_list_in_a_query_is_what_it_was(name: str, values: list[str]) -> None:
    found = query_of(query_pairs(name, values, "form", explode=True, reserved=False))
    assert found == [(name, value) for value in values]


@given(NAMES, st.dictionaries(NAMES, TEXTS, max_size=5))
def test_an_object_in_a_query_is_what_it_was(name: str, value: dict[str, str]) -> None:
    assert query_of(query_pairs(name, value, "form", explode=True, reserved=False)) == list(value.items())
    deep = query_of(query_pairs(name, value, "deepObject", explode=True, reserved=False))
    assert deep == [(f"{name}[{key}]", item) for key, item in value.items()]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters=", |"), min_size=1), min_size=1, max_size=5))
@pytest.mark.parametrize(("style", "sign"), [("form", ","), ("spaceDelimited", " "), ("pipeDelimited", "|")])
def test_a_joined_list_can_be_split_again(style: str, sign: str, values: list[str]) -> None:
    [(name, found)] = query_of(query_pairs("n", values, style, explode=False, reserved=False))
    assert (name, found.split(sign)) == ("n", values)


@given(TEXTS, TEXTS)
def test_reserved_characters_that_are_sent_as_they_are_split_nothing(first: str, second: str) -> None:
    pairs = [
        *query_pairs("a", first, "form", explode=True, reserved=True),
        *query_pairs("b", second, "form", explode=True, reserved=True),
    ]
    assert query_of(pairs) == [("a", first), ("b", second)]
    assert query_pairs("a", "x:/y", "form", explode=True, reserved=True) == ["a=x:/y"]


@given(TEXTS)
def test_a_value_in_a_path_is_one_step_or_is_refused(value: str) -> None:
    pet = {"in": "path", "name": "id", "required": True, "schema": {"type": "string"}}
    try:
        request = sent(operation("/pets/{id}/toys", pet), id=value)
    except ToolError:
        assert not value.strip(".,") or {".", ".."} & set(value.replace("\\", "/").split("/"))
        return
    raw = request.url.raw_path.decode()
    pattern, _, _ = compile_path("/v1/pets/{id}/toys")
    match = pattern.fullmatch(raw)
    assert match is not None
    assert unquote(match["id"], errors="strict") == value


@pytest.mark.parametrize("value", ["", ".", "..", "../a", "a/../b", "a\\..\\b", "..\\", "./x", [], ["..", "a"]])
def test_a_path_is_never_another_one(value: Any) -> None:
    with pytest.raises(ToolError, match="expected a (name|value)|expected a name without"):
        path_segment("id", value, "simple", explode=False)


def test_what_stands_in_a_path_beside_its_parameters_is_a_path_and_no_query() -> None:
    pet: JSON = {"in": "path", "name": "id", "required": True, "schema": {}}
    made = operation("/a b/ä?x=1#y/%20/{id}.json", pet)
    assert sent(made, id="{id}").url.raw_path == b"/v1/a%20b/%C3%A4%3Fx=1%23y/%20/%7Bid%7D.json"


def test_two_values_side_by_side_make_no_step_up() -> None:
    parameters: list[JSON] = [{"in": "path", "name": name, "required": True, "schema": {}} for name in "ab"]
    made = operation("/p/{a}{b}/q", *parameters)
    assert sent(made, a="x", b="y").url.raw_path == b"/v1/p/xy/q"
    with pytest.raises(ToolError):
        sent(operation("/p/.{a}/q", parameters[0]), a=".")


@pytest.mark.parametrize(
    ("style", "explode", "value", "expected"),
    [
        ("simple", False, 5, "5"),
        ("simple", False, [3, 4, 5], "3,4,5"),
        ("simple", False, {"role": "admin", "n": "A B"}, "role,admin,n,A%20B"),
        ("simple", True, {"role": "admin", "n": "A"}, "role=admin,n=A"),
        ("label", False, 5, ".5"),
        ("label", False, [3, 4], ".3,4"),
        ("label", True, [3, 4], ".3.4"),
        ("label", True, {"a": 1, "b": True}, ".a=1.b=true"),
        ("matrix", False, 5, ";id=5"),
        ("matrix", False, [3, 4], ";id=3,4"),
        ("matrix", True, [3, 4], ";id=3;id=4"),
        ("matrix", True, {"a": 1}, ";a=1"),
    ],
)
def test_styles_of_paths_are_those_of_the_specification(style: str, explode: bool, value: Any, expected: str) -> None:
    assert path_segment("id", value, style, explode=explode) == expected


def test_what_is_empty_in_style_matrix_has_no_equals_sign() -> None:
    assert path_segment("p", "", "matrix", explode=False) == ";p"


def test_values_that_are_no_texts_are_written_as_json_has_them() -> None:
    pairs = query_pairs("q", [True, None, 1.5, 5.0, {"a": [1]}], "form", explode=True, reserved=False)
    assert query_of(pairs) == [("q", "true"), ("q", ""), ("q", "1.5"), ("q", "5"), ("q", '{"a":[1]}')]
    assert query_pairs("q", None, "form", explode=True, reserved=False) == []
    deep = query_pairs("f", {"a": {"b": [1, 2]}, "c": None, "d": 3}, "deepObject", explode=True, reserved=False)
    assert query_of(deep) == [("f[a][b]", "1"), ("f[a][b]", "2"), ("f[d]", "3")]


def test_headers_cannot_be_ended_by_a_value() -> None:
    assert header_value("X", {"a": 1, "b": "c d"}, explode=True) == "a=1,b=c d"
    for value in ("a\r\nEvil: 1", "ä", "\0"):
        with pytest.raises(ToolError, match="which can only carry visible ASCII"):
            header_value("X", value, explode=False)


def test_cookies_and_the_configured_headers_go_together_and_the_configured_win() -> None:
    made = operation(
        "/x",
        {"in": "cookie", "name": "theme", "schema": {}},
        {"in": "header", "name": "X-Mode", "schema": {}},
        requestBody={"content": {"application/json": {}}},
    )
    arguments: JSON = {"theme": "a;b", "X-Mode": "m", "body": [1]}
    request = request_for(made, arguments, BASE, {"cookie": "s=1", "accept": "text/csv"})
    assert request.headers["cookie"] == "s=1; theme=a%3Bb"
    assert (request.headers["x-mode"], request.headers["content-type"], request.body) == (
        "m",
        "application/json",
        b"[1]",
    )
    assert "accept" not in request.headers


def test_the_query_of_the_base_is_kept_and_json_parameters_are_json() -> None:
    where: JSON = {"in": "query", "name": "where", "content": {"application/json": {"schema": {}}}}
    request = sent(operation("/x", where), httpx2.URL("https://u:p@h/v1/?key=k"), where={"a": [1]})
    assert str(request.url.copy_with(query=None)) == "https://h/v1/x"
    assert query_of([request.url.query.decode()]) == [("key", "k"), ("where", '{"a":[1]}')]


FIELDS = st.dictionaries(NAMES, TEXTS, min_size=1, max_size=5)


@given(FIELDS)
def test_a_form_is_what_it_was(fields: dict[str, str]) -> None:
    body = Body("application/x-www-form-urlencoded", "form", required=True, is_merged=True)
    assert form_of(*encoded_body(body, fields)) == list(fields.items())


PLAIN_NAMES = st.text(st.characters(codec="utf-8", exclude_characters='\0"\r\n\\'), min_size=1, max_size=10)


@given(st.dictionaries(PLAIN_NAMES, TEXTS, min_size=1, max_size=5), st.binary(max_size=50))
def test_a_multipart_form_is_what_it_was(fields: dict[str, str], content: bytes) -> None:
    from base64 import b64encode

    body = Body("multipart/form-data", "multipart", required=True, is_merged=True, binary=frozenset({"~file"}))
    value = {**fields, "~file": b64encode(content).decode()}
    assert form_of(*encoded_body(body, value)) == [
        *((n, v) for n, v in fields.items() if n != "~file"),
        ("~file", content),
    ]


def test_forms_follow_their_encodings() -> None:
    encodings = {"deep": Encoding("deepObject"), "joined": Encoding("form", explode=False)}
    body = Body("application/x-www-form-urlencoded", "form", required=True, is_merged=True, encodings=encodings)
    items = [{"price": "p", "tags": ["x", "y"]}, {"price": "q"}]
    assert form_of(*encoded_body(body, {"deep": items})) == [
        ("deep[0][price]", "p"),
        ("deep[0][tags]", "x"),
        ("deep[0][tags]", "y"),
        ("deep[1][price]", "q"),
    ]
    assert form_of(*encoded_body(body, {"deep": ["x", None]})) == [("deep[0]", "x")]
    fields = {"deep": {"a": 1}, "joined": ["x", "y"], "many": [1, 2], "object": {"b": 2}, "none": None}
    assert form_of(*encoded_body(body, fields)) == [
        ("deep[a]", "1"),
        ("joined", "x,y"),
        ("many", "1"),
        ("many", "2"),
        ("object", '{"b":2}'),
    ]


def test_files_are_base64_and_anything_else_is_refused() -> None:
    raw = Body("image/png", "bytes", required=True, is_merged=False)
    assert encoded_body(raw, "aGk=") == ("image/png", b"hi")
    with pytest.raises(ToolError, match="expected its bytes in Base64"):
        encoded_body(raw, "not base64!")


FILE: JSON = {"type": "string", "format": "binary"}


@pytest.mark.parametrize(
    "form",
    [
        {"properties": {"f": {"$ref": "#/components/schemas/File"}}},
        {"properties": {"f": {"allOf": [{"$ref": "#/components/schemas/File"}], "description": "A file."}}},
        {"allOf": [{"$ref": "#/components/schemas/Upload"}, {"properties": {"n": {"type": "string"}}}]},
        {"properties": {"f": {}}},
    ],
)
def test_files_in_forms_are_found_where_references_and_parts_lead(form: JSON) -> None:
    upload = {"type": "object", "properties": {"f": {"$ref": "#/components/schemas/File"}}, "required": ["f"]}
    encoding = {"f": {"contentType": "image/png, image/jpeg"}}
    content = {"multipart/form-data": {"schema": {"type": "object", **form}, "encoding": encoding}}
    document: JSON = {
        "openapi": "3.1.0",
        "paths": {"/x": {"post": {"requestBody": {"required": True, "content": content}}}},
        "components": {"schemas": {"File": FILE, "Upload": upload}},
    }
    [made], _ = read_operations(document_of(document), OpenApiLimits())
    assert made.definition["inputSchema"]["properties"]["f"]["contentEncoding"] == "base64"
    request = sent(made, f="iVA=", n="x") if "allOf" in form else sent(made, f="iVA=")
    assert request.body is not None
    assert b'filename="f.png"\r\nContent-Type: image/png\r\n\r\n\x89P\r\n' in request.body


@pytest.mark.parametrize("keyword", ["anyOf", "allOf"])
def test_a_form_whose_parts_refer_to_one_another_without_an_end_is_left_out(keyword: str) -> None:
    part = {"$ref": "#/components/schemas/S"}
    for form in ({"type": "object", "properties": {"f": part}}, {"type": "object", keyword: [part]}):
        content = {"multipart/form-data": {"schema": form}}
        document: JSON = {
            "openapi": "3.1.0",
            "paths": {"/x": {"post": {"requestBody": {"content": content}}}},
            "components": {"schemas": {"S": {keyword: [part] * 100}}},
        }
        found, left_out = read_operations(document_of(document), OpenApiLimits())
        assert found or "the fields of its form have more than" in left_out[0].reason


def test_json_in_a_field_of_a_form_is_no_file() -> None:
    field = {"type": "string", "contentMediaType": "application/json", "contentSchema": {"type": "array"}}
    content = {"multipart/form-data": {"schema": {"type": "object", "properties": {"j": field}}}}
    request = sent(operation(requestBody={"required": True, "content": content}), j="[1]")
    assert request.body is not None
    assert b'name="j"\r\n\r\n[1]\r\n' in request.body


def test_a_body_of_null_is_sent_and_one_that_is_not_there_is_not() -> None:
    made = operation(requestBody={"content": {"application/json": {"schema": {"type": ["object", "null"]}}}})
    assert (sent(made, body=None).body, sent(made).body) == (b"null", None)


def test_json_in_a_header_is_ascii() -> None:
    made = operation("/x", {"in": "header", "name": "X-J", "content": {"application/json": {"schema": {}}}})
    assert request_for(made, {"X-J": {"a": "é"}}, BASE, {}).headers["x-j"] == '{"a": "\\u00e9"}'


@pytest.mark.parametrize("media", ["application/json", "text/plain", "application/x-www-form-urlencoded"])
def test_half_a_character_breaks_no_call(media: str) -> None:
    made = operation(requestBody={"content": {media: {"schema": {}}}})
    value = {"\ud800": "\ud800"} if "form" in media else "\ud800"
    if media == "application/json":
        with pytest.raises(ToolError, match="cannot be written as JSON"):
            sent(made, body=value)
    else:
        assert sent(made, body=value).body in (b"?", b"%3F=%3F")


def test_the_kinds_of_bodies() -> None:
    def media(kind: str, schema: JSON) -> Any:
        return operation(requestBody={"required": True, "content": {kind: {"schema": schema}}}).definition[
            "inputSchema"
        ]

    assert media("text/markdown", {})["properties"] == {"body": {"type": "string"}}
    assert media("application/octet-stream", {})["properties"]["body"]["contentEncoding"] == "base64"
    upload = media(
        "multipart/form-data",
        {"type": "object", "properties": {"f": {"type": "string", "format": "binary", "description": "A file."}}},
    )
    assert upload["properties"] == {"f": {"type": "string", "contentEncoding": "base64", "description": "A file."}}
    files = {"type": "array", "items": {"type": "string", "format": "binary"}}
    for field in (files, {"anyOf": [files, {"type": "null"}]}):
        many = {"type": "object", "properties": {"f": field}}
        assert media("multipart/form-data", many)["properties"]["f"]["items"]["contentEncoding"] == "base64"
    assert (
        json.dumps(media("application/vnd.api+json", {"type": "array"})["properties"])
        == '{"body": {"type": "array", "items": {}}}'
    )
