"""The errors for an editor whose request cannot be answered: the value, the expected value, the remedy."""

from __future__ import annotations

from acp import RequestError
from pydantic import ValidationError

from gaia_bridge.protocol.codes import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST
from gaia_bridge.text.escaping import one_line

RESOURCE_NOT_FOUND = -32002
"""ACP's code for a conversation that does not exist."""

_PROBLEMS = 5
"""The most problems of one request that are reported."""


def invalid(at: str, came: str, expected: str, code: int = INVALID_PARAMS) -> RequestError:
    """Return the error of invalid parameters.

    Args:
        at: The parameter.
        came: The value, as a part of a sentence.
        expected: The expected value.
        code: The JSON-RPC error code.
    """
    return RequestError(code, one_line(f"{at}: {came}; expected {expected}"))


def busy(problem: str) -> RequestError:
    """Return the error of a request that cannot be answered now."""
    return RequestError(INVALID_REQUEST, one_line(problem))


def failed(problem: str) -> RequestError:
    """Return the error of a request that failed without a fault of the editor."""
    return RequestError(INTERNAL_ERROR, one_line(problem))


def of_validation(error: ValidationError) -> RequestError:
    """Return the error of parameters that do not fit the protocol's schema."""
    problems = error.errors(include_url=False, include_context=False)
    lines = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}; got {item['input']!r:.80}" for item in problems]
    more = [f"and {len(lines) - _PROBLEMS} more"] if len(lines) > _PROBLEMS else []
    return RequestError(INVALID_PARAMS, one_line("Invalid params: " + ", ".join(lines[:_PROBLEMS] + more), 1_000))
