"""The module of a typed client: a class with one method for each tool, prompt and resource of a server.

Beside it are parts that are the same for every server.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.text.json_types import JSON, is_array, is_object
from gaia_bridge_desk.client_code.writing import (
    Names,
    Types,
    docstring,
    literal,
    object_parts,
    parameter_name,
    pascal_case,
    snake_case,
)

CONNECTION: Final = '''class Connection(Protocol):
    """An open connection to the server."""

    def call_tool(self, name: str, arguments: dict[str, Any], /) -> Awaitable[Any]:
        """Call a tool."""
        ...'''

PROMPT_CONNECTION: Final = '''@runtime_checkable
class PromptConnection(Protocol):
    """A connection that gets prompts."""

    def get_prompt(self, name: str, arguments: dict[str, str], /) -> Awaitable[Any]:
        """Get a prompt."""
        ...'''

RESOURCE_CONNECTION: Final = '''@runtime_checkable
class ResourceConnection(Protocol):
    """A connection that reads resources."""

    def read_resource(self, uri: str, /) -> Awaitable[Any]:
        """Read a resource."""
        ...'''

ANSWER: Final = '''class ToolFailedError(Exception):
    """A tool says that it failed, or did not answer as it promised."""


class Answer(str):
    """The text of what a tool answered; `content` has all of it."""

    content: list[Any]
    structured: Any'''

FIELD: Final = '''def _field(value: Any, *names: str) -> Any:
    """A field of a result, which is a mapping or an object."""
    for name in names:
        if isinstance(value, Mapping):
            found = cast("Mapping[str, Any]", value).get(name)
        else:
            found = getattr(value, name, None)
        if found is not None:
            return found
    return None'''

TEXT: Final = '''def _answer(result: Any) -> Answer:
    """What a tool answered."""
    content = [*(_field(result, "content") or ())]
    texts = (_field(block, "text") for block in content)
    answer = Answer("\\n".join(text for text in texts if isinstance(text, str)))
    answer.content = content
    answer.structured = _field(result, "structuredContent", "structured_content")
    if _field(result, "isError", "is_error"):
        raise ToolFailedError(str(answer))
    return answer'''

STRUCTURED: Final = '''def _structured(result: Any) -> Any:
    """The structured content of what a tool answered, which it promised."""
    found = _answer(result).structured
    if found is None:
        raise ToolFailedError("the tool answered without the structured content that it promised")
    return found'''

GIVEN: Final = '''def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    """Those that have a value."""
    return {name: value for name, value in arguments.items() if value is not None}'''

MESSAGES: Final = '''def _prompts(connection: object) -> PromptConnection:
    if not isinstance(connection, PromptConnection):
        raise TypeError(f"{type(connection).__name__} has no get_prompt; expected a connection that gets prompts")
    return connection


def _messages(result: Any) -> list[Any]:
    """The messages of a prompt."""
    return [*(_field(result, "messages") or ())]'''

RESOURCES: Final = '''def _resources(connection: object) -> ResourceConnection:
    if not isinstance(connection, ResourceConnection):
        raise TypeError(f"{type(connection).__name__} has no read_resource; expected one that reads resources")
    return connection


def _contents(result: Any) -> str | bytes:
    """What is in a resource: its texts, or the bytes of the first part that has no text."""
    parts = [*(result if isinstance(result, list) else _field(result, "contents") or ())]
    texts = [text for part in parts if isinstance(text := _field(part, "text"), str)]
    blobs = [blob for part in parts if isinstance(blob := _field(part, "blob"), str)]
    return base64.b64decode(blobs[0]) if blobs and not texts else "\\n".join(texts)'''

EXPANDED: Final = '''def _expanded(template: str, values: dict[str, str]) -> str:
    """A URI of a template (RFC 6570)."""

    def expanded(found: re.Match[str]) -> str:
        return quote(values[found[2]], safe=":/?#[]@!$&'()*+,;=" if found[1] else "")

    return re.sub(r"\\{(\\+?)(\\w+)\\}", expanded, template)'''


_IMPORTS: Final = {
    "collections.abc": ("Awaitable", "Mapping"),
    "typing": ("Any", "Literal", "NotRequired", "Protocol", "TypedDict", "cast", "runtime_checkable"),
    "urllib.parse": ("quote",),
}
_OWN: Final = (
    *(
        "Answer",
        "Connection",
        "PromptConnection",
        "ResourceConnection",
        "ToolFailedError",
        "annotations",
        "base64",
        "re",
    ),
    *(name for names in _IMPORTS.values() for name in names),
)
"""Names that have a meaning in every module."""

_MENTIONED: Final = ("self", "cast", "found", "given", "dict", "str", "Any")
"""Names in the body of a method."""

_WITH_QUOTED_TYPES: Final = ("TypedDict", "cast")
"""Functions whose arguments have types as text."""

_LONGEST_LINE: Final = 120

_VARIABLE: Final = re.compile(r"\{(\+?)(\w+)\}")


class ServerOffer(Struct, frozen=True):
    """The definitions that a server lists."""

    server: str
    """The server's name."""
    tools: Sequence[JSON] = ()
    prompts: Sequence[JSON] = ()
    resources: Sequence[JSON] = ()
    templates: Sequence[JSON] = ()


class _Parameter(Struct, frozen=True):
    key: str
    name: str
    kind: str
    required: bool
    description: str


class _CallCode(Struct, frozen=True):
    """A call, without its arguments: the request, and the code that converts the answer."""

    before: str
    asked: str
    after: str

    def with_arguments(self, given: str) -> str:
        """Return the whole call with its arguments."""
        return f"{self.before}{self.asked}{given}){self.after}"


def client_module(offer: ServerOffer, class_name: str | None = None) -> str:
    """Return the source of a module with a client of a server.

    The same definitions, in whatever order, make the same text.

    Args:
        offer: The server's definitions. Those without a name are left out.
        class_name: The name of the class; the server's name with `Client` behind it if not given.
    """
    return _Module(offer, class_name).text()


def client_class(offer: ServerOffer, class_name: str | None = None) -> str:
    """Return the name of the class in such a module. Arguments as for `client_module`."""
    return _Module(offer, class_name).class_name


class _Module:
    def __init__(self, offer: ServerOffer, class_name: str | None) -> None:
        self._offer = offer
        self._names = Names(_OWN)
        self.class_name = self._names.new(class_name or f"{pascal_case(offer.server, 'Server')}Client")
        self._types = Types(self._names)
        self._methods = Names({"read"})
        self._body: list[str] = []
        self._helpers: list[str] = [FIELD]

    def text(self) -> str:
        """Return the source of the whole module."""
        tools = _sorted(self._offer.tools, "name")
        if tools:
            self._helpers.append(TEXT)
        for tool in tools:
            self._add_tool(tool)
        for prompt in _sorted(self._offer.prompts, "name"):
            self._add_prompt(prompt)
        self._add_resources()
        offer = self._offer
        connections = [CONNECTION]
        if offer.prompts:
            connections.append(PROMPT_CONNECTION)
            self._helpers.append(MESSAGES)
        if offer.resources or offer.templates:
            connections.append(RESOURCE_CONNECTION)
            self._helpers.append(RESOURCES)
        head = docstring(
            f"Client of the MCP server {_line(offer.server)}, written by `gaia-bridge generate client`.", ""
        )
        used = "\n\n\n".join([*connections, ANSWER, *self._types.declared, *self._client(), *self._helpers])
        imports = ["from __future__ import annotations", "", *_imports(used)]
        return "\n".join([*head, "", *imports, "", *_all(self.class_name), "", "", f"{used}\n"])

    def _client(self) -> list[str]:
        lines = [
            f"class {self.class_name}:",
            *docstring(
                f"What {_line(self._offer.server)} offers.\n\nArgs:\n    connection: An open connection to it.", "    "
            ),
            "",
            "    def __init__(self, connection: Connection) -> None:",
            "        self._connection = connection",
            *self._body,
        ]
        return ["\n".join(lines)]

    def _add_tool(self, tool: JSON) -> None:
        name = tool["name"]
        title = pascal_case(name, "Tool")
        schema = tool.get("inputSchema")
        parameters = self._parameters(schema if is_object(schema) else {}, title)
        output = tool.get("outputSchema")
        returns = self._types.of(output, output, f"{title}Result") if is_object(output) else "Answer"
        before, after = "_answer(", ")"
        if is_object(output) and _can_be_none(returns):  # a result without structured content is valid, too
            after = ").structured"
        elif is_object(output):
            before = "_structured("
            if STRUCTURED not in self._helpers:
                self._helpers.append(STRUCTURED)
        if is_object(output) and returns != "Any":
            before, after = f"cast({literal(returns)}, {before}", f"{after})"
        call = _CallCode(before, f"await self._connection.call_tool({literal(name)}, ", after)
        if not parameters and is_object(schema) and _is_open(schema):
            parameters = [_Parameter("", "arguments", "dict[str, Any]", False, "By their names.")]
            body = [f"        return {call.with_arguments('arguments or {}')}"]
        else:
            parameters, body = self._given(parameters, returns, call)
        self._add_method(snake_case(name, "tool"), parameters, returns, body, tool, "ToolFailedError: The tool failed.")

    def _add_prompt(self, prompt: JSON) -> None:
        name, listed = prompt["name"], prompt.get("arguments")
        arguments = [item for item in listed if is_object(item) and _has_name(item, "name")] if is_array(listed) else []
        parameters = [
            _Parameter(
                item["name"],
                parameter_name(item["name"]),
                "str",
                item.get("required") is True,
                str(item.get("description") or ""),
            )
            for item in {item["name"]: item for item in arguments}.values()
        ]
        call = _CallCode("_messages(", f"await _prompts(self._connection).get_prompt({literal(name)}, ", ")")
        parameters, body = self._given(parameters, "list[Any]", call)
        self._add_method(f"prompt_{snake_case(name, 'prompt')}", parameters, "list[Any]", body, prompt, "")

    def _add_resources(self) -> None:
        offer = self._offer
        if not offer.resources and not offer.templates:
            return
        self._body += [
            "",
            "    async def read(self, uri: str) -> str | bytes:",
            '        """Read a resource by its URI."""',
            "        return _contents(await _resources(self._connection).read_resource(uri))",
        ]
        for resource in _sorted(offer.resources, "uri"):
            name = f"read_{snake_case(str(resource.get('name') or resource['uri']), 'resource')}"
            body = [f"        return await self.read({literal(resource['uri'])})"]
            self._add_method(name, [], "str | bytes", body, resource, "")
        for template in _sorted(offer.templates, "uriTemplate"):
            self._add_template(template)

    def _add_template(self, template: JSON) -> None:
        text = template["uriTemplate"]
        variables = list(dict.fromkeys(name for _, name in _VARIABLE.findall(text)))
        if not variables or set("{}") & set(_VARIABLE.sub("", text)):
            return  # rarer forms of RFC 6570; users expand them themselves for `read`
        if EXPANDED not in self._helpers:
            self._helpers.append(EXPANDED)
        names = Names({"self"}, builtins_too=False)
        parameters = [_Parameter(key, names.new(parameter_name(key)), "str", True, "") for key in variables]
        values = ", ".join(f"{literal(each.key)}: {each.name}" for each in parameters)
        name = f"read_{snake_case(str(template.get('name') or text), 'resource')}"
        body = [f"        return await self.read(_expanded({literal(text)}, {{{values}}}))"]
        self._add_method(name, parameters, "str | bytes", body, template, "")

    def _parameters(self, schema: JSON, title: str) -> list[_Parameter]:
        properties, required = object_parts(schema, schema)
        parameters: list[_Parameter] = []
        for key, part in properties.items():
            kind = self._types.of(part, schema, f"{title}{pascal_case(key, 'Parameter')}"[:80])
            about = part if is_object(part) else {}
            description = str(about.get("description") or "")
            parameters.append(_Parameter(key, parameter_name(key), kind, key in required, description))
        return parameters

    def _given(self, parameters: list[_Parameter], returns: str, call: _CallCode) -> tuple[list[_Parameter], list[str]]:
        """Return the parameters, required ones first, and the statements that call with them.

        No parameter has a name that these statements mention.
        """
        names = Names({*_MENTIONED, *re.findall(r"\w+", returns)}, builtins_too=False)
        named = [
            replace(each, name=names.new(each.name)) for each in sorted(parameters, key=lambda each: not each.required)
        ]
        needed = [f"{literal(each.key)}: {each.name}" for each in named if each.required]
        further = [f"{literal(each.key)}: {each.name}" for each in named if not each.required]
        if further and GIVEN not in self._helpers:
            self._helpers.append(GIVEN)
        given = [*needed, *([f"**_given({{{', '.join(further)}}})"] if further else [])]
        inline = ", ".join(given)
        line = f"        return {call.with_arguments(f'{{{inline}}}')}"
        if len(line) <= _LONGEST_LINE or not given:
            return named, [line]
        lines = ["        given: dict[str, Any] = {", *(f"            {each}," for each in needed), "        }"]
        if not needed:
            lines = ["        given: dict[str, Any] = {}"]
        if further:
            lines += ["        given |= _given(", "            {", *(f"                {each}," for each in further)]
            lines += ["            }", "        )"]
        return named, [*lines, f"        found = {call.asked}given)", f"        return {call.before}found{call.after}"]

    def _add_method(
        self, wanted: str, parameters: list[_Parameter], returns: str, body: list[str], about: JSON, raises: str
    ) -> None:
        signature = [
            f"{each.name}: {each.kind}" if each.required else f"{each.name}: {_or_none(each.kind)} = None"
            for each in parameters
        ]
        name = self._methods.new(wanted)
        head = f"    async def {name}(self{', *, ' if signature else ''}{', '.join(signature)}) -> {returns}:"
        text = _description(about)
        if described := [each for each in parameters if each.description.strip()]:
            arguments = [f"    {each.name}: {' '.join(each.description.split())}" for each in described]
            text += "\n\nArgs:\n" + "\n".join(arguments)
        if raises:
            text += f"\n\nRaises:\n    {raises}"
        lines = [head]
        if len(head) > _LONGEST_LINE:
            lines = [f"    async def {name}(", "        self,", *(["        *,"] if signature else [])]
            lines += [*(f"        {each}," for each in signature), f"    ) -> {returns}:"]
        self._body += ["", *lines, *docstring(text, "        "), *body]


def _or_none(kind: str) -> str:
    return kind if kind == "Any" or _can_be_none(kind) else f"{kind} | None"


def _can_be_none(kind: str) -> bool:
    return kind.split(" | ")[-1] == "None"


def _description(about: JSON) -> str:
    text = about.get("description") or about.get("title") or about.get("name") or ""
    return "\n".join(str(text).splitlines()).strip() or "It is not described."


def _is_open(schema: JSON) -> bool:
    """Return whether arguments are allowed that the schema does not name."""
    further = schema.get("additionalProperties")
    return (
        further is True
        or (is_object(further) and bool(further))
        or any(key in schema for key in ("anyOf", "oneOf", "patternProperties"))
    )


def _has_name(item: Any, key: str) -> bool:
    return is_object(item) and isinstance(item.get(key), str) and item[key] != ""


def _sorted(items: Sequence[JSON], key: str) -> list[JSON]:
    """Return the items that have a name, in its order; of several with one name, the first."""
    by_name: dict[str, JSON] = {}
    for item in items:
        if _has_name(item, key):
            by_name.setdefault(item[key], item)
    return [by_name[name] for name in sorted(by_name)]


def _line(text: str) -> str:
    return " ".join(text.split())[:200] or "that has no name"


def _all(name: str) -> list[str]:
    return [f"__all__ = [{', '.join(map(literal, sorted([name, 'Answer', 'ToolFailedError'])))}]"]


def _imports(text: str) -> list[str]:
    """Return the imports that a text needs: judged by its code, because names in docstrings need no import."""
    mentioned: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            mentioned.add(node.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _WITH_QUOTED_TYPES:
            for part in (part for argument in node.args for part in ast.walk(argument)):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    mentioned.update(re.findall(r"\w+", part.value))
    lines = [f"import {module}" for module in ("base64", "re") if module in mentioned]
    for module, names in _IMPORTS.items():
        if used := [name for name in names if name in mentioned]:
            lines.append(f"from {module} import {', '.join(used)}")
    return lines
