"""Definitions as servers should not list them: nulls in optional places, wrong types, odd dates, icons and schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hypothesis import strategies as st

from gaia_bridge.text.json_types import JSON

_EMPTY: Final[JSON] = {}

__all__ = ["GOOD", "KEYS", "LISTS", "odd_definitions", "odd_schemas"]

LISTS: Final = {
    "tool": ("tools/list", "tools"),
    "prompt": ("prompts/list", "prompts"),
    "resource": ("resources/list", "resources"),
    "resource template": ("resources/templates/list", "resourceTemplates"),
}
"""How each kind is listed."""

KEYS: Final = {"tool": "name", "prompt": "name", "resource": "uri", "resource template": "uriTemplate"}
"""The field that tells two definitions of a kind apart."""

GOOD: Final[Mapping[str, JSON]] = {
    "tool": {"name": "good", "inputSchema": {"type": "object"}},
    "prompt": {"name": "good"},
    "resource": {"uri": "good://1", "name": "good"},
    "resource template": {"uriTemplate": "good://{a}", "name": "good"},
}
"""A definition of each kind with which nothing is wrong."""

_odd: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, False, 0, -1, 1.5, "", "a", "object", "é\u2028", [], ["a"], [None], [1], {}, {"a": None}, {"a": 1}]
)
_texts = st.sampled_from(["", "a", "A title"]) | _odd
_dates = st.sampled_from(
    [
        "2025-01-12T15:00:58Z",
        "2025-01-12T15:00:58.123+02:00",
        "2025-01-12 15:00:58Z",
        "2025-01-12T15:00Z",
        "2025-01-12T15:00:58",
        "2025-01-12",
        "2025-02-30T00:00:00Z",
        "2025-01-12T24:00:00Z",
        "20250112T150058Z",
        "Sun, 12 Jan 2025 15:00:58 GMT",
        "yesterday",
        1_736_694_058,
        None,
    ]
)
_icons = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "src": st.just("data:image/png;base64,AA==") | _odd,
            "mimeType": _texts,
            "sizes": st.just(["48x48"]) | _odd,
            "theme": st.sampled_from(["dark", "light", "any"]) | _odd,
        },
    )
    | _odd,
    max_size=3,
)
_annotations = st.fixed_dictionaries(
    {},
    optional={
        "audience": st.just(["user"]) | st.just(["everybody"]) | _odd,
        "lastModified": _dates,
        "priority": st.sampled_from([0, 1, 0.5, 2, "1"]) | _odd,
    },
)
_hints = st.dictionaries(
    st.sampled_from(["title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]),
    st.sampled_from([True, "true", "a", None, 1]),
)
_patterns = st.sampled_from(
    ["^a$", r"^[\w.-]+$", "(?P<n>a)", "(?i)a", r"a\z", r"\p{L}", "(?<n>a)", "[", "a{3,2}", "(?<=a)b", r"\Aa\Z", None]
)
_types = st.sampled_from(["object", "string", "integer", "bigint", ["string", "null"], ["a", "a"], "any", None])


def _schemas_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from(["a", "b", "$id", "we ird/%"]), inner, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": _types,
            "properties": named | _odd,
            "required": st.sampled_from([["a"], ["a", "a"], "a", True, None]),
            "pattern": _patterns,
            "patternProperties": st.dictionaries(_patterns.filter(bool), inner, max_size=1) | _odd,
            "additionalProperties": inner | _odd,
            "items": inner | st.lists(inner, max_size=2) | _odd,
            "prefixItems": st.lists(inner, max_size=2) | _odd,
            "oneOf": st.lists(inner, max_size=2) | _odd,
            "not": inner | _odd,
            "enum": st.sampled_from([["a", "b"], ["a", "a"], [], None, "a"]),
            "$ref": st.sampled_from(
                ["#", "#/$defs/a", "#/$defs/none", "#/$defs/we%20ird~1%25", "#named", "https://x.test/y", "x y", None]
            ),
            "$defs": named | _odd,
            "$id": st.sampled_from(["https://x.test/y", "same", "::", None, 5]),
            "id": st.sampled_from(["same", "#a", None]),
            "$anchor": st.sampled_from(["named", None]),
            "$schema": st.sampled_from(
                [
                    "https://json-schema.org/draft/2020-12/schema",
                    "http://json-schema.org/draft-07/schema#",
                    "http://json-schema.org/draft-04/schema#",
                    "a",
                    None,
                ]
            ),
            "nullable": st.sampled_from([True, None, "yes"]),
            "minimum": st.sampled_from([0, "0", None]),
            "exclusiveMinimum": st.sampled_from([0, True, None]),
            "minLength": st.sampled_from([0, -1, "1", None]),
            "format": st.sampled_from(["date-time", "unheard-of", None, 5]),
            "default": _odd,
            "description": _texts,
            "x-vendor": _odd,
        },
    )


odd_schemas: Final[st.SearchStrategy[Any]] = _schemas_of(
    _schemas_of(st.just(_EMPTY) | st.booleans() | st.just({"type": "string"}) | _odd)
)
"""Schemas of which most are invalid, or compile in some languages only."""

_of_objects = odd_schemas.map(lambda schema: {**schema, "type": "object"})
_described = {"title": _texts, "description": _texts, "icons": _icons | _odd, "_meta": _odd, "x-vendor": _odd}
_placed = {**_described, "mimeType": _texts, "annotations": _annotations | _odd}

odd_definitions: Final[Mapping[str, st.SearchStrategy[JSON]]] = {
    "tool": st.fixed_dictionaries(
        {"name": st.just("odd")},
        optional={
            **_described,
            "inputSchema": _of_objects | odd_schemas | _odd,
            "outputSchema": _of_objects | odd_schemas | _odd,
            "annotations": _hints | _odd,
            "execution": st.sampled_from([{"taskSupport": "required"}, {"taskSupport": "a"}, {"taskSupport": None}])
            | _odd,
        },
    ),
    "prompt": st.fixed_dictionaries(
        {"name": st.just("odd")},
        optional={
            **_described,
            "arguments": st.lists(
                st.fixed_dictionaries(
                    {"name": st.just("a")}, optional={"title": _texts, "description": _texts, "required": _odd}
                )
                | _odd,
                max_size=2,
            )
            | _odd,
        },
    ),
    "resource": st.fixed_dictionaries(
        {
            "uri": st.sampled_from(["odd://1", "no scheme", "/a/b", "http://999.1.1.1/", "odd://a:b/", "urn:a:b"]),
            "name": st.just("odd"),
        },
        optional={**_placed, "size": st.sampled_from([1, 1.0, 1.5, "1", None, -1, 1e300])},
    ),
    "resource template": st.fixed_dictionaries(
        {"uriTemplate": st.sampled_from(["odd://{a}", "{", "no scheme", "odd://{+a}{?b*}"]), "name": st.just("odd")},
        optional=_placed,
    ),
}
"""Definitions by kind; most can be told apart from no other one by their names."""
