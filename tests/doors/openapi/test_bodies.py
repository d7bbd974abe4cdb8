"""The media type of a body, where there is a choice, and files that are sent."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import httpx2
import pytest

from gaia_bridge.settings import OpenApiLimits
from gaia_bridge.text.json_types import JSON
from gaia_bridge_doors.openapi.document import document_of
from gaia_bridge_doors.openapi.operations import Operation, read_operations
from gaia_bridge_doors.openapi.requests import ApiRequest, request_for

BASE = httpx2.URL("https://api.example")
JSON_TYPE, FORM, MULTIPART = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
FILE: JSON = {"type": "string", "format": "binary"}
MEDIA_FILE: JSON = {"type": "string", "contentMediaType": "image/png"}
PNG = b64encode(b"\x89PNG\r\n\x1a\n...").decode()


def operation(content: JSON, version: str = "3.1.0") -> Operation:
    document: JSON = {
        "openapi": version,
        "paths": {"/x": {"post": {"requestBody": {"required": True, "content": content}}}},
        "components": {"schemas": {"Upload": {"type": "object", "properties": {"file": FILE, "title": {}}}}},
    }
    [found], left_out = read_operations(document_of(document), OpenApiLimits())
    assert left_out == []
    return found


def sent(content: JSON, **arguments: Any) -> ApiRequest:
    return request_for(operation(content), arguments, BASE, {})


WITH_FILES: list[JSON] = [
    {"$ref": "#/components/schemas/Upload"},  # drf-spectacular, which offers all parsers of a view
    {"type": "object", "properties": {"file": MEDIA_FILE}},
    {"type": "object", "properties": {"file": {"type": "array", "items": FILE}}},
    {"type": "object", "properties": {"file": {"anyOf": [FILE, {"type": "null"}]}}},
    {"allOf": [{"$ref": "#/components/schemas/Upload"}, {"properties": {"more": {}}}]},
]


@pytest.mark.parametrize("schema", WITH_FILES)
def test_a_form_with_files_is_multipart_whatever_else_it_may_be(schema: JSON) -> None:
    content: JSON = {kind: {"schema": schema} for kind in (JSON_TYPE, FORM, MULTIPART)}
    request = sent(content, file=[PNG] if "items" in str(schema) else PNG)
    assert request.headers["content-type"].startswith(MULTIPART)
    assert request.body is not None
    assert b'name="file"; filename="file.png"\r\nContent-Type: image/png\r\n\r\n\x89PNG' in request.body


def test_files_deep_in_a_body_make_it_multipart() -> None:
    deep: JSON = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": FILE}}}}
    content: JSON = {kind: {"schema": deep} for kind in (JSON_TYPE, MULTIPART)}
    assert sent(content, a={"b": "x"}).headers["content-type"].startswith(MULTIPART)


def test_a_body_without_files_is_json_rather_than_a_form() -> None:
    for field in (
        {"type": "string"},
        {"type": "string", "format": "byte"},
        {**MEDIA_FILE, "contentEncoding": "base64"},
    ):
        schema: JSON = {"type": "object", "properties": {"a": field}}
        content: JSON = {kind: {"schema": schema} for kind in (MULTIPART, FORM, JSON_TYPE)}
        assert sent(content, a="x").headers["content-type"] == JSON_TYPE


@pytest.mark.parametrize(
    ("content", "media"),
    [
        ({"*/*": {"schema": FILE}}, "application/octet-stream"),  # a FileUploadParser of Django REST framework
        ({"application/json": {"schema": FILE}, "application/pdf": {}}, "application/pdf"),
        ({"application/octet-stream": {}}, "application/octet-stream"),
        ({"image/png": {"schema": MEDIA_FILE}}, "image/png"),
    ],
)
def test_a_body_that_is_a_file_is_sent_as_its_bytes(content: JSON, media: str) -> None:
    request = sent(content, body=PNG)
    assert (request.headers["content-type"], (request.body or b"")[:4]) == (media, b"\x89PNG")


def test_a_file_may_be_a_data_url_and_one_of_an_unknown_kind_has_no_ending() -> None:
    content: JSON = {MULTIPART: {"schema": {"type": "object", "properties": {"f": FILE}}}}
    assert b'filename="f.gif"' in (sent(content, f="data:image/gif;base64,R0lGODlh").body or b"")
    assert b'filename="f"\r\nContent-Type: application/octet-stream\r\n\r\nhi' in (sent(content, f="aGk=").body or b"")
