"""The ids of tasks in messages (2025-11-25, basic/utilities/tasks), as clients of several servers are told them."""

from __future__ import annotations

from typing import Final

from gaia_bridge.protocol.meta import RELATED_TASK_KEY
from gaia_bridge.text.json_types import JSON, is_object

TASK_ID: Final = "taskId"
TASK_STATUS: Final = "notifications/tasks/status"
"""Tells whoever made a task how it is."""


def with_public_task(message: JSON, prefix: str) -> JSON:
    """A result, or the parameters of a question, with the public id of the task that it is, or is related to.

    Args:
        message: What the server sent; not changed.
        prefix: What the public ids of its tasks begin with; empty where they are the server's own.
    """
    if not prefix:
        return message
    if isinstance(identifier := message.get(TASK_ID), str):
        message = {**message, TASK_ID: prefix + identifier}
    if is_object(task := message.get("task")):
        message = {**message, "task": with_public_task(task, prefix)}
    told = message.get("_meta")
    if is_object(told) and is_object(related := told.get(RELATED_TASK_KEY)):
        message = {**message, "_meta": {**told, RELATED_TASK_KEY: with_public_task(related, prefix)}}
    return message


def with_own_task(message: JSON, prefix: str) -> JSON:
    """What a client says, with the server's own id of the task that it is related to.

    Args:
        message: The client's answer to a question, or the parameters of a notification; not changed.
        prefix: What the public ids of the server's tasks begin with; empty where they are its own.
    """
    told = message.get("_meta")
    related = told.get(RELATED_TASK_KEY) if is_object(told) else None
    identifier = related.get(TASK_ID) if is_object(related) else None
    if not (prefix and is_object(told) and is_object(related) and isinstance(identifier, str)):
        return message
    own = {**related, TASK_ID: identifier.removeprefix(prefix)}
    return {**message, "_meta": {**told, RELATED_TASK_KEY: own}}


def made_task(result: JSON) -> str | None:
    """The id of the task that a result says was made; `None` if it is another result."""
    task = result.get("task")
    identifier = task.get(TASK_ID) if is_object(task) else None
    return identifier if isinstance(identifier, str) else None
