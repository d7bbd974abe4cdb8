"""HTTP APIs on the command line: added by their document, listed, and called like servers."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest
from fastapi import FastAPI

from gaia_bridge_desk.review.launch_lines import launch_line_text
from tests.cli.running import GLOBAL, Run, entries
from tests.support.http_apis import served_app


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    app = FastAPI(title="Numbers", version="3")

    @app.get("/double/{number}", operation_id="double")
    async def double(number: int) -> dict[str, int]:
        return {"double": 2 * number}

    with served_app(app) as found:
        yield found


def test_an_api_is_added_listed_and_called(run: Run, url: str) -> None:
    code, out, _ = run("add", "numbers", "--openapi", f"{url}/openapi.json", "--header", "X-Key: ${env:HOME}")
    assert (code, out.splitlines()[0]) == (0, "Numbers 3, MCP 2026-07-28: 1 tool")
    assert entries() == {"numbers": {"openapi": f"{url}/openapi.json", "headers": {"X-Key": "${env:HOME}"}}}
    assert f"OpenAPI {url}/openapi.json" in run("list")[1]
    assert "double" in run("tools", "numbers")[1]
    code, out, _ = run("call", "numbers", "double", "number=21", "--json")
    assert (code, json.loads(out)["structuredContent"]) == (0, {"double": 42})


def test_a_document_in_a_file_is_kept_with_its_whole_path_beside_the_address(run: Run, url: str) -> None:
    Path("api.yaml").write_text("openapi: 3.1.0\npaths: {/double/2: {get: {}}}\n", encoding="utf-8")
    assert run("add", "numbers", url, "--openapi", "api.yaml")[0] == 0
    assert entries() == {"numbers": {"openapi": str(Path("api.yaml").absolute()), "url": url}}


def test_an_api_that_does_not_work_is_not_kept(run: Run, url: str) -> None:
    code, _, err = run("add", "numbers", "--openapi", f"{url}/nothing")
    assert code == 69
    assert f"has no OpenAPI document at {url}/nothing: it answered with HTTP 404 (Not Found)" in err
    assert not Path(GLOBAL).exists()


def test_who_adds_the_address_of_an_api_as_that_of_a_server_is_told_what_to_write(run: Run, url: str) -> None:
    code, _, err = run("add", "numbers", f"{url}/openapi.json")
    assert (code, "is added by `gaia-bridge add numbers --openapi URL`" in err) == (69, True), err
    code, _, err = run("add", "numbers", f"{url}/")
    assert (code, f"most servers have a path, such as {url}/mcp;" in err) == (69, True), err


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "x", "npx server", "--openapi", "a.json"),
        ("add", "x", "--openapi", "a.json", "--sse"),
        ("add", "x", "--openapi", "a.json", "--env", "A=b"),
        ("add", "https://h", "--openapi", "a.json"),
        ("add", "x", "--openapi", "a.json", "--inherit-env"),
    ],
)
def test_what_is_for_programs_does_not_go_with_an_api(run: Run, arguments: tuple[str, ...]) -> None:
    assert run(*arguments)[0] == 64


def test_there_is_nothing_to_log_in_to(run: Run, url: str) -> None:
    assert run("add", "numbers", "--no-connect", "--openapi", f"{url}/openapi.json")[0] == 0
    assert "an API with an OpenAPI document; there is nothing to log in to" in run("login", "numbers")[2]


def test_who_approves_an_api_is_shown_its_document() -> None:
    shown = launch_line_text({"openapi": "./api.yaml", "url": "https://h", "headers": {"Authorization": "Bearer abc"}})
    assert shown.splitlines()[:2] == ["OpenAPI: ./api.yaml", "https://h"]
    assert "abc" not in shown
