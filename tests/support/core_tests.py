"""Which tests `pytest -m core` runs: every capability once, in one process, in a minute on two cores.

A test elsewhere belongs to them too if it is marked `@pytest.mark.core`.
"""

from __future__ import annotations

import functools
from pathlib import Path

__all__ = ["FOLDERS", "MODULES", "SLOW", "TESTS", "holds_marks", "is_core"]

TESTS = Path(__file__).parents[1]

FOLDERS = """
    agents/chat doors/acp desk/bundles bridge/calls bridge/bridge/chaining bridge/config desk/editors bridge/json_schema
    doors/openai_api bridge/protocol bridge/runtime bridge/text
    bridge/server bridge/sources/agent doors/conversation gaia_agents
""".split()
"""Whole folders, whose tests need next to no other process."""

DIRECTLY = "agents bridge bridge/bridge".split()
"""Folders whose own modules are, without the folders below them."""

MODULES = """
    agents/llm/test_settings.py agents/mcp/aio/test_handles.py agents/mcp/client/test_mcp_client.py
    agents/mcp/client/transports/test_base.py agents/mcp/test_mixin.py
    cli/serving/test_banner.py cli/test_output.py
    agents/mcp/toolset/test_schema_converter.py bridge/client/oauth/test_grants.py bridge/client/oauth/test_store.py
    bridge/client/test_lists.py bridge/client/test_negotiation.py bridge/client/test_questions.py
    bridge/client/test_requests.py bridge/client/test_connection.py bridge/client/test_subscriptions.py
    bridge/client/test_tasks.py bridge/client/transports/test_batches.py bridge/client/transports/test_json_rpc.py
    bridge/client/transports/http/test_sessions.py bridge/client/transports/http/test_sse.py
    bridge/client/transports/http/test_streamable_http.py bridge/sources/test_change_queue.py
    bridge/sources/upstream/listing/test_feature_cache.py bridge/sources/upstream/listing/test_feature_lists.py
    bridge/sources/upstream/listing/test_first_look.py bridge/sources/upstream/test_relay.py
    bridge/sources/upstream/test_restart_policy.py bridge/sources/upstream/test_supervisor.py
    conformance/test_fixture_server.py conformance/test_through_runner.py docs/test_architecture_page.py
    docs/test_vscode_config.py
""".split()
"""Single modules of folders with tests that start processes or take long."""

SLOW = """
    agents/chat/test_as_models.py agents/chat/test_load.py agents/chat/test_over_http.py doors/acp/test_servers.py
    desk/bundles/test_started.py bridge/calls/test_call_log.py bridge/config/test_file_editor.py
    doors/conversation/test_lent_tools.py doors/openai_api/test_responses.py
    bridge/calls/results/test_client_shortening.py bridge/server/http/test_connection.py bridge/server/test_backlog.py
    bridge/server/test_garbage.py bridge/server/transports/test_sessions.py bridge/server/transports/test_stdio.py
    bridge/sources/agent/test_abandoned_questions.py bridge/test_circles.py bridge/test_no_remote_launch.py
    bridge/test_odd_texts.py bridge/test_said_in_each_revision.py bridge/test_skills.py gaia_agents/test_ignore.py
    agents/test_conversations_of_clients.py agents/test_published_whole.py bridge/bridge/test_contents.py
    bridge/server/http/test_server_card.py bridge/server/test_client_results.py
    bridge/server/test_questions_of_each_revision.py bridge/test_changed_programs.py bridge/test_old_lists.py
    desk/editors/test_golden_files.py doors/acp/test_two_conversations.py doors/openai_api/test_two_clients.py
    agents/test_background_loop.py bridge/bridge/test_bridge_servers.py bridge/test_async_factories.py
    gaia_agents/test_base_classes.py gaia_agents/test_code_search.py gaia_agents/test_protection.py
""".split()
"""Modules of whole folders that are left out: what they try out many times, others do once."""

_FOLDERS = frozenset(TESTS / folder for folder in FOLDERS)
_DIRECTLY = frozenset(TESTS / folder for folder in DIRECTLY)
_MODULES = frozenset(TESTS / module for module in MODULES)
_SLOW = frozenset(TESTS / module for module in SLOW)


@functools.cache
def is_core(path: Path) -> bool:
    """Whether all tests of a module or folder are."""
    if path in _SLOW:
        return False
    return path in _MODULES or path.parent in _DIRECTLY or not _FOLDERS.isdisjoint((path, *path.parents))


def holds_marks(module: Path) -> bool:
    """Whether single tests of a module are marked so."""
    return "@pytest.mark.core" in module.read_text("utf-8")
