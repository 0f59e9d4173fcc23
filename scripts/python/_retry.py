"""When a request may be sent again, and how long to wait before. Does no waiting of its own."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ._request import Request
from .errors import AgentApiError, AgentConnectionError, AgentError

_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class RetryPolicy:
    """Bounds of what the client does by itself. Times are in seconds.

    Only GET requests, and requests with an `Idempotency-Key`, are ever sent again.
    """

    #: How often a request is sent again after it failed.
    max_retries: int = 2
    #: How often a cut stream is taken up again before an event comes.
    max_reconnects: int = 8
    #: Wait before the second try; each further wait is twice as long, up to `max_delay`.
    first_delay: float = 0.5
    max_delay: float = 8.0
    #: A server that asks for a longer wait is not waited for: the error is raised, and says how long.
    max_retry_after: float = 60.0

    def delay(self, failures: int, asked: float | None = None) -> float:
        """Before the try after `failures` failures in a row, at least what the server `asked` for."""
        doubled = min(self.max_delay, self.first_delay * 2.0 ** min(failures - 1, 32))
        # Spread, so that the clients of a server that restarts do not all come back at once.
        return max(asked or 0.0, doubled * random.uniform(0.75, 1.0))


class Retries:
    """The failures of one call."""

    def __init__(self, policy: RetryPolicy, request: Request) -> None:
        self._policy = policy
        self._repeatable = request.repeatable
        self._failures = 0

    def after(self, error: AgentError) -> float:
        """Seconds to wait before the next try. Raises `error` when there must be none."""
        self._failures += 1
        if not self._repeatable or self._failures > self._policy.max_retries or not passes(error, self._policy):
            raise error
        return self._policy.delay(self._failures, asked_wait(error))


def passes(error: AgentError, policy: RetryPolicy) -> bool:
    """Could the same request succeed later?"""
    if isinstance(error, AgentApiError):
        if (error.retry_after or 0.0) > policy.max_retry_after:
            return False
        return error.status in _PASSING if error.should_retry is None else error.should_retry
    return isinstance(error, AgentConnectionError)


def asked_wait(error: AgentError) -> float | None:
    return error.retry_after if isinstance(error, AgentApiError) else None
