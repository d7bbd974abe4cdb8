"""What can be imported: `__all__` is sorted and complete, and each package offers exactly what we decided.

The rule, for packages and for the modules that users import by their paths: every public function and class that one
defines is in its `__all__`; constants and type aliases may be; every name in `__all__` exists. All other modules are
for our own use. Names that start with an underscore are private, and so are whole modules that do.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

SURFACES = {
    "gaia_bridge.cli": ["main"],
    "gaia_bridge.testing": ["FakeModel", "FakeUser", "RecordingClient", "connected"],
    "gaia_bridge.middleware": [
        "CallNext",
        "McpRequest",
        "Middleware",
        "RateLimit",
        "ResultCache",
        "ResultSize",
        "RetryReads",
        "TimingLog",
    ],
    "gaia": ["AgentConsole", "SilentConsole", "__version__"],
    "gaia.agents.base": [
        "Agent",
        "ApiAgent",
        "MCPAgent",
        "Progress",
        "RequestContext",
        "ResourceNotFoundError",
        "Tool",
        "ToolError",
        "completion",
        "get_request_context",
        "prompt",
        "resource",
        "tool",
    ],
    "gaia.llm": [
        "ChatModel",
        "ContextOverflowError",
        "ModelBusyError",
        "ModelCredentialsError",
        "ModelError",
        "ModelLimits",
        "ModelNotFoundError",
        "ModelUnreachableError",
        "OpenAIModel",
        "Reply",
        "ToolCall",
        "Usage",
    ],
    "gaia.mcp": [
        "MCPClient",
        "MCPClientManager",
        "MCPClientMixin",
    ],
    "gaia.mcp.aio": ["MCPAgent", "MCPClientManager", "ManagerLimits", "ToolAgent"],
    "gaia.mcp.client": [
        "AgentTransport",
        "HTTPTransport",
        "MCPClient",
        "MCPClientManager",
        "MCPConfig",
        "MCPTool",
        "MCPTransport",
        "StdioTransport",
    ],
    "gaia.mcp.toolset": [
        "ALL_SERVERS",
        "FETCH_SERVER",
        "MCPClientManager",
        "MCPSchemaConverter",
        "MCPServerConfig",
        "MCPToolWrapper",
        "create_mcp_tools",
        "get_enabled_mcp_servers",
    ],
    "gaia_agents": ["CodeAgent", "ProjectAgent"],
    "gaia_bridge": [
        "AgentLike",
        "AgentLimits",
        "AgentLoadError",
        "Bridge",
        "BridgeError",
        "Client",
        "Composition",
        "ConfigError",
        "Elicited",
        "HttpLimits",
        "HttpServerSpec",
        "NamingPolicy",
        "OpenApiServerSpec",
        "Progress",
        "ProtocolError",
        "PublishError",
        "Publisher",
        "RequestContext",
        "ResourceNotFoundError",
        "ServerOptions",
        "ServerUnavailableError",
        "Settings",
        "SkillChangedError",
        "StdioServerSpec",
        "ToolError",
        "ToolResult",
        "ToolSearchPolicy",
        "UpstreamLimits",
        "__version__",
        "completion",
        "get_request_context",
        "prompt",
        "resource",
        "serve",
        "source",
        "tool",
    ],
}
"""The packages that users import from. A new name here is a promise."""

MODULES = (
    "gaia.agents.base.agent",
    "gaia.agents.base.mcp_agent",
    "gaia.agents.base.tools",
    "gaia.environment",
    "gaia.mcp.client.config",
    "gaia.mcp.client.transports.base",
    "gaia_bridge.chat_types",
    "gaia_bridge.cli",
    "gaia_bridge.content",
    "gaia_bridge.model",
    "gaia_bridge.testing",
)
"""The modules that users import by their paths, as the documentation shows them."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a module's source says about its public names."""

    exported: tuple[str, ...] | None
    """`__all__`, or nothing."""
    defined: tuple[str, ...]
    """Public functions and classes of the module's own."""


def declared(source: str) -> Declared:
    """Read a module's `__all__` and public definitions, also below a top-level `if` or `try`.

    Raises:
        ValueError: `__all__` is not written as a literal list of strings.
    """
    exported: tuple[str, ...] | None = None
    defined: list[str] = []
    for node in _top_level(ast.parse(source).body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            defined.append(node.name)
        elif isinstance(node, ast.AugAssign) and ast.unparse(node.target) == "__all__":
            raise ValueError("__all__ must be written in one piece")
        elif isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            exported = tuple(ast.literal_eval(node.value))
    return Declared(exported, tuple(dict.fromkeys(defined)))


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _top_level([*node.body, *node.orelse])


def order(name: str) -> tuple[int, str]:
    """The order that ruff's RUF022 and isort use: constants, then classes, then the rest."""
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2, name)


def flaws(module: Declared) -> list[str]:
    """Where a module's `__all__` breaks the rule."""
    if module.exported is None:
        return [f"no __all__, but public names: {', '.join(module.defined)}"] if module.defined else []
    found: list[str] = []
    if list(module.exported) != (expected := sorted(set(module.exported), key=order)):
        found.append(f"__all__ should be {expected}")
    if missing := [name for name in module.defined if name not in module.exported]:
        found.append(f"not in __all__: {', '.join(missing)}")
    return found


def module_files() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for root in ("bridge", "agents"):
        for path in sorted((ROOT / root).rglob("*.py")):
            parts = path.relative_to(ROOT / root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def public_modules() -> dict[str, Path]:
    return {name: path for name, path in module_files().items() if path.name == "__init__.py" or name in MODULES}


def test_every_public_function_and_class_is_in_a_sorted_all() -> None:
    found = [
        f"{name}: {flaw}"
        for name, path in public_modules().items()
        for flaw in flaws(declared(path.read_text("utf-8")))
    ]
    assert not found, "\n".join(found)


def test_every_name_in_all_exists() -> None:
    missing: list[str] = []
    for name in public_modules():
        module = importlib.import_module(name)
        missing.extend(f"{name}.{item}" for item in getattr(module, "__all__", ()) if not hasattr(module, item))
    assert missing == []


def test_every_module_that_users_import_from_exists() -> None:
    assert {*MODULES, *SURFACES} - {*module_files()} == set()


def test_gaia_is_ours_and_not_another_distributions() -> None:
    """With amd-gaia in the same environment, every other failure of these tests would be a riddle."""
    origin = importlib.import_module("gaia").__file__
    assert origin is not None
    assert Path(origin).parent.parent.name in {"agents", "_gaia_bridge_compat"}, f"gaia is imported from {origin}"


@pytest.mark.parametrize("package", SURFACES)
def test_a_package_offers_exactly_what_was_decided(package: str) -> None:
    assert importlib.import_module(package).__all__ == SURFACES[package]


@pytest.mark.parametrize(
    ("source", "flaw"),
    [
        ("def run(): ...", "no __all__"),
        ("__all__ = ['run', 'Runner']\nclass Runner: ...\ndef run(): ...", "should be"),
        ("__all__ = ['run', 'run']\ndef run(): ...", "should be"),
        ("__all__ = ['run']\ndef run(): ...\nclass Runner: ...", "not in __all__: Runner"),
        ("__all__ = ['run']\ndef run(): ...\nif True:\n    async def walk(): ...", "not in __all__: walk"),
    ],
)
def test_an_incomplete_or_unsorted_all_is_found(source: str, flaw: str) -> None:
    assert len(flaws(declared(source))) == 1
    assert flaw in flaws(declared(source))[0]


def test_constants_come_before_classes_and_classes_before_functions() -> None:
    source = (
        "__all__ = ['DEFAULT_PORT', 'Runner', 'Server', 'run']\nclass Runner: ...\nclass Server: ...\ndef run(): ..."
    )
    assert flaws(declared(source)) == []


def test_private_names_and_constants_may_stay_out_of_all() -> None:
    assert flaws(declared("__all__ = ['run']\nLIMIT = 3\ndef run(): ...\ndef _help(): ...")) == []
    assert flaws(declared("LIMIT = 3")) == []


def test_an_all_that_grows_in_pieces_is_refused() -> None:
    with pytest.raises(ValueError, match="one piece"):
        declared("__all__ = ['a']\n__all__ += ['b']")
