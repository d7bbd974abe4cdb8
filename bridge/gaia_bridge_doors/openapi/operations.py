"""The operations of an OpenAPI document as tools: their names, arguments, descriptions and hints. Pure.

An operation that cannot be called as its document describes it is left out, with the reason; the others are tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from gaia_bridge.json_schema.parts import SchemaError
from gaia_bridge.json_schema.validation import SchemaValidator
from gaia_bridge.model import LeftOut
from gaia_bridge.settings import OpenApiLimits
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_text import to_json
from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_doors.openapi.bodies import Body, body_of
from gaia_bridge_doors.openapi.document import Document, OperationError
from gaia_bridge_doors.openapi.media_types import is_json
from gaia_bridge_doors.openapi.schemas import SchemaReader

_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")

_HINTS: Final[Mapping[str, JSON]] = {
    "get": {"readOnlyHint": True},
    "head": {"readOnlyHint": True},
    "put": {"idempotentHint": True},
    "delete": {"destructiveHint": True, "idempotentHint": True},
}
"""The promises of the methods (RFC 9110, section 9.2)."""

_STYLES: Final[Mapping[str, tuple[str, ...]]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""The places of parameters, and the styles allowed there; the first is the default."""

_NEVER_ARGUMENTS: Final = frozenset(
    {
        *(
            "accept",
            "content-type",
            "authorization",
        ),  # OpenAPI 3.1, "Parameter Object": definitions of them are ignored
        *("accept-encoding", "connection", "content-length", "cookie", "host", "transfer-encoding"),
    }
)
"""Headers that a model must not choose: they describe the request, or its sender."""

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")

_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_NAME_LENGTH: Final = 64
"""Characters in the name of a tool or an argument that every client accepts."""


class Parameter(Struct, frozen=True):
    """One parameter of an operation outside of its body."""

    name: str
    place: str
    """`path`, `query`, `header` or `cookie`."""
    argument: str
    """The argument of the tool for this parameter."""
    style: str
    explode: bool
    reserved: bool = False
    """Whether reserved characters are sent unencoded."""
    is_json: bool = False
    """Whether the value is sent as JSON text."""


class Operation(Struct, frozen=True):
    """One operation, and its tool."""

    method: str
    """The HTTP method in upper case."""
    path: str
    """The path with `{...}` for its parameters."""
    parameters: tuple[Parameter, ...]
    body: Body | None
    definition: JSON = field(default_factory=dict[str, Any])
    """The MCP tool."""

    @property
    def name(self) -> str:
        """The name of the tool."""
        return str(self.definition["name"])


def read_operations(
    document: Document, limits: OpenApiLimits, fixed: Set[str] = frozenset()
) -> tuple[list[Operation], list[LeftOut]]:
    """Return the operations of a document, and those that are left out with the reasons.

    Args:
        document: The document.
        limits: The limits of their number and sizes.
        fixed: The headers that the configuration sets, in lower case: they are no arguments.
    """
    operations: dict[str, Operation] = {}
    left_out: list[LeftOut] = []
    schemas = SchemaReader(document)
    room = limits.tools_bytes
    for path, method, item, operation in _listed(document):
        name = _tool_name(operation, method, path, operations.keys() | {item.name for item in left_out})
        if max(len(operations), len(left_out)) >= limits.operations:
            left_out.append(LeftOut("tool", name, f"the document has more than {limits.operations:,} operations"))
            break
        try:
            reader = _OperationReader(document, fixed, schemas)
            read = reader.operation(name, method, path, item, operation)
            room -= (size := len(to_json(read.definition)))
            if room < 0:
                room += size
                raise OperationError(f"the tools of the document have more than {limits.tools_bytes:,} bytes")
            operations[name] = read
        except OperationError as problem:
            left_out.append(LeftOut("tool", name, f"{method.upper()} {path}: {problem}"))
    return list(operations.values()), left_out


def _listed(document: Document) -> Iterator[tuple[str, str, JSON, JSON]]:
    for path, item in document.content.get("paths", {}).items():
        if not is_object(item) or not path.startswith("/"):
            continue  # as extensions are
        if "$ref" in item:
            try:
                item = {**document.resolved(item), **{key: item[key] for key in item.keys() - {"$ref"}}}
            except OperationError:
                yield path, "any", item, {}  # its operations are unknown; the reader raises with the reason
                continue
        more = item.get("additionalOperations")  # of 3.2, as `query` is
        operations = {**item, **more} if is_object(more) else item
        for method in dict.fromkeys((*_METHODS, "query", *(more if is_object(more) else ()))):
            if is_object(operation := operations.get(method)):
                yield path, method, item, operation


def _tool_name(operation: JSON, method: str, path: str, taken: Set[str]) -> str:
    """Return a valid name that is not taken: the operation's id, or its method and path."""
    own = operation.get("operationId")
    words = own if isinstance(own, str) else re.sub(r"[^A-Za-z0-9.-]+", "_", f"{method} {path}")
    wanted = _NAME.sub("_", words).strip("_")[:_NAME_LENGTH] or method
    return _free_name(wanted, taken)


def _free_name(wanted: str, taken: Set[str]) -> str:
    """Return a name that is not taken, with a number if needed."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted[: _NAME_LENGTH - len(str(number)) - 1]}_{number}"
    return name


class _OperationReader:
    """Reads one operation.

    Args:
        document: Its document.
        fixed: The headers that are no arguments, beside those that never are.
        schemas: The reader of the schemas.
    """

    def __init__(self, document: Document, fixed: Set[str], schemas: SchemaReader) -> None:
        self._document = document
        self._fixed = fixed | _NEVER_ARGUMENTS
        self._schemas = schemas
        self._properties: JSON = {}
        self._required: list[str] = []
        self._is_closed = True
        """Whether there are no other arguments; a merged body may have properties that the document does not list."""

    def operation(self, name: str, method: str, path: str, item: JSON, operation: JSON) -> Operation:
        """Return the operation as a tool.

        Raises:
            OperationError: The operation cannot be a tool.
        """
        if "$ref" in item:
            self._document.resolved(item)  # raises with the reason if it leads nowhere
        if method not in _METHODS:
            raise OperationError("its method is not supported")
        if method == "trace":
            raise OperationError("its answer repeats the request with all of its headers, which may be secret")
        self._refuse_other_servers(item, operation)
        parameters = tuple(self._parameters(item, operation))
        missing = set(re.findall(r"\{([^{}]*)\}", path)) - {one.name for one in parameters if one.place == "path"}
        if missing:
            raise OperationError(f"its path has {{{min(missing)}}}, which none of its parameters describes")
        body = self._body(operation)
        schema: JSON = {"type": "object", "properties": self._properties}
        if self._required:
            schema["required"] = self._required
        if self._is_closed:
            schema["additionalProperties"] = False
        definition: JSON = {
            "name": name,
            "description": _description(method, path, operation),
            "inputSchema": self._compilable(schema),
        }
        if isinstance(summary := operation.get("summary"), str) and summary.strip():
            definition["title"] = summary.strip()
        if method in _HINTS:
            definition["annotations"] = dict(_HINTS[method])
        return Operation(method.upper(), path, parameters, body, definition)

    def _compilable(self, schema: JSON) -> JSON:
        try:
            return dict(SchemaValidator.tolerant(self._schemas.complete(schema)).schema)
        except SchemaError as error:
            raise OperationError(f"its schemas are not valid: {one_line(str(error), 300)}") from None

    def _refuse_other_servers(self, item: JSON, operation: JSON) -> None:
        own = operation.get("servers") or item.get("servers")
        if own and own != self._document.content.get("servers"):
            raise OperationError("it has servers of its own, which is not supported; the other operations are used")

    def _parameters(self, item: JSON, operation: JSON) -> Iterator[Parameter]:
        """Yield the parameters of the path, overridden by those of the operation."""
        listed: dict[tuple[str, str], JSON] = {}
        for owner in (item, operation):
            parts: Any = owner.get("parameters")
            if parts is not None and not is_array(parts):
                raise OperationError("its 'parameters' are no list")
            for part in parts or ():
                parameter = self._document.resolved(part)
                name, place = parameter.get("name"), parameter.get("in")
                if not isinstance(name, str) or not isinstance(place, str) or place not in _STYLES:
                    raise OperationError("it has a parameter without a name and a place; expected 'name' and 'in'")
                listed[place, name] = parameter
        for (place, name), parameter in listed.items():
            if place == "header" and name.lower() in self._fixed:
                continue
            if place == "header" and not _HEADER_NAME.fullmatch(name):
                raise OperationError(f"its parameter {one_line(name, 60)!r} cannot be the name of a header")
            yield self._parameter(name, place, parameter)

    def _parameter(self, name: str, place: str, parameter: JSON) -> Parameter:
        style = parameter.get("style", _STYLES[place][0])
        if style not in _STYLES[place]:
            raise OperationError(f"its parameter {name!r} has a style that is none for a {place}")
        schema, as_json = self._schema_of(name, parameter)
        argument = _argument_name(name)
        if argument in self._properties:
            argument = _free_name(_argument_name(f"{name}_{place}"), self._properties.keys())
        if isinstance(text := parameter.get("description"), str) and "description" not in schema:
            schema = {**schema, "description": text}
        if parameter.get("deprecated") is True:
            schema = {**schema, "deprecated": True}
        self._properties[argument] = schema
        if parameter.get("required") is True or place == "path":
            self._required.append(argument)
        explode = parameter.get("explode", style == "form")
        reserved = parameter.get("allowReserved") is True
        return Parameter(name, place, argument, style, explode is True, reserved, as_json)

    def _schema_of(self, name: str, parameter: JSON) -> tuple[JSON, bool]:
        content = parameter.get("content")
        if not is_object(content) or not content:
            return self._schemas.read(parameter.get("schema", {})), False
        media, described = next(iter(content.items()))
        if not is_json(media):
            raise OperationError(f"its parameter {name!r} is sent as {media!r}; expected a schema, or JSON")
        return self._schemas.read(self._document.resolved(described).get("schema", {})), True

    def _body(self, operation: JSON) -> Body | None:
        described = operation.get("requestBody")
        if described is None:
            return None
        request_body = self._document.resolved(described)
        body, schema = body_of(self._document, request_body, self._schemas)
        names = [_argument_name(name) for name in schema.get("properties", {})] if body.is_merged else []
        clash = not self._properties.keys().isdisjoint(names)
        if body.is_merged and not clash and names == list(schema["properties"]):
            self._properties |= schema["properties"]
            self._required += [name for name in schema.get("required", ()) if name in schema["properties"]]
            self._is_closed = schema.get("additionalProperties") is False
            return body
        argument = _free_name("body", self._properties.keys())
        if isinstance(text := request_body.get("description"), str) and "description" not in schema:
            schema = {**schema, "description": text}
        self._properties[argument] = schema
        if request_body.get("required") is True:
            self._required.append(argument)
        return replace(body, argument=argument, is_merged=False)


def _argument_name(name: str) -> str:
    return _NAME.sub("_", name)[:_NAME_LENGTH] or "argument"


def _description(method: str, path: str, operation: JSON) -> str:
    texts = [text.strip() for key in ("summary", "description") if isinstance(text := operation.get(key), str)]
    paragraphs = list(dict.fromkeys(filter(None, texts))) or [f"{method.upper()} {path}"]
    if operation.get("deprecated") is True:
        paragraphs.insert(0, "Deprecated: the API says that this should not be used any more.")
    return "\n\n".join(paragraphs)


def arguments_of_body(body: Body, operation: Operation, arguments: JSON) -> Any:
    """Return the body's part of the arguments; `None` if there is no body.

    Args:
        body: The way to send the body.
        operation: Its operation.
        arguments: The arguments of the tool.
    """
    if not body.is_merged:
        return arguments.get(body.argument)
    others = {parameter.argument for parameter in operation.parameters}
    fields = {name: value for name, value in arguments.items() if name not in others}
    return fields if fields or body.required else None
