"""What both clients say to httpx, and what its failures mean here."""

from __future__ import annotations

import ssl
from typing import Any

import httpx

from ._request import Head, Request, Server
from .errors import AgentConnectionError, AgentError, AgentProtocolError, AgentTimeoutError


def client_options(server: Server) -> dict[str, Any]:
    """Arguments of the httpx client that a client of ours makes for itself."""
    return {
        # Loading the certificates of the machine takes time that plain http need not spend.
        "verify": ssl.create_default_context() if server.tls else False,
        "trust_env": False,
        # A kept connection may already be closed by the server when the next request is written to it, and then
        # nobody knows whether that request was served. Without kept ones, a client needs no closing either.
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=0),
    }


def build_request(server: Server, request: Request, *, connect_timeout: float, timeout: float) -> httpx.Request:
    """ValueError for a header or a body that cannot be sent."""
    limits = {"connect": connect_timeout, "read": timeout, "write": timeout, "pool": None}
    # Bytes, because httpx would refuse Latin-1 in text.
    headers = [(name.encode(), value.encode("latin-1")) for name, value in server.header_fields(request).items()]
    url = server.origin + server.target(request)
    return httpx.Request(
        request.method, url, headers=headers, content=request.content(), extensions={"timeout": limits}
    )


def head_of(response: httpx.Response) -> Head:
    return Head(response.status_code, dict(response.headers.items()))


def set_silence(response: httpx.Response, seconds: float) -> None:
    """How long the rest of the answer may pause. Before its first byte is read, later ones are no longer asked."""
    response.request.extensions["timeout"]["read"] = seconds


def translate(error: httpx.HTTPError) -> AgentError:
    reason = str(error) or type(error).__name__
    if isinstance(error, httpx.TimeoutException):
        return AgentTimeoutError("the server was silent for too long")
    if isinstance(error, httpx.RemoteProtocolError) and not _is_cut(reason):
        return AgentProtocolError(f"the server does not answer in HTTP/1.1: {reason}")
    return AgentConnectionError(f"the connection failed: {reason}")


def _is_cut(reason: str) -> bool:
    """httpx has one class for answers that break off and for answers that are malformed."""
    return "disconnected" in reason or "closed connection" in reason
