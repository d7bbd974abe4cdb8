"""A line in the log for each request, with how long it took."""

from __future__ import annotations

import logging
import time

from gaia_bridge.errors import RequestError
from gaia_bridge.middleware.base import CallNext, McpRequest, Middleware
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON


class TimingLog(Middleware):
    """Logs each request when it is answered: what, for whom, how it ended, and how long it took.

        tools/call add for vscode 1.139: ok in 3.2 ms

    What was said is not in it. Given first, it measures the middleware behind it as well; given last, none of it.

    Args:
        logger: Where; `gaia_bridge.middleware.timing_log` if not given.
        level: As in `logging`.
    """

    def __init__(self, logger: logging.Logger | None = None, level: int = logging.INFO) -> None:
        self._logger = logger or logging.getLogger(__name__)
        self._level = level

    async def on_request(self, request: McpRequest, call_next: CallNext) -> JSON:
        """Measure it."""
        began, outcome = time.perf_counter(), "given up"
        try:
            result = await call_next(request)
            outcome = _outcome_of(result)
        except RequestError:
            outcome = "refused"
            raise
        except Exception:
            outcome = "failed"
            raise
        finally:
            if self._logger.isEnabledFor(self._level):
                took = round(1000 * (time.perf_counter() - began), 1)
                what = one_line(f"{request.method} {request.name.partition('?')[0]}", 120).rstrip()
                where = f" at {request.endpoint}" if request.endpoint else ""
                who = one_line(request.client, 120)
                self._logger.log(self._level, "%s%s for %s: %s in %g ms", what, where, who, outcome, took)
        return result


def _outcome_of(result: JSON) -> str:
    if result.get("resultType") == "input_required":
        return "asks"
    return "tool error" if result.get("isError") is True else "ok"
