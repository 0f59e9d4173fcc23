"""What can go wrong, as exceptions. Everything this package raises on purpose is an AgentError."""

from __future__ import annotations

from typing import Any, Mapping


class AgentError(Exception):
    """Base of all errors of this package."""


class AgentConnectionError(AgentError):
    """The server was not reached, or the connection broke before the answer was whole."""


class AgentTimeoutError(AgentConnectionError):
    """The server was silent for longer than the timeout."""


class AgentProtocolError(AgentError):
    """The answer is not what the API promises, for example because a proxy gave it."""


class StreamCutError(AgentConnectionError):
    """A stream ended before its end, and was not taken up again.

    A request that starts work is never sent twice. To see what became of the work, follow its run with
    `stream_run_events(error.run_id)`. Whether the run goes on after its client left is the request's
    `agent.on_disconnect`.
    """

    def __init__(
        self,
        message: str,
        *,
        run_id: str | None = None,
        session_id: str | None = None,
        last_event_id: str | None = None,
        last_event: Any = None,
    ) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.session_id = session_id
        #: Where the stream can be taken up by hand; None when it numbers no events.
        self.last_event_id = last_event_id
        #: The last event that was given to the caller.
        self.last_event = last_event


class AgentApiError(AgentError):
    """An error answer of the server, or an error that ended a stream (then `status` is 0)."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        type: str = "",
        param: str | None = None,
        details: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        run_id: str | None = None,
        retry_after: float | None = None,
        should_retry: bool | None = None,
    ) -> None:
        super().__init__(f"{message} ({code})" if code else message)
        self.message = message
        self.status = status
        #: Stable name of the error, for programs.
        self.code = code
        self.type = type
        #: Path of the offending input, such as `messages[0].content`.
        self.param = param
        self.details = details
        self.request_id = request_id
        #: The run that failed, where one had begun.
        self.run_id = run_id
        #: Seconds to wait before another try.
        self.retry_after = retry_after
        #: What the server says about another try; None when it says nothing.
        self.should_retry = should_retry


class AuthenticationError(AgentApiError):
    """401: no key, or a wrong one."""


class PermissionDeniedError(AgentApiError):
    """403: the key may not do this."""


class NotFoundError(AgentApiError):
    """404 or 410: there is no such thing, or not any more."""


class ConflictError(AgentApiError):
    """409: not in the state that this asks for."""


class RateLimitError(AgentApiError):
    """429: too much at once. `retry_after` says when to come back."""


class ServerError(AgentApiError):
    """5xx: the server or a model behind it could not finish."""


_CLASSES: Mapping[int, type[AgentApiError]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    410: NotFoundError,
    429: RateLimitError,
}


def error_class(status: int) -> type[AgentApiError]:
    """The class of an error answer."""
    if status >= 500:
        return ServerError
    return _CLASSES.get(status, AgentApiError)


class GatewayError(AgentError):
    """An error response of the gateway."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        self.data: Mapping[str, Any] = data or {}
        #: The stable name of the error, such as `session_not_found`.
        self.reason = str(self.data.get("reason", ""))
        super().__init__(f"{message} ({code} {self.reason})")
        self.code = code
        self.message = message
        #: The same call may succeed later.
        self.retryable = bool(self.data.get("retryable"))


class TransportError(AgentConnectionError):
    """A connection to the gateway ended or could not be opened. Not `retryable`: another attempt cannot succeed."""

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable


class ConnectionCutError(AgentConnectionError):
    """The connection was cut during a call, whose outcome is unknown. The call is not repeated."""


class GatewayClosedError(AgentError):
    """The gateway client is closed. `__cause__` is the error that closed it."""


class EventsLostError(AgentError):
    """Events were read too slowly, and too many were waiting. `cursors` has the last event of each session that was read."""

    def __init__(self, cursors: Mapping[str, Any]) -> None:
        super().__init__("too many unread events: call events() again and read the history")
        self.cursors = cursors
