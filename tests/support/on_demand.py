"""Modules that take long to import, imported before the first test that uses them: collecting all tests does without.

    from tests.support.on_demand import mcp

    async with mcp.Client(url) as client: ...

Programs that tests start import what they need themselves.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gaia_bridge_cli.collection import imported_for_good

__all__ = [
    "acp",
    "acp_prompts",
    "acp_schema",
    "acp_serving",
    "acp_updates",
    "import_what_is_used_by",
    "fixture_server",
    "mcp",
    "mcp_auth",
    "mcp_context",
    "mcp_inbound",
    "mcp_lowlevel",
    "mcp_message",
    "mcp_methods",
    "mcp_runner",
    "mcp_server",
    "mcp_server_context",
    "mcp_server_sse",
    "mcp_sse",
    "mcp_stdio",
    "mcp_streamable_http",
    "mcp_streamable_manager",
    "mcp_subscriptions",
    "mcp_types",
    "mcp_uri_template",
    "mcp_versions",
    "oauth_grants",
    "oauth_interaction",
    "oauth_provider",
    "oauth_store",
    "openai",
    "openai_chat",
    "pushing_server",
    "sdk_server",
    "stdio_upstream",
]


class _OnDemand:
    """Stands for a module, and imports it when its first attribute is asked for.

    Args:
        name: Of the module.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # whoever collects tests looks whether it is one
            raise AttributeError(name)
        return getattr(self.module(), name)

    @property
    def is_imported(self) -> bool:
        """Whether the module is there already."""
        return self._name in sys.modules

    def module(self) -> ModuleType:
        """The module itself."""
        return import_module(self._name)


@cache
def import_what_is_used_by(name: str) -> None:
    """Import what a module of tests, and those of its own modules that it uses, take from here.

    No test waits for an import then: what it bounds is what it shows.
    """
    waiting, seen = [name], {name}
    while waiting:
        for value in list(vars(sys.modules[waiting.pop()]).values()):
            if isinstance(value, _OnDemand):
                if not value.is_imported:
                    with imported_for_good():
                        value.module()
                continue
            origin = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if isinstance(origin, str) and origin.startswith("tests.") and origin in sys.modules and origin not in seen:
                seen.add(origin)
                waiting.append(origin)


if TYPE_CHECKING:
    import acp
    import acp.schema as acp_schema
    import mcp
    import mcp.client.context as mcp_context
    import mcp.client.sse as mcp_sse
    import mcp.client.stdio as mcp_stdio
    import mcp.client.streamable_http as mcp_streamable_http
    import mcp.client.subscriptions as mcp_subscriptions
    import mcp.server.context as mcp_server_context
    import mcp.server.lowlevel as mcp_lowlevel
    import mcp.server.mcpserver as mcp_server
    import mcp.server.runner as mcp_runner
    import mcp.server.sse as mcp_server_sse
    import mcp.server.streamable_http_manager as mcp_streamable_manager
    import mcp.shared.auth as mcp_auth
    import mcp.shared.inbound as mcp_inbound
    import mcp.shared.message as mcp_message
    import mcp.shared.uri_template as mcp_uri_template
    import mcp_types
    import mcp_types.methods as mcp_methods
    import mcp_types.version as mcp_versions
    import openai
    import openai.types.chat as openai_chat

    import gaia_bridge.client.oauth.interaction as oauth_interaction
    import gaia_bridge.client.oauth.provider as oauth_provider
    import gaia_bridge.client.oauth.store as oauth_store
    import gaia_bridge_doors.acp.prompts as acp_prompts
    import gaia_bridge_doors.acp.serving as acp_serving
    import gaia_bridge_doors.acp.updates as acp_updates
    import tests.conformance.fixture_server as fixture_server
    import tests.oracle.sdk_server as sdk_server
    import tests.servers.pushing_server as pushing_server
    import tests.servers.stdio_upstream as stdio_upstream
    import tests.support.oauth_grants as oauth_grants
else:
    acp = _OnDemand("acp")
    acp_prompts = _OnDemand("gaia_bridge_doors.acp.prompts")
    acp_schema = _OnDemand("acp.schema")
    acp_serving = _OnDemand("gaia_bridge_doors.acp.serving")
    acp_updates = _OnDemand("gaia_bridge_doors.acp.updates")
    fixture_server = _OnDemand("tests.conformance.fixture_server")
    mcp = _OnDemand("mcp")
    mcp_auth = _OnDemand("mcp.shared.auth")
    mcp_context = _OnDemand("mcp.client.context")
    mcp_inbound = _OnDemand("mcp.shared.inbound")
    mcp_lowlevel = _OnDemand("mcp.server.lowlevel")
    mcp_message = _OnDemand("mcp.shared.message")
    mcp_methods = _OnDemand("mcp_types.methods")
    mcp_runner = _OnDemand("mcp.server.runner")
    mcp_server = _OnDemand("mcp.server.mcpserver")
    mcp_server_context = _OnDemand("mcp.server.context")
    mcp_server_sse = _OnDemand("mcp.server.sse")
    mcp_sse = _OnDemand("mcp.client.sse")
    mcp_stdio = _OnDemand("mcp.client.stdio")
    mcp_streamable_http = _OnDemand("mcp.client.streamable_http")
    mcp_streamable_manager = _OnDemand("mcp.server.streamable_http_manager")
    mcp_subscriptions = _OnDemand("mcp.client.subscriptions")
    mcp_types = _OnDemand("mcp_types")
    mcp_uri_template = _OnDemand("mcp.shared.uri_template")
    mcp_versions = _OnDemand("mcp_types.version")
    oauth_grants = _OnDemand("tests.support.oauth_grants")
    oauth_interaction = _OnDemand("gaia_bridge.client.oauth.interaction")
    oauth_provider = _OnDemand("gaia_bridge.client.oauth.provider")
    oauth_store = _OnDemand("gaia_bridge.client.oauth.store")
    openai = _OnDemand("openai")
    openai_chat = _OnDemand("openai.types.chat")
    pushing_server = _OnDemand("tests.servers.pushing_server")
    sdk_server = _OnDemand("tests.oracle.sdk_server")
    stdio_upstream = _OnDemand("tests.servers.stdio_upstream")
