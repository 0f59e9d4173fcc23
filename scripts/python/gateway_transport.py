"""How the gateway client reaches a gateway: over a web socket, or as a child process."""

from __future__ import annotations

import asyncio
import ssl
from typing import Awaitable, Callable, Mapping, Protocol, Sequence
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ._websocket import HandshakeRefused, WebSocket, WebSocketClosed, open_web_socket
from .errors import TransportError

#: A longer frame does not come from a gateway.
MAX_FRAME_BYTES = 64 * 1024 * 1024
_END_SECONDS = 8.0
#: The gateway closes with these for a key that it does not accept.
_KEY_REFUSED = (4401, 4403)


class Link(Protocol):
    """An open connection."""

    async def read(self) -> str:
        """The next frame. TransportError when the connection has ended."""

    def send(self, frame: str) -> None:
        """Sends a frame. Does nothing when the connection has ended."""

    def close(self) -> None:
        """Ends the connection; `read` then fails."""


class Transport(Protocol):
    """Opens connections to a gateway, one after the other."""

    async def open(self) -> Link:
        """TransportError when none can be opened."""


class WebSocketTransport:
    """Connects to a gateway at an address."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        ticket: Callable[[], Awaitable[str]] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """
        Args:
            url: `http:`, `https:`, `ws:` or `wss:`. Without a path: `/api/ws`.
            token: An API key. It is sent in the query, since that is where the gateway reads it.
            ticket: Returns a ticket for each connection, in place of the key.
            tls: Replaces the configuration of encrypted connections.
        """
        parts = urlsplit(url)
        scheme = parts.scheme.replace("http", "ws", 1)
        if scheme not in ("ws", "wss") or not parts.hostname or parts.username is not None:
            raise ValueError("url must be an address such as http://127.0.0.1:8642")
        self._parts = parts._replace(scheme=scheme, path=parts.path.rstrip("/") or "/api/ws", fragment="")
        self._token = token
        self._ticket = ticket
        self._tls = tls

    async def open(self) -> Link:
        query = parse_qsl(self._parts.query)
        if self._ticket is not None:
            query.append(("ticket", await self._ticket()))
        elif self._token:
            query.append(("token", self._token))
        url = urlunsplit(self._parts._replace(query=urlencode(query)))
        try:
            return _SocketLink(await open_web_socket(url, self._tls, MAX_FRAME_BYTES), self._parts.netloc)
        except HandshakeRefused as error:
            raise TransportError(str(error), retryable=error.status not in (401, 403, 404)) from error
        except OSError as error:
            raise TransportError(f"cannot connect to {self._parts.netloc}: {error}") from error


class _SocketLink:
    def __init__(self, socket: WebSocket, host: str) -> None:
        self._socket = socket
        self._host = host

    async def read(self) -> str:
        try:
            return await self._socket.read()
        except WebSocketClosed as error:
            self._socket.abort()
            raise TransportError(f"{self._host}: {error}", retryable=error.code not in _KEY_REFUSED) from error
        except OSError as error:
            self._socket.abort()
            raise TransportError(f"the connection to {self._host} broke: {error}") from error

    def send(self, frame: str) -> None:
        self._socket.send(frame)

    def close(self) -> None:
        self._socket.start_close()


class SpawnTransport:
    """Starts a child process for each connection, whose standard input and output carry the frames."""

    def __init__(
        self,
        command: Sequence[str] = ("agentd", "rpc"),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        on_stderr: Callable[[str], None] | None = None,
    ) -> None:
        """
        Args:
            command: The program and its arguments.
            env: Its whole environment. Default: that of this process.
            cwd: The folder that it starts in.
            on_stderr: Gets each line of its standard error.
        """
        self._command = tuple(command)
        self._env = None if env is None else dict(env)
        self._cwd = cwd
        self._on_stderr = on_stderr

    async def open(self) -> Link:
        try:
            child = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=MAX_FRAME_BYTES,
                env=self._env,
                cwd=self._cwd,
            )
        except OSError as error:
            raise TransportError(f"cannot start {self._command[0]}: {error}", retryable=False) from error
        return _ProcessLink(child, self._command[0], self._on_stderr)


class _ProcessLink:
    def __init__(
        self, child: asyncio.subprocess.Process, name: str, on_stderr: Callable[[str], None] | None
    ) -> None:
        self._child = child
        self._name = name
        self._on_stderr = on_stderr
        self._last_line = ""
        self._stderr = asyncio.ensure_future(self._read_stderr())

    async def read(self) -> str:
        assert self._child.stdout is not None
        try:
            while line := await self._child.stdout.readline():
                if not line.endswith(b"\n"):
                    break
                if line.strip():
                    return line.decode("utf-8", "replace")
        except ValueError:
            # A line beyond the limit.
            self._kill()
        status = await self._child.wait()
        await self._stderr
        raise TransportError(f"{self._name} ended with {status}. {self._last_line}".strip())

    def send(self, frame: str) -> None:
        assert self._child.stdin is not None
        if not self._child.stdin.is_closing():
            self._child.stdin.write(frame.encode("utf-8") + b"\n")

    def close(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        asyncio.get_running_loop().call_later(_END_SECONDS, self._kill)

    def _kill(self) -> None:
        if self._child.returncode is None:
            self._child.kill()

    async def _read_stderr(self) -> None:
        assert self._child.stderr is not None
        while True:
            try:
                line = await self._child.stderr.readline()
            except ValueError:
                continue
            if not line:
                return
            self._last_line = line.decode("utf-8", "replace").strip()[:500]
            if self._on_stderr is not None:
                self._on_stderr(self._last_line)
