"""A client of web sockets (RFC 6455) for text messages, without extensions, over asyncio."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import ssl
from dataclasses import dataclass
from typing import Union
from urllib.parse import SplitResult, urlsplit

CLOSE_NORMAL = 1000
CLOSE_PROTOCOL = 1002
CLOSE_UNSUPPORTED = 1003
CLOSE_NONE = 1005
CLOSE_INVALID = 1007
CLOSE_TOO_LARGE = 1009

_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MAX_CONTROL_BYTES = 125
_MAX_HANDSHAKE_BYTES = 64 * 1024
_CLOSE_SECONDS = 5.0


class WebSocketClosed(Exception):
    """The connection was closed with a code, by either side."""

    def __init__(self, code: int, reason: str = "") -> None:
        super().__init__(f"the socket was closed with code {code}{': ' if reason else ''}{reason}")
        self.code = code
        self.reason = reason


class HandshakeRefused(Exception):
    """The server did not open a web socket. `status` is that of its answer; 0 when it was none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Ping:
    payload: bytes


@dataclass(frozen=True)
class Close:
    code: int
    reason: str


Received = Union[str, Ping, Close]


class MessageReader:
    """Bytes in, messages out. Does no input or output of its own. WebSocketClosed for what the server must not send."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._message = bytearray()
        self._open = False

    def feed(self, data: bytes) -> list[Received]:
        """The messages that `data` completes."""
        self._buffer += data
        received: list[Received] = []
        while (frame := self._take_frame()) is not None:
            message = self._take(*frame)
            if message is not None:
                received.append(message)
        return received

    def _take_frame(self) -> tuple[bool, int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        final, op, size = bool(buffer[0] & 0x80), buffer[0] & 0x0F, buffer[1] & 0x7F
        control = op >= _CLOSE
        if buffer[0] & 0x70 or buffer[1] & 0x80 or (control and (not final or size > _MAX_CONTROL_BYTES)):
            raise WebSocketClosed(CLOSE_PROTOCOL, "a frame that RFC 6455 does not allow")
        start = 2
        if size >= 126:
            start = 4 if size == 126 else 10
            if len(buffer) < start:
                return None
            size = int.from_bytes(buffer[2:start], "big")
        if not control and len(self._message) + size > self._max_bytes:
            raise WebSocketClosed(CLOSE_TOO_LARGE, f"a message of more than {self._max_bytes} bytes")
        if len(buffer) < start + size:
            return None
        payload = bytes(buffer[start : start + size])
        del buffer[: start + size]
        return final, op, payload

    def _take(self, final: bool, op: int, payload: bytes) -> Received | None:
        if op == _PING:
            return Ping(payload)
        if op == _PONG:
            return None
        if op == _CLOSE:
            code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else CLOSE_NONE
            return Close(code, payload[2:].decode("utf-8", "replace"))
        if op == _BINARY:
            raise WebSocketClosed(CLOSE_UNSUPPORTED, "a binary message")
        if op not in (_TEXT, _CONTINUATION) or (op == _TEXT) == self._open:
            raise WebSocketClosed(CLOSE_PROTOCOL, "a frame out of its order")
        self._open = not final
        self._message += payload
        if not final:
            return None
        message, self._message = bytes(self._message), bytearray()
        try:
            return message.decode("utf-8")
        except UnicodeDecodeError:
            raise WebSocketClosed(CLOSE_INVALID, "text that is not UTF-8") from None


def encode_frame(op: int, payload: bytes, mask: bytes) -> bytes:
    """One whole frame of a client, which is always masked."""
    size = len(payload)
    if size < 126:
        head = bytes([0x80 | op, 0x80 | size])
    elif size < 1 << 16:
        head = bytes([0x80 | op, 0x80 | 126]) + size.to_bytes(2, "big")
    else:
        head = bytes([0x80 | op, 0x80 | 127]) + size.to_bytes(8, "big")
    repeated = (mask * (size // 4 + 1))[:size]
    masked = (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")
    return head + mask + masked


class WebSocket:
    """An open connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, max_bytes: int) -> None:
        self._reader = reader
        self._writer = writer
        self._messages = MessageReader(max_bytes)
        self._received: list[Received] = []
        self._close_sent = False

    async def read(self) -> str:
        """The next text message. Its errors are final: WebSocketClosed, or OSError when the connection broke."""
        while True:
            if not self._received:
                data = await self._reader.read(65536)
                if not data:
                    raise ConnectionResetError("the connection broke")
                try:
                    self._received = self._messages.feed(data)
                except WebSocketClosed as error:
                    self._send_close(error.code, error.reason)
                    raise
                continue
            message = self._received.pop(0)
            if isinstance(message, str):
                return message
            if isinstance(message, Ping):
                self._send(_PONG, message.payload)
                continue
            self._send_close(message.code, "")
            raise WebSocketClosed(message.code, message.reason)

    def send(self, message: str) -> None:
        """Sends a text message. Nothing happens when the connection has ended: its reader finds out."""
        self._send(_TEXT, message.encode("utf-8"))

    def start_close(self) -> None:
        """Begins the closing handshake; `read` gives its end."""
        self._send_close(CLOSE_NORMAL, "")
        asyncio.get_running_loop().call_later(_CLOSE_SECONDS, self.abort)

    def abort(self) -> None:
        """Ends the connection at once."""
        self._close_sent = True
        self._writer.close()

    def _send_close(self, code: int, reason: str) -> None:
        payload = b"" if code == CLOSE_NONE else code.to_bytes(2, "big") + reason.encode()[: _MAX_CONTROL_BYTES - 2]
        self._send(_CLOSE, payload)
        self._close_sent = True

    def _send(self, op: int, payload: bytes) -> None:
        if not self._close_sent:
            self._writer.write(encode_frame(op, payload, os.urandom(4)))


async def open_web_socket(url: str, tls: ssl.SSLContext | None, max_bytes: int) -> WebSocket:
    """Connects to a ws: or wss: address. HandshakeRefused when the server opens no web socket, OSError without one."""
    parts = urlsplit(url)
    secure = parts.scheme == "wss"
    context = (tls or ssl.create_default_context()) if secure else None
    reader, writer = await asyncio.open_connection(
        parts.hostname, parts.port or (443 if secure else 80), ssl=context, limit=_MAX_HANDSHAKE_BYTES
    )
    try:
        await _shake_hands(parts, reader, writer)
    except BaseException:
        writer.close()
        raise
    return WebSocket(reader, writer, max_bytes)


async def _shake_hands(parts: SplitResult, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    key = base64.b64encode(os.urandom(16))
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [
        f"GET {target} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key.decode()}",
        "Sec-WebSocket-Version: 13",
    ]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("ascii"))
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise HandshakeRefused("the server does not answer in HTTP/1.1") from error
    status_line, *rows = head.split("\r\n")
    words = status_line.split(" ", 2)
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    if status != 101:
        raise HandshakeRefused(f"the server answered {status_line[:200]!r} instead of opening a web socket", status)
    pairs = (row.partition(":") for row in rows if row)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    digest = base64.b64encode(hashlib.sha1(key + _GUID).digest()).decode()
    tokens = [token.strip().lower() for token in headers.get("connection", "").split(",")]
    fits = headers.get("upgrade", "").lower() == "websocket" and "upgrade" in tokens
    extended = "sec-websocket-extensions" in headers or "sec-websocket-protocol" in headers
    if not fits or extended or headers.get("sec-websocket-accept") != digest:
        raise HandshakeRefused("the server's answer does not open a web socket", status)
