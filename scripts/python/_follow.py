"""The course of one stream over all its connections: where it stands, when it is over, when to go on."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from ._request import Head, Request, api_error, read_json
from ._retry import Retries, RetryPolicy, asked_wait, passes
from .errors import AgentError, StreamCutError
from .sse import SseFrame

#: A connection that lived this long was a good one: the failures before it are forgotten.
_STEADY_SECONDS = 10.0
#: The comment with which the server ends a stream that has no closing event.
_CLOSED = "stream closed"


@dataclass(frozen=True)
class StreamKind:
    """How streams of an operation end and go on, as the API's description says."""

    #: Data of the frame that ends it; None when it ends by closing.
    terminator: str | None = None
    #: It goes on until its reader leaves: every end is a cut.
    endless: bool = False
    #: Member of an event that names its kind, and the kinds after which nothing follows.
    tag: str = ""
    final: frozenset[str] = frozenset()
    #: The header or query parameter that takes it up again; "" when nothing can.
    cursor_header: str = ""
    cursor_query: str = ""
    #: Member of an event that numbers it; "" when that is the frame's id.
    cursor_member: str = ""


class Follow:
    def __init__(self, request: Request, kind: StreamKind, policy: RetryPolicy) -> None:
        self._request = request
        self._kind = kind
        self._policy = policy
        self._opening = Retries(policy, request)
        self._head: Head | None = None
        self._opened_at: float | None = None
        self._failures = 0
        self._cursor: str | None = None
        self._last_event: Any = None
        self.done = False
        self.server_wait: float | None = None

    def header(self, name: str) -> str | None:
        """Of the newest answer; None before there is one."""
        return None if self._head is None else self._head.headers.get(name)

    def next_request(self) -> Request:
        """The first request, or the one that goes on after the last event."""
        kind, request = self._kind, self._request
        if self._cursor is None:
            return request
        if kind.cursor_header:
            kept = {name: value for name, value in request.headers.items() if name.lower() != kind.cursor_header}
            return replace(request, headers={**kept, kind.cursor_header: self._cursor})
        return replace(request, query={**request.query, kind.cursor_query: self._cursor})

    def opened(self, head: Head) -> None:
        self._head = head
        self._opened_at = time.monotonic()

    def take(self, frame: SseFrame) -> list[Any]:
        """The event of the frame, if it holds one. AgentApiError for an error that ends the stream."""
        if frame.data == self._kind.terminator:
            self.done = True
            return []
        event = read_json(frame.data)
        if isinstance(event, dict) and event.keys() == {"error"} and isinstance(event["error"], dict):
            raise api_error(event["error"], self._head or Head(0, {}), 0)
        self._failures = 0
        self._last_event = event
        self._note_cursor(frame, event)
        if isinstance(event, dict) and event.get(self._kind.tag) in self._kind.final:
            self.done = True
        return [event]

    def ended(self, comment: str | None) -> None:
        """The connection ended in order. StreamCutError unless that was the end of the stream."""
        closes = self._kind.terminator is None and not self._kind.endless
        self.done = self.done or (closes and (comment == _CLOSED or not self._kind.final))
        if not self.done:
            self._fail("the stream ended before its end")

    def failed(self, error: AgentError) -> float:
        """Seconds to wait before the next connection. Raises when there must be none."""
        if self._head is None:
            return self._opening.after(error)
        if not passes(error, self._policy):
            raise error
        lived = 0.0 if self._opened_at is None else time.monotonic() - self._opened_at
        self._opened_at = None
        self._failures = 1 if lived >= _STEADY_SECONDS else self._failures + 1
        if not self._resumable or self._failures > self._policy.max_reconnects:
            if isinstance(error, StreamCutError):
                raise error
            self._fail(str(error), error)
        asked = asked_wait(error)
        return self._policy.delay(self._failures, self.server_wait if asked is None else asked)

    @property
    def _resumable(self) -> bool:
        return self._request.method == "GET" and bool(self._kind.cursor_header or self._kind.cursor_query)

    def _note_cursor(self, frame: SseFrame, event: Any) -> None:
        member = self._kind.cursor_member
        if not member:
            self._cursor = frame.id if frame.id else self._cursor
        elif isinstance(event, dict) and event.get(member) is not None:
            self._cursor = str(event[member])

    def _fail(self, message: str, cause: AgentError | None = None) -> NoReturn:
        raise StreamCutError(
            message,
            run_id=self.header("x-agent-run-id"),
            session_id=self.header("x-agent-session-id"),
            last_event_id=self._cursor,
            last_event=self._last_event,
        ) from cause
