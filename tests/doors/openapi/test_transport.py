"""An API behind its document: found, listed, called over HTTP, and its failures said."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest
from fastapi import APIRouter, FastAPI, Form, Header, HTTPException, Query, Request, Response, UploadFile
from fastapi.responses import PlainTextResponse, RedirectResponse, StreamingResponse
from pydantic import BaseModel, Field

from gaia_bridge.client.transport import LaunchError, UpstreamError
from gaia_bridge.settings import OpenApiLimits, UpstreamLimits
from gaia_bridge.text.json_types import JSON
from gaia_bridge_doors.openapi.requests import success_result
from tests.support.http_apis import Api, api, served_app
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

TOKEN = "Bearer s3cret-token-value"


class Item(BaseModel):
    name: str
    price: Annotated[float, Field(gt=-1)] = 0
    parts: list[Item] = []


ROUTES = APIRouter()
"""An API as people write them."""


@ROUTES.get("/items/{name}", operation_id="get_item")
async def get_item(
    name: str, q: Annotated[list[str] | None, Query()] = None, x_trace: Annotated[str, Header()] = ""
) -> Item:
    if name == "none":
        raise HTTPException(404, f"no item {name!r}")
    return Item(name=" ".join([name, *(q or ()), x_trace]))


@ROUTES.post("/items", operation_id="add_item", status_code=201)
async def add_item(item: Item) -> Item:
    return item


@ROUTES.post("/form", operation_id="fill_in")
async def fill_in(a: Annotated[str, Form()], n: Annotated[int, Form()] = 1) -> JSON:
    return {"a": a, "n": n}


@ROUTES.post("/files", operation_id="upload")
async def upload(files: list[UploadFile], note: Annotated[str, Form()]) -> list[Any]:
    return [note, *[(await file.read()).decode() for file in files]]


@ROUTES.get("/kinds/{kind}/{sub}", operation_id="get_kind")
async def get_kind(kind: str, sub: str) -> Response:
    return Response(b"\x00\x01", media_type=f"{kind}/{sub}")


@ROUTES.get("/text", operation_id="get_text")
async def get_text() -> PlainTextResponse:
    return PlainTextResponse("grüße".encode("latin-1"), headers={"content-type": "text/plain; charset=latin-1"})


@ROUTES.head("/text", operation_id="head_text")
async def head_text() -> Response:
    return Response(headers={"x-here": "yes", "content-length": "77"})


@ROUTES.delete("/items/{name}", operation_id="delete_item", status_code=204)
async def delete_item(name: str) -> None:
    pass


@ROUTES.get("/whoami", operation_id="whoami")
async def whoami(request: Request) -> JSON:
    return {"authorization": request.headers.get("authorization"), "cookie": request.headers.get("cookie")}


@ROUTES.get("/fail/{status}", operation_id="fail")
async def fail(status: int, request: Request) -> Response:
    said = f"seen {request.headers.get('authorization')} " + "x" * 100_000
    return PlainTextResponse(said, status)


@ROUTES.get("/moved", operation_id="moved")
async def moved(to: str) -> RedirectResponse:
    return RedirectResponse(to, 302)


@ROUTES.get("/for-ever", operation_id="for_ever")
async def for_ever(request: Request) -> StreamingResponse:
    async def pieces() -> AsyncGenerator[bytes]:
        request.app.state.entered.set()
        try:
            yield b"{"
            await anyio.sleep_forever()
        finally:
            request.app.state.left.set()

    return StreamingResponse(pieces(), media_type="application/json")


def shop() -> FastAPI:
    """That API; FastAPI writes its document."""
    app = FastAPI(title="Shop", version="2.1")
    app.include_router(ROUTES)
    app.state.entered, app.state.left = anyio.Event(), anyio.Event()
    return app


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with served_app(shop()) as found:
        yield found


def text_of(result: JSON) -> str:
    [block] = result["content"]
    return str(block["text"])


async def failure(document: str | JSON, url: str | None = None, **options: Any) -> str:
    with pytest.raises(UpstreamError) as raised:
        async with api(document, url, **options):
            pass
    return str(raised.value)


async def test_every_operation_of_a_document_of_fastapi_is_a_tool(url: str) -> None:
    async with api(f"{url}/openapi.json") as shop:
        tools = await shop.tools()
        assert set(tools) >= {"get_item", "add_item", "fill_in", "upload", "delete_item", "head_text"}
        assert all("leftOut" not in str(tool.get("_meta")) for tool in tools.values())
        assert tools["add_item"]["inputSchema"]["$defs"]["Item-Input"]["required"] == ["name"]
        assert not any("outputSchema" in tool for tool in tools.values())


async def test_arguments_arrive_where_the_document_says(url: str) -> None:
    async with api(f"{url}/openapi.json") as shop:
        found = await shop.call("get_item", name="a b/c", q=["x&y", "z"], **{"x-trace": "t"})
        assert found.get("isError"), "a slash in a path is no part of this parameter for Starlette"
        found = await shop.call("get_item", name="a b+ä%2F", q=["x&y", "z"], **{"x-trace": "t"})
        assert found["structuredContent"] == {"name": "a b+ä%2F x&y z t", "price": 0, "parts": []}
        assert json.loads(text_of(found)) == found["structuredContent"]
        nested: JSON = {"name": "n", "price": 2.5, "parts": [{"name": "m", "price": 0, "parts": []}]}
        assert (await shop.call("add_item", **nested))["structuredContent"] == nested
        assert (await shop.call("fill_in", a="ä&=+ ", n=3))["structuredContent"] == {"a": "ä&=+ ", "n": 3}
        listed = await shop.call("upload", files=["aGk=", "aG8="], note="n")
        assert (json.loads(text_of(listed)), "structuredContent" in listed) == (["n", "hi", "ho"], False)


async def test_null_for_a_parameter_is_left_out(url: str) -> None:
    async with api(f"{url}/openapi.json") as shop:
        found = await shop.call("get_item", name="a", q=None, **{"x-trace": None})
        assert found["structuredContent"] == {"name": "a ", "price": 0, "parts": []}
        assert "required" in text_of(await shop.call("get_item", name=None))


async def test_contents_of_every_kind_become_the_blocks_that_they_are(url: str) -> None:
    async with api(f"{url}/openapi.json") as shop:
        for kind in ("image/png", "audio/wav"):
            [block] = (await shop.call("get_kind", kind=kind[:5], sub=kind[6:]))["content"]
            assert block == {"type": kind[:5], "data": "AAE=", "mimeType": kind}
        [block] = (await shop.call("get_kind", kind="application", sub="zip"))["content"]
        uri = f"{url}/kinds/application/zip"
        assert block == {"type": "resource", "resource": {"uri": uri, "mimeType": "application/zip", "blob": "AAE="}}
        assert text_of(await shop.call("get_text")) == "grüße"
        assert "x-here: yes" in text_of(await shop.call("head_text"))
        assert text_of(await shop.call("head_text")).startswith("HTTP 200 (OK)"), "the next call is answered as well"
        assert text_of(await shop.call("delete_item", name="a")) == "HTTP 204 (No Content), without content"


async def test_arguments_that_do_not_fit_are_never_sent(url: str) -> None:
    async with api(f"{url}/openapi.json") as shop:
        result = await shop.call("add_item", nam="n")
        assert result["isError"]
        assert '"name" is a required property' in text_of(result)
        stepped = await shop.call("delete_item", name="..")
        assert (stepped["isError"], "'.' or '..'" in text_of(stepped)) == (True, True)
        unknown = await shop.ask("tools/call", name="nothing", arguments={})
        assert unknown["error"] == {"code": -32602, "message": "Unknown tool: nothing"}
        assert (await shop.ask("prompts/list"))["error"]["code"] == -32601


@pytest.mark.parametrize("status", [400, 401, 403, 404, 418, 429, 500, 503])
async def test_a_failure_shows_status_and_the_beginning_of_the_body_and_no_credential(url: str, status: int) -> None:
    async with api(f"{url}/openapi.json", headers={"Authorization": TOKEN}) as shop:
        result = await shop.call("fail", status=status)
    assert result["isError"]
    text = text_of(result)
    assert f"GET {url}/fail/{status} was answered with HTTP {status}" in text
    assert "s3cret" not in text
    assert 1_000 < len(text) < 20_000
    assert text.endswith("[...]")


async def test_headers_are_sent_with_every_request_and_cookies_are_never_kept(url: str) -> None:
    async with api(f"{url}/openapi.json", headers={"Authorization": TOKEN}) as shop:
        assert (await shop.call("whoami"))["structuredContent"] == {"authorization": TOKEN, "cookie": None}


async def test_redirects_stay_within_the_server(url: str) -> None:
    async with api(f"{url}/openapi.json", headers={"Authorization": TOKEN}) as shop:
        assert (await shop.call("moved", to="/whoami"))["structuredContent"]["authorization"] == TOKEN
        with pytest.raises(UpstreamError, match="to http://127.0.0.2:1/, which is not followed"):
            await shop.call("moved", to="http://127.0.0.2:1/")


async def test_who_gives_up_closes_the_connection() -> None:
    app = shop()
    with served_app(app) as url:
        async with api(f"{url}/openapi.json") as found, anyio.create_task_group() as tasks:
            tasks.start_soon(_forever, found)
            await anyio.to_thread.run_sync(_wait, app.state.entered)
            tasks.cancel_scope.cancel()
        await anyio.to_thread.run_sync(_wait, app.state.left)


async def _forever(found: Api) -> None:
    await found.call("for_ever")


def _wait(event: anyio.Event) -> None:
    eventually(event.is_set)


async def test_a_document_may_be_a_file_or_the_document_itself(url: str, tmp_path: Path) -> None:
    paths = {"/whoami": {"get": {"operationId": "who"}}}
    document: JSON = {
        "openapi": "3.1.0",
        "servers": [{"url": "{host}", "variables": {"host": {"default": url}}}],
        "paths": paths,
    }
    file = tmp_path / "api.yaml"
    file.write_text(json.dumps(document), "utf-8")
    for given in (document, str(file)):
        async with api(given) as found:
            assert (await found.call("who"))["structuredContent"]["authorization"] is None
    file.write_text(
        f"openapi: 3.1.0\nservers: [{{url: '{url}'}}]\npaths:\n  /whoami: {{get: {{operationId: who}}}}\n", "utf-8"
    )
    async with api(str(file)) as found:
        assert set(await found.tools()) == {"who"}


async def test_a_document_does_not_decide_who_is_sent_the_headers(url: str) -> None:
    document: JSON = {
        "openapi": "3.1.0",
        "servers": [{"url": url}],
        "paths": {"/whoami": {"get": {"operationId": "who"}}},
    }
    reason = await failure(document, headers={"Authorization": TOKEN})
    assert reason == (
        f'has an OpenAPI document that names {url} as its server; the configured headers go there only with "url": '
        f'"{url}" in the entry'
    )
    async with api(document, url, {"Authorization": TOKEN}) as found:
        assert (await found.call("who"))["structuredContent"]["authorization"] == TOKEN


async def test_a_document_that_was_fetched_leads_to_no_other_server_unless_the_entry_says_so(url: str) -> None:
    app = FastAPI(openapi_url=None)

    @app.get("/api.json")
    async def elsewhere(request: Request) -> JSON:
        assert "authorization" not in request.headers
        return {"openapi": "3.0.0", "servers": [{"url": url}], "paths": {"/whoami": {"get": {"operationId": "who"}}}}

    with served_app(app) as other:
        assert f'it is used only with "url": "{url}"' in await failure(f"{other}/api.json")
        async with api(f"{other}/api.json", url, {"Authorization": TOKEN}) as found:
            assert (await found.call("who"))["structuredContent"]["authorization"] == TOKEN


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"openapi": "3.1.0", "servers": [{"url": "/v1"}]}, "names '/v1' as its server, which is no URL; add \"url\""),
        ({"openapi": "3.1.0"}, "names '/' as its server, which is no URL"),
        ({"openapi": "3.1.0", "servers": [{"url": "ftp://h/"}]}, "a URL that does not begin with http:// or https://"),
        ({"swagger": "2.0"}, "Swagger 2.0"),
        ("/nowhere/api.json", "has no OpenAPI document: /nowhere/api.json: cannot be read: No such file or directory"),
        ("http://127.0.0.1:9/api.json", "has no OpenAPI document at http://127.0.0.1:9/api.json: it cannot be reached"),
    ],
)
async def test_what_cannot_be_used_says_why_and_what_to_do(document: Any, reason: str) -> None:
    assert reason in await failure(document)


async def test_variables_of_servers_are_filled_in_once_whatever_their_defaults_name(url: str) -> None:
    place, port = url.rsplit(":", 1)
    paths = {"/whoami": {"get": {"operationId": "who"}}}
    server: JSON = {"url": f"{place}:{{port}}", "variables": {"port": {"default": int(port)}}}
    async with api({"openapi": "3.1.0", "servers": [server], "paths": paths}) as found:
        assert not (await found.call("who")).get("isError")
    bomb = {f"v{number}": {"default": f"{{v{number + 1}}}" * 10} for number in range(30)}
    named = await failure({"openapi": "3.1.0", "servers": [{"url": "{v0}", "variables": bomb}]})
    assert "'{v1}{v1}" in named


@pytest.mark.parametrize("charset", ["idna", "undefined", "punycode"])
def test_encodings_that_are_none_of_texts_break_no_answer(charset: str) -> None:
    result = success_result(200, f"text/plain; charset={charset}", b"\xff ok", "https://h/")
    assert result["content"][0]["text"] == "\ufffd ok"


async def test_what_is_fetched_and_is_no_document_says_what_it_was(url: str) -> None:
    assert await failure(f"{url}/items/none?key=k") == (
        f"has no OpenAPI document at {url}/items/none: it answered with HTTP 404 (Not Found)"
    )
    assert "HTML" in await failure(f"{url}/docs")
    small = UpstreamLimits(openapi=OpenApiLimits(document_bytes=100))
    assert "it sent more than 100 bytes" in await failure(f"{url}/openapi.json", limits=small)
    quick = UpstreamLimits(openapi=OpenApiLimits(fetch_timeout=0.2))
    assert "it did not come within 0.2 s" in await failure(f"{url}/for-ever", limits=quick)


async def test_a_header_that_cannot_be_sent_is_named() -> None:
    with pytest.raises(LaunchError, match="cannot be sent the header 'X'"):
        async with api({"openapi": "3.1.0"}, headers={"X": "a\nb"}):
            pass


async def test_too_large_answers_are_given_up(url: str) -> None:
    async with api(f"{url}/openapi.json", limits=UpstreamLimits(message_bytes=50_000)) as shop:
        assert (await shop.call("fail", status=500))["isError"]
        with pytest.raises(UpstreamError, match="sent more than 50000 bytes in one answer"):
            await shop.call("fail", status=200)


PETS: JSON = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "/api/v3"}],
    "paths": {
        "/pet/{petId}": {
            "get": {
                "operationId": "getPetById",
                "parameters": [
                    {"name": "petId", "in": "path", "required": True, "schema": {"type": "integer", "format": "int64"}}
                ],
                "responses": {
                    "200": {
                        "content": {
                            "application/xml": {},
                            "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}},
                        }
                    }
                },
            }
        },
        "/pet/findByStatus": {
            "get": {
                "operationId": "findPetsByStatus",
                "parameters": [
                    {
                        "name": "status",
                        "in": "query",
                        "explode": False,
                        "schema": {"type": "array", "items": {"type": "string", "enum": ["sold", "new"]}},
                    }
                ],
            }
        },
        "/search": {
            "get": {
                "operationId": "search",
                "parameters": [
                    {
                        "name": "created",
                        "in": "query",
                        "style": "deepObject",
                        "explode": True,
                        "schema": {
                            "type": "object",
                            "properties": {"gte": {"type": "integer"}, "lt": {"type": "integer"}},
                        },
                    }
                ],
            }
        },
        "/charges": {
            "post": {
                "operationId": "charge",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/x-www-form-urlencoded": {
                            "encoding": {"metadata": {"style": "deepObject", "explode": True}},
                            "schema": {
                                "type": "object",
                                "required": ["amount"],
                                "properties": {
                                    "amount": {"type": "integer", "nullable": True},
                                    "metadata": {"type": "object"},
                                },
                            },
                        }
                    },
                },
            }
        },
    },
    "components": {
        "schemas": {
            "Pet": {
                "type": "object",
                "properties": {"id": {"type": "integer"}, "name": {"type": "string", "nullable": True}},
            }
        }
    },
}


async def test_public_documents_of_other_hands_work() -> None:
    app = FastAPI(openapi_url=None)

    @app.get("/api/v3/openapi.json")
    async def document() -> JSON:
        return PETS

    @app.get("/api/v3/pet/findByStatus")
    async def by_status(status: str) -> list[str]:
        return status.split(",")

    @app.get("/api/v3/pet/{pet_id}")
    async def pet(pet_id: int) -> JSON:
        return {"id": pet_id, "name": None}

    @app.get("/api/v3/search")
    async def search(request: Request) -> JSON:
        return dict(request.query_params)

    @app.post("/api/v3/charges")
    async def charge(request: Request) -> JSON:
        return dict(await request.form())

    with served_app(app) as url:
        async with api(f"{url}/api/v3/openapi.json") as pets:
            assert (await pets.call("getPetById", petId=7))["structuredContent"] == {"id": 7, "name": None}
            assert json.loads(text_of(await pets.call("findPetsByStatus", status=["sold", "new"]))) == ["sold", "new"]
            found = await pets.call("search", created={"gte": 1, "lt": 9})
            assert found["structuredContent"] == {"created[gte]": "1", "created[lt]": "9"}
            paid = await pets.call("charge", amount=5, metadata={"order": "x y"})
            assert paid["structuredContent"] == {"amount": "5", "metadata[order]": "x y"}


async def test_an_operation_that_is_left_out_is_listed_with_the_reason() -> None:
    document: JSON = {"openapi": "3.1.0", "paths": {"/x/{id}": {"get": {}}}}
    async with api(document, "http://127.0.0.1:9") as found:
        [tool] = (await found.tools()).values()
    assert "none of its parameters describes" in tool["_meta"]["io.gaia-mcp-bridge/leftOut"]
