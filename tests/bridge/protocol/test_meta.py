"""Whom a tool is for."""

from __future__ import annotations

from typing import Any

import pytest

from gaia_bridge.protocol.meta import is_model_visible


@pytest.mark.parametrize("visibility", [["model"], ["app", "model"], ["model", "app", "x"], None, "app", {"app": 1}])
def test_a_tool_is_for_models_unless_it_says_otherwise_in_the_way_of_mcp_apps(visibility: Any) -> None:
    assert is_model_visible({"name": "t", "_meta": {"ui": {"visibility": visibility}}})


@pytest.mark.parametrize("meta", [{}, {"_meta": None}, {"_meta": {}}, {"_meta": {"ui": "app"}}, {"_meta": {"ui": {}}}])
def test_a_tool_that_says_nothing_of_it_is_for_models(meta: Any) -> None:
    assert is_model_visible({"name": "t", **meta})


@pytest.mark.parametrize("visibility", [["app"], ["app", "x"], []])
def test_a_tool_whose_visibility_does_not_include_models_is_not_for_them(visibility: Any) -> None:
    assert not is_model_visible({"name": "t", "_meta": {"ui": {"resourceUri": "ui://v", "visibility": visibility}}})
