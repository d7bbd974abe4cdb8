"""The meaning of a server's refusal, and what to do about it. Pure: facts in, an error with its sentence out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from msgspec import Struct

from gaia.llm.servers import KnownServer, shown_url
from gaia.llm.settings import Place
from gaia_bridge.errors import (
    ContextOverflowError,
    ModelBusyError,
    ModelCredentialsError,
    ModelError,
    ModelNotFoundError,
    ModelUnreachableError,
)
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import is_array, is_object
from gaia_bridge.text.redaction import redacted

__all__ = ["Refusal", "Report", "error_in", "nothing_found", "several_models"]

_SAID = 300
"""Characters of a server's own words that are shown."""
_SHOWN_MODELS = 20
"""Models that are listed in a message."""

_OVERFLOW: Final = re.compile(
    r"context_length_exceeded|exceed_context_size|ContextWindowExceeded|context[ _](?:length|size|window|limit)"
    r"|context the overflows|n_ctx|max(?:imum)? (?:model |input |sequence )?(?:context|length)"
    r"|too many (?:input )?tokens|(?:prompt|input|request|messages?) (?:is |are |was )?too (?:long|large)"
    r"|max_tokens must be at least 1, got -|reduce the length of the (?:messages|prompt|input)",
    re.IGNORECASE,
)
"""How servers say that the conversation is too long: there are as many ways as servers."""

_UNKNOWN_MODEL: Final = re.compile(
    r"model_not_found|no models? (?:is |are )?loaded|model\b.{0,200}(?:not (?:be )?found|does not exist|not exist)"
    r"|invalid model|unknown model",
    re.IGNORECASE | re.DOTALL,
)
_QUOTA: Final = re.compile(
    r"insufficient_quota|exceeded your current quota|billing|credit balance|insufficient credits", re.I
)
_LOADING: Final = re.compile(r"\bload(?:ing|ed)?\b", re.IGNORECASE)
_NO_TOOLS: Final = re.compile(
    r"does not support (?:tools|function)|tool choice requires|tools? (?:is|are) not supported|tools param requires",
    re.IGNORECASE,
)


class Refusal(Exception):
    """An answer that is none, as it came.

    Args:
        status: The HTTP status, or 0 where the error came inside of a stream.
        body: Its text, as far as it was read.
        headers: Its headers, with names in lower case.
    """

    def __init__(self, status: int, body: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.body = body
        self.headers = headers or {}

    @property
    def message(self) -> str:
        """The server's own words, as one line."""
        if self.is_web_page:
            return "a web page"
        return one_line(_message_in(_parsed(self.body)) or self.body, _SAID)

    @property
    def words(self) -> str:
        """The text that kinds of errors are recognised by; not all of the body, which may repeat the user's text."""
        value = _parsed(self.body)
        if not is_object(value):
            return self.body[:2000]
        error = value.get("error")
        kinds = [holder.get(field) for holder in (value, error) if is_object(holder) for field in ("type", "code")]
        return " ".join([_message_in(value), *(kind for kind in kinds if isinstance(kind, str))])

    @property
    def is_web_page(self) -> bool:
        """Whether this was meant for a browser."""
        return self.body.lstrip()[:1] == "<" or "html" in self.headers.get("content-type", "")

    @property
    def is_loading(self) -> bool:
        """Whether the server is there, and loads the model."""
        return self.status == 503 and _LOADING.search(self.message) is not None

    @property
    def is_busy(self) -> bool:
        """Whether the same request may do later."""
        return self.status in (429, 503) and not _QUOTA.search(self.words)

    @property
    def is_final(self) -> bool:
        """Whether the server says that the same request must not be sent again, as one does that ran tools for it."""
        return self.headers.get("x-should-retry", "").strip() == "false"

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the server wants to be asked again (RFC 9110, section 10.2.3)."""
        text = self.headers.get("retry-after", "").strip()
        try:
            seconds = float(text)
        except ValueError:
            try:
                moment = parsedate_to_datetime(text)
            except ValueError:
                return None
            seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - datetime.now(
                UTC
            ).timestamp()
        return min(max(0.0, seconds), 1e9) if seconds == seconds else None  # NaN is no number of seconds

    def refuses(self, field: str) -> bool:
        """Whether it is about a field of the request that it does not know."""
        return self.status in (400, 422, 500, 501) and field in self.body

    def refuses_streaming(self, with_tools: bool) -> bool:
        """Whether the same request may do without streaming."""
        if self.status not in (400, 422, 500, 501) or "stream" not in self.body.lower():
            return False
        wanted = r"not (?:be )?(?:supported|support|allowed|available)|unsupported|cannot|can't|does not support"
        return re.search(wanted, self.body, re.IGNORECASE) is not None and (
            with_tools or re.search(r"tool|function", self.body, re.IGNORECASE) is None
        )


def error_in(event: Any) -> Refusal | None:
    """Return the error in an event of a stream, or in a whole answer with status 200; `None` if it has none."""
    if not is_object(event):
        return None
    error = event.get("error")
    if not error and event.get("object") != "error" and not ("detail" in event and "choices" not in event):
        return None
    code = error.get("code") if is_object(error) else event.get("code")
    status = int(code) if isinstance(code, int | str) and str(code).isdigit() and len(str(code)) == 3 else 0
    return Refusal(status, json.dumps(event, ensure_ascii=False))


class Report(Struct, frozen=True):
    """Makes errors about one server.

    Args:
        place: Where it is.
        model: Which model was asked, or nothing yet.
    """

    place: Place
    model: str = ""

    @property
    def server(self) -> KnownServer | None:
        """Its row, if it is known."""
        return self.place.server

    @property
    def url(self) -> str:
        """Its address, for people."""
        return shown_url(self.place.url)

    @property
    def title(self) -> str:
        """The server's name with its address."""
        return f"{self.server.title} at {self.url}" if self.server else f"The model server at {self.url}"

    def unreachable(self, why: str) -> ModelError:
        """Report that nothing answers at the address."""
        start = f"Start {self.server.title} ({self.server.start})" if self.server else "Start it"
        if self.server and not self.server.is_local:
            start = "Look whether this machine is online"
        return ModelUnreachableError(
            f"No model server answers at {self.url} ({self._clean(why)}).",
            f"{start}, or set GAIA_BASE_URL to where one runs.",
        )

    def no_model_server(self, what: str) -> ModelError:
        """Report that the server at the address does not speak OpenAI's protocol."""
        return ModelUnreachableError(
            f"What answers at {self.url} does not speak OpenAI's protocol: {self._clean(what)}.",
            "Set GAIA_BASE_URL to the address of the API, which mostly ends in /v1.",
        )

    def silent(self, seconds: float, setting: str) -> ModelError:
        """Report that the server took too long."""
        return ModelError(
            f"{self.title} said nothing for {seconds:g} s.",
            f"See what it is doing; a model that is that slow needs ModelLimits({setting}=...).",
        )

    def broken(self, how: str) -> ModelError:
        """Report that the answer broke off."""
        return ModelError(
            f"{self.title} stopped in the middle of its answer ({self._clean(how)}).",
            "Ask again; if that happens again, see its log: it may have run out of memory.",
        )

    def oversized(self, what: str, limit: int, setting: str) -> ModelError:
        """Report that the server sent more than the limit."""
        return ModelError(
            f"{self.title} sent more than {limit:,} {what}.",
            f"If that is meant, build the model with ModelLimits({setting}=...).",
        )

    def unknown_model(self, models: Sequence[str], message: str = "") -> ModelError:
        """Report that the server has no such model, or cannot use it."""
        if not models or self.model in models:  # then it knows more about it
            reason = f" ({self._clean(message)})" if message else ""
            problem = f"{self.title} cannot use the model {self.model!r}{reason}."
        else:
            problem = f"{self.title} has no model {self.model!r}. It has {_listed(models)}."
        get = self.server.get.replace("MODEL", one_line(self.model, 100)) if self.server else ""
        other = f", or get it with `{get}`" if get else ""
        return ModelNotFoundError(problem, f"Set GAIA_MODEL, or the model argument, to one that it has{other}.")

    def failure(self, refusal: Refusal, models: Sequence[str] = (), path: str = "/chat/completions") -> ModelError:
        """Turn a refusal into the error for the user; the order of the checks matters."""
        message, status = self._clean(refusal.message), refusal.status
        if status not in (401, 403, 429) and _OVERFLOW.search(refusal.words):
            return self._overflow(message)
        if refusal.is_web_page and (status < 500):
            return self.no_model_server(f"it sent a web page (status {status})")
        if status in (401, 403) or _QUOTA.search(refusal.words):
            return self._no_entry(status, message)
        if refusal.is_busy:
            return self._busy(refusal, message)
        if _UNKNOWN_MODEL.search(refusal.words) and (status in (0, 400, 404, 422)):
            return self.unknown_model(models, message)
        if status == 404 or 300 <= status < 400 or "Unexpected endpoint" in message:
            return self.no_model_server(f"there is no {path} (status {status})")
        if _NO_TOOLS.search(refusal.words):
            return self._no_tools(message)
        if status == 0 or status >= 500:
            kind = f"status {status}: " if status else ""
            return ModelError(f"{self.title} failed ({kind}{message}).", "See its log, or try another model.")
        return ModelError(f"{self.title} refused the request (status {status}: {message}).", "See what it wants.")

    def _overflow(self, message: str) -> ModelError:
        longer = f"{self.server.longer} ({self.server.title})" if self.server else "give the model a larger context"
        return ContextOverflowError(
            f"The conversation is longer than {self.model or 'the model'} can read ({message}).",
            f"Begin a new session, offer fewer tools or shorter results, or {longer}.",
        )

    def nothing_said(self) -> ModelError:
        """Report that the model stopped for want of room before it wrote anything."""
        return ContextOverflowError(
            f"{self.title} had no room left for an answer.",
            "Begin a new session, allow more max_tokens, or give the model a larger context.",
        )

    def _no_entry(self, status: int, message: str) -> ModelError:
        variables = "GAIA_API_KEY"
        if self.server and self.server.key_variable:
            variables += f" or {self.server.key_variable}"
        if status == 401:
            problem = "did not accept the API key" if self.place.key else "wants an API key"
            return ModelCredentialsError(f"{self.title} {problem} ({message}).", f"Set {variables}.")
        return ModelCredentialsError(
            f"{self.title} does not let this key do it ({message}).",
            f"Set {variables} to one that may, or see the account.",
        )

    def _busy(self, refusal: Refusal, message: str) -> ModelError:
        after = refusal.retry_after
        hint = "Try again in a moment." if after is None else f"Try again in {after:g} s."
        kind = "is loading the model" if refusal.is_loading else "is too busy"
        return ModelBusyError(f"{self.title} {kind} (status {refusal.status}: {message}).", hint, after)

    def _no_tools(self, message: str) -> ModelError:
        hint = "Choose a model that can call tools."
        if "tool-call-parser" in message or "jinja" in message:
            start = self.server.start if self.server else "the options that it names"
            hint = f"Start the server so that it can: {start}."
        return ModelError(f"{self.title} cannot call tools with {self.model} ({message}).", hint)

    def _clean(self, text: str) -> str:
        return redacted(one_line(text, _SAID), [self.place.key]).rstrip(".")


def several_models(report: Report, models: Sequence[str]) -> ModelError:
    """Report that no model was named, and that the server has none or several."""
    if not models:
        get = f" with `{report.server.get}`" if report.server and report.server.get else ""
        return ModelNotFoundError(f"{report.title} has no model for chats.", f"Get or load one{get}.")
    return ModelNotFoundError(
        f"{report.title} has {len(models)} models, and it was not said which one to use: {_listed(models)}.",
        "Set GAIA_MODEL, or the model argument, to one of them.",
    )


def nothing_found(places: Sequence[Place]) -> ModelError:
    """Report that no known server answers on this machine."""
    looked = ", ".join(f"{place.server.title if place.server else 'one'} at {shown_url(place.url)}" for place in places)
    first = places[0].server if places else None
    start = f"{first.title} ({first.start})" if first else "one"
    return ModelUnreachableError(
        f"No model server answers on this machine; looked for {looked}.",
        f"Start {start}, or set GAIA_BASE_URL to where one runs, or PROVIDER=openai and OPENAI_API_KEY.",
    )


def _listed(models: Sequence[str]) -> str:
    shown = ", ".join(one_line(model, 100) for model in models[:_SHOWN_MODELS])
    return shown if len(models) <= _SHOWN_MODELS else f"{shown} and {len(models) - _SHOWN_MODELS} more"


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _message_in(body: Any) -> str:
    """Return the message in an error body, wherever it is; empty if there is none."""
    if isinstance(body, str):
        return body
    if is_array(body):
        return _message_in(body[0]) if body else ""
    if is_object(body):
        for field in ("error", "message", "detail", "msg"):
            if message := _message_in(body.get(field)):
                return message
    return ""
