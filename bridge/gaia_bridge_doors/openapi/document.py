"""An OpenAPI document: read from JSON or YAML, of a supported version, its references followed. Pure.

Documents in use break the specification in places that do not matter, so a fault in one operation does not refuse
the whole document: that operation is left out, with the reason.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from gaia_bridge.client.transport import LaunchError, UpstreamError
from gaia_bridge.settings import OpenApiLimits
from gaia_bridge.text.escaping import one_line, valid_text
from gaia_bridge.text.json_text import from_json, to_json
from gaia_bridge.text.json_types import JSON, MAX_NESTING, at_pointer, is_array, is_object

_HOPS: Final = 16
"""The most references that lead to references in a row."""

_VERSION: Final = re.compile(r"3\.[012](?:\.\d+)?(?:-.*)?")


class OperationError(Exception):
    """An operation cannot be a tool; the message says why."""


class Document(Struct, frozen=True):
    """An OpenAPI document."""

    content: JSON
    is_early: bool
    """Whether the document is of version 3.0, whose schemas are not quite JSON Schema."""

    def resolved(self, part: object) -> JSON:
        """Return a part of the document as an object, its reference followed.

        Raises:
            OperationError: The part is no object, or its reference leads nowhere or out of the document.
        """
        for _ in range(_HOPS):
            if not is_object(part):
                raise OperationError(f"it has {one_line(repr(part), 60)} where an object was expected")
            reference = part.get("$ref")
            if not isinstance(reference, str):
                return part
            part = self.target(reference)
        raise OperationError("it has references that lead to references without an end")

    def target(self, reference: str) -> Any:
        """Return the part that a reference leads to.

        Raises:
            OperationError: The reference leads nowhere, or out of the document.
        """
        shown = one_line(reference, 100)
        if not reference.startswith("#"):
            raise OperationError(f"it refers to {shown!r}, which is in another file; expected one document with all")
        if (part := self._at(reference)) is None:
            raise OperationError(f"it refers to {shown!r}, and nothing is there")
        return part

    def has(self, reference: str) -> bool:
        """Return whether a reference leads to something in the document."""
        return self._at(reference) is not None

    def _at(self, reference: str) -> Any:
        if reference in ("#", "#/"):
            return self.content
        return at_pointer(self.content, reference) if reference.startswith("#/") else None


def document_of(content: Mapping[str, Any]) -> Document:
    """Return a document from decoded content.

    Raises:
        UpstreamError: The content is not JSON, or no OpenAPI document.
    """
    try:
        return _checked(from_json(to_json(dict(content))))
    except (TypeError, ValueError) as error:
        raise UpstreamError(f"has an OpenAPI document that is not JSON: {one_line(str(error), 200)}") from None


def document_from(text: bytes, limits: OpenApiLimits) -> Document:
    """Read a document.

    Args:
        text: JSON or YAML, in UTF-8.
        limits: Bounds.

    Raises:
        LaunchError: It is YAML, and the package that reads it is missing.
        UpstreamError: The text is no OpenAPI document; the message says which kind it is.
    """
    start = text.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start:
        raise UpstreamError("has an OpenAPI document that is empty; expected JSON or YAML")
    if start.startswith(b"<"):
        raise UpstreamError("has a page of HTML or XML where its OpenAPI document should be; expected JSON or YAML")
    if start.startswith((b"{", b"[")):
        try:
            return _checked(from_json(start, allow_inf_nan=False))
        except ValueError as error:
            problem = one_line(str(error), 200)  # YAML may begin like this as well, but does not in practice
            raise UpstreamError(f"has an OpenAPI document that is not JSON: {problem}") from None
    return _checked(_from_yaml(text, limits))


def _checked(content: object) -> Document:
    if not is_object(content):
        raise UpstreamError('has an OpenAPI document that is no object; expected {"openapi": "3.1.0", ...}')
    if "swagger" in content:
        raise UpstreamError("has a document of Swagger 2.0; expected OpenAPI 3.0 to 3.2, to which converters lead")
    version = content.get("openapi")
    if not isinstance(version, str):
        raise UpstreamError('has a document without \'openapi\'; expected {"openapi": "3.1.0", ...}')
    if not _VERSION.fullmatch(version):
        raise UpstreamError(f"has a document of OpenAPI {one_line(version, 20)!r}; expected 3.0 to 3.2")
    if not is_object(content.get("paths", {})):
        raise UpstreamError("has an OpenAPI document whose 'paths' is no object; expected {PATH: {METHOD: ...}}")
    return Document(content, version.startswith("3.0"))


def _from_yaml(text: bytes, limits: OpenApiLimits) -> Any:
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError:
        raise LaunchError(
            "has an OpenAPI document in YAML, and the package that reads it is not installed; "
            "run: pip install 'gaia-mcp-bridge[openapi]', or give the document as JSON"
        ) from None
    try:
        _refuse_deep(yaml, text)
        content = yaml.load(text, Loader=_loader(yaml, limits.document_parts))
        return _Copy(limits.document_parts).of(content)
    # PyYAML looks a value with a tag that does not fit it up in tables, and matches it, without a check.
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, ValueError, RecursionError) as error:
        problem = one_line(str(error) or type(error).__name__, 300)
        raise UpstreamError(f"has an OpenAPI document that is neither JSON nor YAML: {problem}") from None


def _refuse_deep(yaml: Any, text: bytes) -> None:
    """Refuse deep nesting before anything is built: PyYAML recurses for each level, in C."""
    depth = 0
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_NESTING:
                raise ValueError(f"it is nested deeper than {MAX_NESTING} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _loader(yaml: Any, parts: int) -> Any:
    """Return a YAML loader for OpenAPI: with the values of JSON, and without dates, `no` and `12:30` of YAML 1.1.

    Args:
        yaml: The package.
        parts: The most pairs that may be merged (`<<`) into others: PyYAML copies them each time, also merged ones.
    """

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Reads YAML with the values of JSON."""

        yaml_implicit_resolvers: dict[Any, Any] = {}
        room = parts

        def flatten_mapping(self, node: Any) -> None:
            """Merge the mappings that a mapping refers to, while there is room."""
            for key, value in node.value:
                if key.tag == "tag:yaml.org,2002:merge":
                    for merged in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                        if isinstance(merged, yaml.MappingNode):
                            self.flatten_mapping(merged)
                            self.room -= len(merged.value) + 1
                        if self.room < 0:
                            raise ValueError("with what is merged written out, it has too many parts")
            super().flatten_mapping(node)  # pyright: ignore[reportUnknownMemberType]

    for kind, pattern, first in (
        ("merge", r"<<", ["<"]),
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
        ("int", r"-?(?:0|[1-9][0-9]*)", list("-0123456789")),
        ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", list("-0123456789")),
    ):
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(rf"(?:{pattern})$"), first)
    return Loader


class _Copy:
    """Copies the result of a YAML loader to plain JSON; in the result, one part may stand in many places.

    Args:
        parts: How many parts there may be with all aliases written out.
    """

    def __init__(self, parts: int) -> None:
        self._left = parts

    def of(self, value: Any, depth: int = 0) -> Any:
        """Return the copy of a value.

        Raises:
            ValueError: The copy is too large, or has a value that JSON does not have.
        """
        self._left -= 1
        if self._left < 0:
            raise ValueError("with its aliases written out, it has too many parts")
        if depth > MAX_NESTING:
            raise ValueError(f"with its aliases written out, it is nested deeper than {MAX_NESTING} levels")
        if is_object(value):
            return {_key(key): self.of(item, depth + 1) for key, item in value.items()}
        if is_array(value):
            return [self.of(item, depth + 1) for item in value]
        if isinstance(value, str):
            return valid_text(value)
        if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
            return value
        raise ValueError(f"it has a value of YAML that JSON has not ({type(value).__name__})")


def _key(key: object) -> str:
    """Return a key as JSON has it: the statuses of responses are often written as numbers."""
    if isinstance(key, str):
        return valid_text(key)
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise ValueError(f"it has a key that is no text ({type(key).__name__})")
