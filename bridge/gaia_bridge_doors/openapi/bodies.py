"""Request bodies: their descriptions in a document, and their bytes. Pure."""

from __future__ import annotations

import re
import secrets
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping
from mimetypes import MimeTypes
from typing import Any, Final, Literal
from urllib.parse import quote_plus

from msgspec import Struct, field

from gaia_bridge.errors import ToolError
from gaia_bridge.json_schema.parts import schemas_in
from gaia_bridge.json_schema.validation import MAX_PARTS
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_doors.openapi.document import Document, OperationError
from gaia_bridge_doors.openapi.media_types import essence, is_json, is_text
from gaia_bridge_doors.openapi.parameters import expanded, text_of_value
from gaia_bridge_doors.openapi.schemas import SchemaReader

Kind = Literal["json", "form", "multipart", "text", "bytes"]

_FORM: Final = "application/x-www-form-urlencoded"
_MULTIPART: Final = "multipart/form-data"
_OCTETS: Final = "application/octet-stream"
_FORMS: Final[Mapping[str, Kind]] = {_FORM: "form", _MULTIPART: "multipart"}
_PREFERENCE: Final[Mapping[Kind, int]] = {"json": 0, "form": 1, "multipart": 2, "text": 3, "bytes": 3}
_MEDIA: Final = re.compile(r"[!#$&^_.+\-0-9A-Za-z]+/[!#$&^_.+\-0-9A-Za-z]+(?:\s*;\s*charset=[A-Za-z0-9_-]+)?")
"""A media type that can be written into a header."""

_DEEPEST: Final = 8
"""Levels of a form in which its fields and files are searched."""

_OF_OBJECTS: Final = frozenset({"additionalProperties", "description", "properties", "required", "title", "type"})
"""Keywords of a part that can be merged with other parts."""

_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
"""The first bytes of files that are often uploaded. Arguments have no file names, and Django refuses images without."""

_MEDIA_TYPES: Final = MimeTypes()
_DATA_URL: Final = re.compile(r"\Adata:[^,]{0,200};base64,")

_BASE64: Final[JSON] = {"type": "string", "contentEncoding": "base64"}


class Encoding(Struct, frozen=True):
    """The way to send one property of a form, where the document states it."""

    style: str = ""
    explode: bool = True
    media: str = ""


class Body(Struct, frozen=True):
    """The way to send the body of an operation."""

    media: str
    kind: Kind
    required: bool
    is_merged: bool
    """Whether the body's properties are arguments of the tool themselves."""
    argument: str = "body"
    """The argument that holds the body if it is not merged."""
    binary: frozenset[str] = frozenset()
    """The properties of a form that are files: Base64 in the arguments, bytes in the request."""
    encodings: Mapping[str, Encoding] = field(default_factory=dict[str, Encoding])


def body_of(document: Document, described: JSON, schemas: SchemaReader) -> tuple[Body, JSON]:
    """Return the way to send a body, and its schema.

    Args:
        document: The document of the body.
        described: The request body object.
        schemas: The reader of its schema.

    Raises:
        OperationError: None of its media types can be sent.
    """
    content = described.get("content")
    if not is_object(content) or not content:
        raise OperationError("its body has no media type; expected 'content'")
    media, kind, details = _chosen(document, content, schemas)
    required = described.get("required") is True
    if kind == "bytes":
        return Body(media, kind, required, is_merged=False), dict(_BASE64)
    schema = schemas.opened(details.get("schema", {} if kind == "json" else {"type": "string"}))
    if kind == "text":
        return Body(media, kind, required, is_merged=False), {"type": "string"}
    if kind == "json":
        sent = media if "*" not in media else "application/json"
        return Body(sent, kind, required, _can_be_merged(schema, required)), schema
    form = _Form(schemas)
    schema = form.merge_parts(schema)
    encodings = _encodings(details.get("encoding"))
    binary: frozenset[str] = frozenset()
    if kind == "multipart" and is_object(fields := schema.get("properties")):
        properties = {name: schemas.followed(item) for name, item in fields.items() if is_object(item)}
        files = {
            name: _as_base64(item, is_list=form.is_list(item))
            for name, item in properties.items()
            if form.is_file(item) or _is_declared_file(item, encodings.get(name))
        }
        binary = frozenset(files)
        schema = {**schema, "properties": {**fields, **files}}
    merged = _can_be_merged(schema, required)
    return Body(
        _FORM if kind == "form" else _MULTIPART,
        kind,
        required,
        merged,
        binary=binary,
        encodings=encodings,
    ), schema


def _chosen(document: Document, content: JSON, schemas: SchemaReader) -> tuple[str, Kind, JSON]:
    """Return the media type to send, its kind, and its media type object. JSON comes before a form, and a form before
    content without structure; but a type that carries files comes first where there are files.
    """
    kinds: dict[str, Kind] = {media: kind for media in content if (kind := _kind(media)) is not None}
    if not kinds:
        listed = ", ".join(repr(media[:60]) for media in list(content)[:5])
        raise OperationError(f"its body is sent as {listed}; expected JSON, a form, text or a file")
    media = min(kinds, key=lambda media: _PREFERENCE[kinds[media]])
    details = document.resolved(content[media])
    if kinds[media] in ("json", "form"):
        schema = schemas.read(details.get("schema", {}))
        is_file = _is_file(schemas.followed(schema))
        if is_file and "*" in media:
            return _OCTETS, "bytes", details
        carrier = next((other for other in kinds if kinds[other] == ("bytes" if is_file else "multipart")), None)
        if carrier is not None and any(map(_is_file, schemas_in(schemas.complete(schema)))):
            return carrier, kinds[carrier], document.resolved(content[carrier])
    return media, kinds[media], details


def _kind(media: str) -> Kind | None:
    """Return the kind of a media type; `None` if it cannot be sent."""
    if is_json(media):
        return "json"
    if (form := _FORMS.get(essence(media))) is not None:
        return form
    if not _MEDIA.fullmatch(media):
        return None
    if is_text(media):
        return "text"
    is_bytes = essence(media).startswith(("image/", "audio/", "video/", "application/"))
    return "bytes" if is_bytes and "*" not in media else None


def _can_be_merged(schema: JSON, required: bool) -> bool:
    """Return whether the properties of an object can stand beside the other arguments with the same meaning."""
    if schema.get("type") != "object" or not is_object(schema.get("properties")) or not schema["properties"]:
        return False
    if schema.keys() & {"allOf", "anyOf", "oneOf", "not", "if", "$ref", "patternProperties", "minProperties"}:
        return False
    if is_object(schema.get("additionalProperties")) and schema["additionalProperties"]:
        return False
    names = schema.get("required")
    return required or not names  # of a body that may be left out, nothing is required by itself


class _Form:
    """Finds the fields of a form, and those of them that are files, wherever the document describes them.

    Args:
        schemas: The reader of its schemas.
    """

    def __init__(self, schemas: SchemaReader) -> None:
        self._schemas = schemas
        self._left = MAX_PARTS

    def merge_parts(self, schema: JSON, depth: int = 0) -> JSON:
        """Merge the parts of a form's schema (`allOf`) into one, if they only describe fields; return the schema."""
        parts = schema.get("allOf")
        if not is_array(parts) or "$ref" in schema or depth > _DEEPEST:
            return schema
        fields: JSON = {}
        names: list[Any] = []
        for part in [{key: value for key, value in schema.items() if key != "allOf"}, *parts]:
            self._count_parts(1)
            inner = self.merge_parts(self._schemas.followed(part), depth + 1)
            further, needed = inner.get("properties", {}), inner.get("required", [])
            if not inner.keys() <= _OF_OBJECTS or not is_object(further) or not is_array(needed):
                return schema
            self._count_parts(len(further) + len(needed))
            for name, field_schema in further.items():
                fields.setdefault(name, field_schema)
            names += needed
        kept: JSON = {key: schema[key] for key in ("title", "description") if key in schema}
        return {**kept, "type": "object", "properties": fields, "required": names}

    def is_file(self, schema: object, depth: int = 0) -> bool:
        """Return whether a field is a file, or a list of files."""
        self._count_parts(1)
        if not is_object(schema) or depth > _DEEPEST:
            return False
        schema = self._schemas.followed(schema)
        for key in ("anyOf", "allOf"):  # such a part may be missing
            if is_array(kinds := schema.get(key)):
                return any(self.is_file(kind, depth + 1) for kind in kinds)
        if is_object(items := schema.get("items")):
            return self.is_file(items, depth + 1)
        return _is_file(schema)

    def is_list(self, schema: object, depth: int = 0) -> bool:
        """Return whether a field is a list, or may be one: a list that may be missing is described with `anyOf`."""
        self._count_parts(1)
        if not is_object(schema) or depth > _DEEPEST:
            return False
        schema = self._schemas.followed(schema)
        parts = (part for key in ("anyOf", "allOf") if is_array(kinds := schema.get(key)) for part in kinds)
        return is_object(schema.get("items")) or any(self.is_list(part, depth + 1) for part in parts)

    def _count_parts(self, steps: int) -> None:
        """Count parts, and refuse too many: parts that refer to each other have no end."""
        self._left -= steps
        if self._left < 0:
            raise OperationError(f"the fields of its form have more than {MAX_PARTS:,} parts")


def _is_file(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema describes bytes that JSON cannot carry."""
    media = schema.get("contentMediaType")
    if isinstance(media, str) and "contentEncoding" not in schema and not essence(media).endswith("json"):
        return True
    return schema.get("format") == "binary"


def _is_declared_file(schema: JSON, encoding: Encoding | None) -> bool:
    """Return whether a field without a type has a binary media type, as version 3.1 describes files."""
    media = encoding.media if encoding is not None else ""
    return bool(media) and not is_json(media) and not is_text(media) and schema.keys() <= {"title", "description"}


def _as_base64(schema: JSON, *, is_list: bool) -> JSON:
    """Return the schema of a file, or of a list of files, for arguments."""
    kept: JSON = {key: schema[key] for key in ("title", "description") if key in schema}
    if is_list:
        return {**kept, "type": "array", "items": dict(_BASE64)}
    return {**kept, **_BASE64}


def _encodings(described: object) -> dict[str, Encoding]:
    if not is_object(described):
        return {}
    encodings: dict[str, Encoding] = {}
    for name, item in described.items():
        if is_object(item):
            style, media = item.get("style"), item.get("contentType")
            named = style if isinstance(style, str) else "form" if "explode" in item else ""
            first = media.partition(",")[0].strip() if isinstance(media, str) else ""  # of those that will do
            usable = first if _MEDIA.fullmatch(first) and "*" not in first else ""
            encodings[name] = Encoding(named, item.get("explode", named == "form") is True, usable)
    return encodings


def encoded_body(body: Body, value: Any) -> tuple[str, bytes]:
    """Return the content type and the bytes of a body.

    Args:
        body: The way to send it.
        value: The value to send.

    Raises:
        ToolError: The value cannot be sent in this way.
    """
    if body.kind == "json":
        try:
            return body.media, to_json(value)
        except ValueError:
            raise ToolError(f"the argument {body.argument!r} cannot be written as JSON") from None
    if body.kind == "text":
        return body.media if "charset" in body.media else f"{body.media}; charset=utf-8", _utf8(value)
    if body.kind == "bytes":
        return body.media, _decoded(body.argument, value)
    if not is_object(value):
        raise ToolError(f"the argument {body.argument!r} is no object; expected one with the fields of a form")
    if body.kind == "form":
        return body.media, "&".join(_form_pairs(body, value)).encode("ascii")
    return _multipart(body, value)


def _form_pairs(body: Body, fields: JSON) -> Iterator[str]:
    for name, value in fields.items():
        encoding = body.encodings.get(name, Encoding())
        if encoding.style:
            yield from expanded(name, value, encoding.style, encoding.explode, _plus)
        elif is_array(value):
            yield from (f"{_plus(name)}={_plus(text_of_value(item))}" for item in value)
        elif value is not None:
            yield f"{_plus(name)}={_plus(text_of_value(value))}"


def _multipart(body: Body, fields: JSON) -> tuple[str, bytes]:
    boundary = secrets.token_hex(16)
    content = bytearray()
    for name, value in fields.items():
        for item in value if is_array(value) else [value]:
            if item is not None:
                content += f"--{boundary}\r\n".encode() + _part(body, name, item) + b"\r\n"
    content += f"--{boundary}--\r\n".encode()
    return f"{_MULTIPART}; boundary={boundary}", bytes(content)


def _part(body: Body, name: str, value: Any) -> bytes:
    media = body.encodings.get(name, Encoding()).media
    shown = name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    head = f'Content-Disposition: form-data; name="{shown}"'
    if name in body.binary:
        content = _decoded(name, value)
        media = media or next((kind for start, kind in _SIGNATURES if content.startswith(start)), "")
        head += f'; filename="{shown}{_MEDIA_TYPES.guess_extension(media) or ""}"'
        media = media or _OCTETS
    elif is_object(value) or is_array(value):
        content = to_json(value)
        media = media or "application/json"
    else:
        content = _utf8(text_of_value(value))
    kind = f"\r\nContent-Type: {media}" if media else ""
    return f"{head}{kind}\r\n\r\n".encode() + content


def _plus(text: str) -> str:
    return quote_plus(text, errors="replace")


def _utf8(value: object) -> bytes:
    return str(value).encode("utf-8", "replace")


def _decoded(name: str, value: Any) -> bytes:
    try:
        return b64decode(_DATA_URL.sub("", str(value), count=1), validate=True)
    except (Base64Error, ValueError):
        raise ToolError(f"the argument {name!r} is a file and is not Base64; expected its bytes in Base64") from None
