"""HTTP/1.1 (RFC 9112) over asyncio's streams, as far as a client of this API needs it.

Written here because the standard library has none, and http.client in a thread can neither be cancelled in the middle
of a read nor be had in thousands.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from typing import Awaitable, TypeVar

from ._request import Head
from .errors import AgentConnectionError, AgentProtocolError, AgentTimeoutError

T = TypeVar("T")
_LINE_BYTES = 64 * 1024
_CHUNK_BYTES = 64 * 1024
_MAX_HEADERS = 200
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}")


class AsyncExchange:
    """One request and its answer, on a connection of its own."""

    head: Head

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout: float) -> None:
        self._reader = reader
        self._writer = writer
        self._timeout = timeout
        #: Bytes left of the chunk, or of a body of known length; None where only the connection's end tells.
        self._left: int | None = None
        self._timed_out = False
        self._chunked = False
        self._in_chunk = False
        self._ended = False

    @staticmethod
    async def connect(
        address: tuple[str, int], tls: ssl.SSLContext | None, *, connect_timeout: float, timeout: float
    ) -> AsyncExchange:
        host, port = address
        opening = asyncio.ensure_future(asyncio.open_connection(host, port, ssl=tls, limit=_LINE_BYTES))
        try:
            await asyncio.wait({opening}, timeout=connect_timeout)
            if not opening.done():
                raise AgentTimeoutError("the connection did not stand in time")
        except BaseException:
            opening.add_done_callback(_discard)
            opening.cancel()
            raise
        try:
            reader, writer = opening.result()
        except OSError as error:
            raise _broken(error) from error
        return AsyncExchange(reader, writer, timeout)

    async def send(self, line: tuple[str, str], headers: dict[str, str], content: bytes | None) -> None:
        """Writes the request and reads the head of the answer. The values were checked before."""
        method, target = line
        fields = {**headers, "connection": "close"}
        if content is not None or method not in ("GET", "HEAD", "DELETE", "OPTIONS"):
            fields["content-length"] = str(len(content or b""))
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self._writer.write(f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + (content or b""))
        try:
            await self._guard(self._writer.drain(), self._timeout)
        except AgentTimeoutError:
            raise
        except AgentConnectionError:
            # A server that refuses a body answers and closes while the body is still being written.
            pass
        self.head = await self._read_head()
        while 100 <= self.head.status <= 199:
            self.head = await self._read_head()
        self._frame_body(method)

    async def read_some(self, timeout: float | None = None) -> bytes:
        """What has arrived; b"" at the end of the answer. AgentConnectionError when it breaks off before."""
        wait = self._timeout if timeout is None else timeout
        if self._chunked and not self._left and not self._ended:
            self._left = await self._read_chunk_size(wait)
        if self._ended or self._left == 0:
            return b""
        size = _CHUNK_BYTES if self._left is None else min(self._left, _CHUNK_BYTES)
        chunk = await self._guard(self._reader.read(size), wait)
        if self._left is None:
            return chunk
        if not chunk:
            raise AgentConnectionError("the connection was closed before the answer was whole")
        self._left -= len(chunk)
        return chunk

    def close(self) -> None:
        # Not close(): that would wait for the goodbye of a peer that may be gone.
        self._writer.transport.abort()

    async def _read_head(self) -> Head:
        version, _, rest = (await self._line(self._timeout)).partition(b" ")
        status = rest[:3]
        if not version.startswith(b"HTTP/1.") or not status.isdigit() or len(status) != 3:
            raise AgentProtocolError("the server does not answer in HTTP/1.1")
        fields: dict[str, str] = {}
        for _ in range(_MAX_HEADERS):
            line = (await self._line(self._timeout)).decode("latin-1")
            if line == "":
                return Head(int(status), fields)
            name, colon, value = line.partition(":")
            if not colon:
                raise AgentProtocolError("a header of the server's answer has no colon")
            key, value = name.strip().lower(), value.strip()
            fields[key] = f"{fields[key]}, {value}" if key in fields else value
        raise AgentProtocolError(f"the server's answer has more than {_MAX_HEADERS} headers")

    def _frame_body(self, method: str) -> None:
        """How the end of the body is known (RFC 9112, 6.3)."""
        headers, length = self.head.headers, self.head.headers.get("content-length")
        if method == "HEAD" or self.head.status in (204, 304):
            self._ended = True
        elif "transfer-encoding" in headers:
            if headers["transfer-encoding"].lower() != "chunked":
                raise AgentProtocolError("the server's answer has an encoding that was not asked for")
            self._chunked = True
        elif length is not None:
            if not (length.isascii() and length.isdigit()):
                raise AgentProtocolError("the length of the server's answer is not a number")
            self._left = int(length)

    async def _read_chunk_size(self, wait: float) -> int:
        if self._in_chunk and await self._line(wait) != b"":
            raise AgentProtocolError("a chunk of the server's answer is longer than it says")
        self._in_chunk = True
        digits = (await self._line(wait)).partition(b";")[0].strip()
        if not _CHUNK_SIZE.fullmatch(digits):
            raise AgentProtocolError("a chunk of the server's answer does not say how long it is")
        size = int(digits, 16)
        if size == 0:
            self._ended = True
            for _ in range(_MAX_HEADERS):
                if await self._line(wait) == b"":
                    break
        return size

    async def _line(self, wait: float) -> bytes:
        try:
            line = await self._guard(self._reader.readline(), wait)
        except ValueError as error:
            raise AgentProtocolError("a line of the server's answer is too long") from error
        if not line.endswith(b"\n"):
            raise AgentConnectionError("the connection was closed before the answer was whole")
        return line.rstrip(b"\r\n")

    async def _guard(self, act: Awaitable[T], timeout: float) -> T:
        """`act`, with its failures as errors of this package.

        Time that is up ends the connection, and `act` with it. asyncio.wait_for would not do: before Python 3.12 it
        can swallow the cancellation of the caller.
        """
        timer = asyncio.get_running_loop().call_later(timeout, self._expire)
        try:
            result = await act
        except OSError as error:
            if not self._timed_out:
                raise _broken(error) from error
        finally:
            timer.cancel()
        if self._timed_out:
            raise AgentTimeoutError("the server was silent for too long")
        return result

    def _expire(self) -> None:
        self._timed_out = True
        self.close()


def _discard(opening: asyncio.Task[tuple[asyncio.StreamReader, asyncio.StreamWriter]]) -> None:
    """Closes a connection that stands after nobody waits for it any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result()[1].transport.abort()


def _broken(error: OSError) -> AgentConnectionError:
    return AgentConnectionError(f"the connection failed: {str(error) or type(error).__name__}")
