"""Whatever an API answers, clients that hold results against schemas are given it."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaia_bridge.text.json_types import JSON
from tests.support.bridges import running_bridge, text_of
from tests.support.http_apis import served_app
from tests.support.upstreams import until_ready

NAMES = st.sampled_from(["a", "b", "c"])
LEAVES: st.SearchStrategy[JSON] = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer", "minimum": 5},
        {"type": "string", "enum": ["x", "y"]},
        {"type": "string", "nullable": True},
        {"type": "string", "pattern": "[a-"},
        {"$ref": "#/components/schemas/Node"},
        {"nullable": True, "type": "object", "allOf": [{"$ref": "#/components/schemas/Node"}]},
    ]
)


def open_object(properties: JSON) -> JSON:
    return {"type": "object", "properties": properties, "required": ["a"]}


def closed_object(properties: JSON) -> JSON:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def array(items: JSON) -> JSON:
    return {"type": "array", "items": items}


def choice(kinds: list[JSON]) -> JSON:
    return {"oneOf": kinds}


def larger(inner: st.SearchStrategy[JSON]) -> st.SearchStrategy[JSON]:
    properties = st.dictionaries(NAMES, inner)
    kinds = st.lists(inner, min_size=1, max_size=2)
    return properties.map(open_object) | properties.map(closed_object) | inner.map(array) | kinds.map(choice)


SCHEMAS = st.recursive(LEAVES, larger, max_leaves=5)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["x", "new", ""]),
    lambda inner: st.dictionaries(NAMES, inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=5,
)
STATUSES = st.sampled_from([200, 201, 202, 206])


class Answering:
    """An API that answers each path with a status and a body. An ASGI application."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, bytes]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        status, body = self.answers[scope["path"]]
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def serving() -> Generator[tuple[Answering, str]]:
    app = Answering()
    with served_app(app) as url:
        yield app, url


def document(schemas: list[JSON]) -> JSON:
    """A document whose operations are said to answer with these schemas, and status 200."""
    node = {"type": "object", "properties": {"a": {"$ref": "#/components/schemas/Node"}}, "required": ["a"]}
    return {
        "openapi": "3.0.3",
        "paths": {
            f"/{number}": {
                "post": {
                    "operationId": f"t{number}",
                    "responses": {"200": {"content": {"application/json": {"schema": schema}}}},
                }
            }
            for number, schema in enumerate(schemas)
        },
        "components": {"schemas": {"Node": node}},
    }


@pytest.mark.anyio
@settings(max_examples=15)
@given(
    said=st.lists(st.tuples(SCHEMAS, STATUSES, VALUES), min_size=5, max_size=10),
    mode=st.sampled_from(["auto", "legacy"]),
)
async def test_a_client_is_given_what_an_api_answers_whatever_its_document_says(
    said: list[tuple[JSON, int, Any]], mode: str, serving: tuple[Answering, str]
) -> None:
    app, url = serving
    app.answers = {f"/{number}": (status, json.dumps(value).encode()) for number, (_, status, value) in enumerate(said)}
    async with running_bridge() as running:
        await running.bridge.add_openapi(document([schema for schema, _, _ in said]), name="api", base_url=url)
        await until_ready(*running.bridge.sources)
        async with running.client(mode, "servers/api") as client:
            await client.list_tools()  # from then on it knows, and insists on, what was promised
            for number, (_, _, value) in enumerate(said):
                result = await client.call_tool(f"t{number}", {})
                assert not result.is_error
                assert json.loads(text_of(result)) == value
                assert result.structured_content == (value if isinstance(value, dict) else None)


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_answer_without_content_or_of_another_kind_is_no_error(
    mode: str, serving: tuple[Answering, str]
) -> None:
    app, url = serving
    app.answers = {"/0": (204, b""), "/1": (200, b""), "/2": (200, b"<p>no JSON")}
    item: JSON = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    async with running_bridge() as running:
        await running.bridge.add_openapi(document([item] * 3), name="api", base_url=url)
        await until_ready(*running.bridge.sources)
        async with running.client(mode, "servers/api") as client:
            await client.list_tools()
            results = [await client.call_tool(f"t{number}", {}) for number in range(3)]
    assert [result.is_error for result in results] == [False] * 3
    assert text_of(results[2]) == "<p>no JSON"
