"""OpenAPI documents: JSON and YAML, of versions that are understood, and never more than can be held."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from gaia_bridge.client.transport import LaunchError, UpstreamError
from gaia_bridge.settings import OpenApiLimits
from gaia_bridge.text.json_types import JSON
from gaia_bridge_doors.openapi.document import OperationError, document_from, document_of

LIMITS = OpenApiLimits()


def refusal(text: str | bytes, limits: OpenApiLimits = LIMITS) -> str:
    with pytest.raises(UpstreamError) as raised:
        document_from(text.encode() if isinstance(text, str) else text, limits)
    return str(raised.value)


def test_json_and_yaml_say_the_same() -> None:
    as_json = document_from(b'\xef\xbb\xbf {"openapi": "3.0.3", "paths": {"/a": {}}}', LIMITS)
    as_yaml = document_from(b"openapi: 3.0.3\npaths:\n  /a: {}\n", LIMITS)
    assert as_json == as_yaml
    assert as_json.is_early
    assert not document_from(b"openapi: '3.1.0'\n", LIMITS).is_early


def test_yaml_has_the_values_of_json_and_no_others() -> None:
    text = (
        "openapi: 3.1.0\nx: {country: NO, time: 12:30, day: 2020-01-02, octal: 010, on: yes, n: ~, f: 1.5e3, t: true}\n"
    )
    assert document_from(text.encode(), LIMITS).content["x"] == {
        "country": "NO",
        "time": "12:30",
        "day": "2020-01-02",
        "octal": "010",
        "on": "yes",
        "n": None,
        "f": 1500.0,
        "t": True,
    }


def test_statuses_may_be_numbers_and_parts_may_be_merged_in_yaml() -> None:
    text = "openapi: 3.1.0\na: &a {200: {x: 1}}\nb:\n  <<: *a\n  404: {}\n"
    assert document_from(text.encode(), LIMITS).content["b"] == {"200": {"x": 1}, "404": {}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty; expected JSON or YAML"),
        ("<!DOCTYPE html><p>", "a page of HTML or XML where its OpenAPI document should be"),
        ("{", "that is not JSON"),
        ("[]", "that is no object"),
        ("a: [", "neither JSON nor YAML"),
        ("just words", "that is no object"),
        ('{"swagger": "2.0"}', "of Swagger 2.0; expected OpenAPI 3.0 to 3.2"),
        ('{"paths": {}}', "without 'openapi'"),
        ("openapi: 3.0\n", 'without \'openapi\'; expected {"openapi": "3.1.0"'),
        ('{"openapi": "4.0.0"}', "of OpenAPI '4.0.0'; expected 3.0 to 3.2"),
        ('{"openapi": "3.1.0", "paths": []}', "whose 'paths' is no object"),
        ("a: !!timestamp 2020-01-02\n", "a value of YAML that JSON has not (date)"),
        ("a: !!timestamp x\n", "neither JSON nor YAML"),
        ("a: !!bool x\n", "neither JSON nor YAML"),
        ("a: !!int ''\n", "neither JSON nor YAML"),
        ("a: !!python/object/apply:os.system [true]\n", "neither JSON nor YAML"),
        ("? [a, b]\n: c\n", "neither JSON nor YAML"),
        ("[" * 100_000, "that is not JSON"),
        ("a: " + "[" * 300, "nested deeper than 200 levels"),
        ("a: " + "[" * 100_000, "neither JSON nor YAML"),
        ("a: &a [*a]\n", "nested deeper than 200 levels"),
        (b"openapi: \xff\xfe", "neither JSON nor YAML"),
    ],
)
def test_what_is_no_document_is_refused_with_what_it_is_and_what_was_expected(text: Any, reason: str) -> None:
    assert reason in refusal(text)


def test_aliases_that_stand_for_billions_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "too many parts" in refusal("\n".join(lines), OpenApiLimits(document_parts=10_000))


def test_merges_that_stand_for_much_are_refused() -> None:
    lines = [f"a: &a {{{', '.join(f'k{n}: x' for n in range(100))}}}"] + [f"b{n}: {{<<: *a}}" for n in range(200)]
    assert "what is merged written out" in refusal("\n".join(lines), OpenApiLimits(document_parts=10_000))
    assert "neither JSON nor YAML" in refusal("a: &a {<<: *a}\n")


def test_merges_of_merges_that_stand_for_billions_end_at_once() -> None:
    lines = ["a0: &a0 {x: x}"] + [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 12)]
    refused = refusal("\n".join(lines), OpenApiLimits(document_parts=10_000))
    # Since PyYAML 6.0.4 a pair is merged once; before, it stood for nine each time, and there is no room for these.
    assert "what is merged written out" in refused or "without 'openapi'" in refused


def test_yaml_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(LaunchError, match=r"pip install 'gaia-mcp-bridge\[openapi\]'"):
        document_from(b"openapi: 3.1.0\n", LIMITS)
    assert document_from(b'{"openapi": "3.1.0"}', LIMITS).content == {"openapi": "3.1.0"}


def test_references_lead_to_parts_of_the_same_document_only() -> None:
    document = document_of(
        {
            "openapi": "3.1.0",
            "a/b": {"c": {"x": 1}},
            "again": {"$ref": "#/a~1b/c"},
            "round": {"$ref": "#/round"},
            "list": [],
        }
    )
    assert document.resolved({"$ref": "#/again"}) == {"x": 1}
    for reference, reason in (
        ("#/round", "without an end"),
        ("#/nowhere", "nothing is there"),
        ("other.yaml#/a", "is in another file"),
        ("#/again/$ref", "where an object was expected"),
        ("#name", "nothing is there"),
        (f"#/list/{'9' * 5_000}", "nothing is there"),
    ):
        with pytest.raises(OperationError, match=reason):
            document.resolved({"$ref": reference})


def test_a_document_that_is_given_must_be_json() -> None:
    with pytest.raises(UpstreamError, match="that is not JSON"):
        document_of({"openapi": "3.1.0", "x": object()})
    given: JSON = {"openapi": "3.1.0", "paths": {}}
    assert document_of(given).content == json.loads(json.dumps(given))
