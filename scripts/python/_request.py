"""A request before it has a connection, and an answer after it had one. Shared by both clients."""

from __future__ import annotations

import email.utils
import json
import os
import re
import time
from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence, Union
from urllib.parse import quote, urlencode, urlsplit

from ._version import __version__
from .errors import AgentApiError, AgentProtocolError, error_class

Scalar = Union[str, int, float, bool]
Query = Mapping[str, Union[Scalar, Sequence[Scalar], None]]

#: An answer that grows beyond this is refused.
MAX_ANSWER_BYTES = 256 * 1024 * 1024

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class Absent:
    """A body that is not there, unlike None, which is JSON null."""


ABSENT = Absent()


@dataclass
class ResponseInfo:
    """What an answer has beside its body. Pass one as `response` of a method, which fills it, also for an error answer."""

    status: int = 0
    #: By lower-case name.
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    method: str
    #: Escaped, with the leading slash.
    path: str
    #: Media type of the answer; "" when it has no body.
    accept: str = "application/json"
    query: Query = field(default_factory=dict)
    headers: Mapping[str, Scalar | None] = field(default_factory=dict)
    #: Plain data, sent as JSON; bytes are sent as they are.
    body: Any = ABSENT
    content_type: str = "application/json"
    extra_headers: Mapping[str, str] | None = None
    #: Gets status and headers of the answer.
    response: ResponseInfo | None = None
    #: Longest silence of the server in seconds; None stands for the client's own.
    timeout: float | None = None

    def answered(self, head: Head) -> None:
        if self.response is not None:
            self.response.status, self.response.headers = head.status, head.headers

    @property
    def repeatable(self) -> bool:
        """May it be sent again when it is not known what became of the first?"""
        return self.method == "GET" or "idempotency-key" in self.header_fields()

    def header_fields(self) -> dict[str, str]:
        """By lower-case name, without those that are None. ValueError for what no header can hold."""
        fields = {name.lower(): text(value) for name, value in self.headers.items() if value is not None}
        fields.update({name.lower(): value for name, value in (self.extra_headers or {}).items()})
        for name, value in fields.items():
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise ValueError(f"the value of the header {name!r} has characters that no header can hold")
        return fields

    def content(self) -> bytes | None:
        """The bytes of the body; None when there is none."""
        if isinstance(self.body, Absent):
            return None
        if isinstance(self.body, (bytes, bytearray)):
            return bytes(self.body)
        return json.dumps(self.body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


@dataclass(frozen=True)
class Head:
    """Status line and headers of an answer; names are in lower case."""

    status: int
    headers: Mapping[str, str]


class Server:
    """Where requests go, and with which key. Its text never shows the key."""

    def __init__(self, base_url: str, api_key: str | None) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("base_url must be an address such as http://127.0.0.1:8642")
        if parts.query or parts.fragment or parts.username is not None:
            raise ValueError("base_url must hold neither a query, nor a fragment, nor a user")
        # Read for its check: a port out of range is a ValueError.
        _ = parts.port
        self.tls = parts.scheme == "https"
        self.origin = f"{parts.scheme}://{parts.netloc}"
        # OpenAI clients are given the address with /v1; the paths here begin with it.
        path = parts.path.rstrip("/").removesuffix("/v1")
        self._prefix = quote(path, safe="/%:@!$&'()*+,;=-._~")
        self._api_key = os.environ.get("API_SERVER_KEY") if api_key is None else api_key

    def __repr__(self) -> str:
        return f"Server({self.origin}{self._prefix})"

    def target(self, request: Request) -> str:
        """Path and query."""
        pairs: list[tuple[str, str]] = []
        for name, value in request.query.items():
            if value is None:
                continue
            if isinstance(value, (str, int, float)):
                pairs.append((name, text(value)))
            else:
                pairs.extend((name, text(each)) for each in value)
        query = urlencode(pairs, quote_via=quote)
        return f"{self._prefix}{request.path}{'?' if query else ''}{query}"

    def header_fields(self, request: Request) -> dict[str, str]:
        """All headers of the request except those about its framing."""
        fields = {"user-agent": f"agentd-client-python/{__version__}", "accept-encoding": "identity"}
        if request.accept:
            fields["accept"] = request.accept
        if self._api_key:
            fields["authorization"] = f"Bearer {self._api_key}"
            if not _HEADER_VALUE.fullmatch(fields["authorization"]):
                raise ValueError("the API key has characters that no header can hold")
        if not isinstance(request.body, Absent):
            fields["content-type"] = request.content_type
        return {**fields, **request.header_fields()}


def text(value: Scalar) -> str:
    """A parameter as it is written in an address or a header."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def segment(value: Scalar) -> str:
    """A path parameter, escaped. ValueError for what would change the path around it."""
    written = text(value)
    if written in ("", ".", ".."):
        raise ValueError(f"{written!r} cannot be part of a path")
    return quote(written, safe="")


def unstreamed(body: Any) -> Any:
    """`body`, of which the whole answer is wanted at once. ValueError when it asks for a stream."""
    if isinstance(body, Mapping) and body.get("stream"):
        raise ValueError("this method gives the whole answer at once: call the stream_ method for a stream")
    return body


def read_answer(request: Request, head: Head, content: bytes) -> Any:
    """What the method returns. AgentApiError for an error answer."""
    if not 200 <= head.status <= 299:
        raise to_error(head, content)
    if request.accept == "" or (content == b"" and head.status != 200):
        return None
    if request.accept.endswith("json"):
        return read_json(content)
    if request.accept.startswith("text/"):
        return content.decode("utf-8", "replace")
    return content


def read_json(content: bytes | str) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise AgentProtocolError("the server's answer is not JSON") from error


def to_error(head: Head, content: bytes) -> AgentApiError:
    """The exception of an error answer, also of one that some proxy gave."""
    envelope: Any = None
    try:
        envelope = json.loads(content)
    except ValueError:
        pass
    inner = envelope.get("error") if isinstance(envelope, dict) else None
    return api_error(inner if isinstance(inner, dict) else {}, head, head.status)


def api_error(inner: Mapping[str, Any], head: Head, status: int) -> AgentApiError:
    """From the `error` member of an envelope; status 0 is for one inside a stream."""
    details = inner.get("details")
    param = inner.get("param")
    # What is inside a stream began with an answer that was none of failure: its headers say nothing about this.
    retry = {"true": True, "false": False}.get(head.headers.get("x-should-retry", "") if status else "")
    return error_class(status)(
        str(inner.get("message") or f"the server answered with status {status}"),
        status=status,
        code=str(inner.get("code") or ""),
        type=str(inner.get("type") or ""),
        param=None if param is None else str(param),
        details=details if isinstance(details, dict) else None,
        request_id=head.headers.get("x-request-id"),
        run_id=head.headers.get("x-agent-run-id"),
        retry_after=_retry_after(head.headers.get("retry-after")),
        should_retry=retry,
    )


def _retry_after(value: str | None) -> float | None:
    """Seconds, or a date (RFC 9110, 10.2.3)."""
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        date = email.utils.parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    return max(0.0, date.timestamp() - time.time())
