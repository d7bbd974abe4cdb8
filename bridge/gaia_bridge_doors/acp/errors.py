"""What an editor is told of a request that cannot be answered: what came, what was expected, what to do."""

from __future__ import annotations

from acp import RequestError
from pydantic import ValidationError

from gaia_bridge.protocol.codes import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST
from gaia_bridge.text.escaping import one_line

RESOURCE_NOT_FOUND = -32002
"""ACP's code for a conversation that is not there."""

_PROBLEMS = 5
"""Of one request that are told."""


def invalid(at: str, came: str, expected: str, code: int = INVALID_PARAMS) -> RequestError:
    """The error of parameters that make no sense.

    Args:
        at: The parameter.
        came: What came, as a part of a sentence.
        expected: What was expected.
        code: The JSON-RPC error code.
    """
    return RequestError(code, one_line(f"{at}: {came}; expected {expected}"))


def busy(problem: str) -> RequestError:
    """The error of a request that cannot be answered now."""
    return RequestError(INVALID_REQUEST, one_line(problem))


def failed(problem: str) -> RequestError:
    """The error of a request that failed for no fault of the editor."""
    return RequestError(INTERNAL_ERROR, one_line(problem))


def of_validation(error: ValidationError) -> RequestError:
    """The error of parameters that have not the shape that the protocol says."""
    found = error.errors(include_url=False, include_context=False)
    lines = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}; got {item['input']!r:.80}" for item in found]
    more = [f"and {len(lines) - _PROBLEMS} more"] if len(lines) > _PROBLEMS else []
    return RequestError(INVALID_PARAMS, one_line("Invalid params: " + ", ".join(lines[:_PROBLEMS] + more), 1_000))
