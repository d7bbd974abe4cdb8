"""The shapes of definitions, content blocks and results that servers send (MCP, schema)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gaia_bridge.protocol.shapes import (
    ANYTHING,
    FLAG,
    FRACTION,
    OBJECT,
    TEXT,
    TEXTS,
    WHOLE,
    Field,
    Items,
    Record,
    Shape,
    Tagged,
    one_of,
    optional,
    required,
)

_MOST_COMPLETIONS: Final = 100
"""The most values that one completion result may have (server/utilities/completion)."""
ROLE: Final = one_of("assistant", "user")
_META: Final = Field("_meta", OBJECT)
_ICON: Final = Record(
    required("src", TEXT),
    *optional("mimeType", shape=TEXT),
    Field("sizes", TEXTS),
    Field("theme", one_of("light", "dark")),
)
_ICONS: Final = Field("icons", Items(_ICON))
_DAY: Final = (
    r"\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    r"|02-(?:0[1-9]|1\d|2[0-8]))"
)
_LEAP_DAY: Final = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29"
_TIME: Final = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_TIMESTAMP: Final = rf"(?a:(?:{_DAY}|{_LEAP_DAY})T{_TIME})"
"""The pattern of a date and time in RFC 3339; compiled when first needed, which is seldom."""

LAST_MODIFIED: Final = Shape(
    "a date and time with an offset, such as 2025-01-12T15:00:58Z",
    lambda value: isinstance(value, str) and re.fullmatch(_TIMESTAMP, value) is not None,
)
"""A time that the TypeScript SDK accepts, which refuses a whole list for any other."""

_ANNOTATIONS: Final = Field(
    "annotations",
    Record(Field("audience", Items(ROLE)), Field("lastModified", LAST_MODIFIED), Field("priority", FRACTION)),
)

IMPLEMENTATION: Final = Record(
    required("name", TEXT),
    required("version", TEXT),
    *optional("title", "description", "websiteUrl", shape=TEXT),
    _ICONS,
)
"""`Implementation`: the name and version of a client or server."""


def _schema_of(properties: Shape | None, *, is_object: bool) -> Record:
    fields = [Field("$schema", TEXT)]
    if is_object:
        fields.append(required("type", one_of("object")))
    if properties is not None:
        fields += [Field("properties", Record(values=properties)), Field("required", TEXTS)]
    return Record(*fields)


def _is_size(value: object) -> bool:
    # Python's SDK refuses a whole list for a float that no whole number of 64 bits is.
    return WHOLE.fits(value) and -(2**53) < value < 2**53  # type: ignore[operator]


_PROPERTY: Final = Shape("a schema", lambda value: isinstance(value, dict | bool))
_TOOL: Final = (
    required("name", TEXT),
    *optional("title", "description", shape=TEXT),
    _ICONS,
    _META,
    Field(
        "annotations",
        Record(
            Field("title", TEXT),
            *optional("destructiveHint", "idempotentHint", "openWorldHint", "readOnlyHint", shape=FLAG),
        ),
    ),
)
EXECUTION: Final = Record(Field("taskSupport", one_of("forbidden", "optional", "required")))
"""The `execution` field of a tool of 2025-11-25: whether the tool can run, or must run, as a task."""
_HANDSHAKE_TOOL: Final = Record(
    *_TOOL,
    required("inputSchema", _schema_of(_PROPERTY, is_object=True)),
    Field("outputSchema", _schema_of(_PROPERTY, is_object=True)),
    Field("execution", EXECUTION),
)
TOOL: Final = Record(
    *_TOOL,
    required("inputSchema", _schema_of(None, is_object=True)),
    Field("outputSchema", _schema_of(None, is_object=False)),
)
"""A tool of 2026-07-28."""

_PROMPT: Final = Record(
    required("name", TEXT),
    *optional("title", "description", shape=TEXT),
    _ICONS,
    _META,
    Field(
        "arguments",
        Items(Record(required("name", TEXT), *optional("title", "description", shape=TEXT), Field("required", FLAG))),
    ),
)
_DESCRIBED: Final = (
    required("name", TEXT),
    *optional("title", "description", "mimeType", shape=TEXT),
    _ICONS,
    _ANNOTATIONS,
    _META,
)
_SIZE: Final = Field("size", Shape("a whole number of bytes", _is_size))
_RESOURCE: Final = Record(*_DESCRIBED, required("uri", TEXT), _SIZE)
_TEMPLATE: Final = Record(*_DESCRIBED, required("uriTemplate", TEXT))

_SKILL: Final = Record(
    required("uri", TEXT),
    required("frontmatter", Record(required("name", TEXT), required("description", TEXT))),
    required("resources", ANYTHING),
    _META,
)
"""The shape of a skill's entry; `protocol.skills` checks the rest."""

HANDSHAKE_DEFINITIONS: Final[Mapping[str, Record]] = {
    "tool": _HANDSHAKE_TOOL,
    "prompt": _PROMPT,
    "resource": _RESOURCE,
    "resource template": _TEMPLATE,
    "skill": _SKILL,
}
"""The definitions that clients up to 2025-11-25 accept in lists, by kind."""

MODERN_DEFINITIONS: Final[Mapping[str, Record]] = {**HANDSHAKE_DEFINITIONS, "tool": TOOL}
"""The definitions that clients of 2026-07-28 accept in lists, by kind."""
_TEXT_OR_BLOB: Final = [
    Record(required("uri", TEXT), required(name, TEXT), Field("mimeType", TEXT), _META) for name in ("text", "blob")
]
_CONTENTS: Final = Shape(
    "an object with a uri, and text or a blob", lambda value: any(shape.fits(value) for shape in _TEXT_OR_BLOB)
)
"""The contents of a resource: text, or bytes in Base64."""
_OF_A_BLOCK: Final = (_ANNOTATIONS, _META)
_BYTES: Final = Record(required("data", TEXT), required("mimeType", TEXT), *_OF_A_BLOCK)
DECORATION: Final = Record(_ANNOTATIONS, _ICONS, _SIZE)
"""The optional parts of a block, which can be left out where they are invalid."""
BLOCKS: Final[Mapping[str, Record]] = {
    "text": Record(required("text", TEXT), *_OF_A_BLOCK),
    "image": _BYTES,
    "audio": _BYTES,
    "resource_link": _RESOURCE,
    "resource": Record(required("resource", _CONTENTS), *_OF_A_BLOCK),
}
BLOCK: Final = Tagged("type", BLOCKS, others=OBJECT)
"""A content block. An unknown type is accepted: the receiver may know it."""

RESULTS: Final[Mapping[str, Record]] = {
    "tools/call": Record(
        required("content", Items(BLOCK)), Field("isError", FLAG), _META
    ),  # structured content may be any JSON since 2026-07-28
    "prompts/get": Record(
        required("messages", Items(Record(required("role", ROLE), required("content", BLOCK)))),
        Field("description", TEXT),
        _META,
    ),
    "resources/read": Record(required("contents", Items(_CONTENTS)), _META),
    "completion/complete": Record(
        required(
            "completion",
            Record(
                required("values", Items(TEXT, "a list of strings", _MOST_COMPLETIONS)),
                Field("total", WHOLE),
                Field("hasMore", FLAG),
            ),
        ),
        _META,
    ),
}
"""The complete results of the methods that are forwarded to a source, by method."""
