"""A server that answers with bytes given beforehand, one answer a connection, and keeps what it was asked."""

from __future__ import annotations

import socket
import ssl
import threading
from typing import Sequence


class WireServer:
    def __init__(
        self, answers: Sequence[bytes | None], pieces: int = 1 << 20, tls: ssl.SSLContext | None = None
    ) -> None:
        """`None` closes without an answer; `pieces` is how many bytes are written at once."""
        self._tls = tls
        self.requests: list[str] = []
        self._answers = list(answers)
        self._pieces = pieces
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> WireServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Closing a listener does not wake the thread that waits on it, a last connection does.
        self._answers.clear()
        with socket.create_connection(self._listener.getsockname()):
            pass
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if self._tls is not None:
                try:
                    connection = self._tls.wrap_socket(connection, server_side=True)
                except OSError:
                    # Refused by the client; or the last connection, which only wakes this thread.
                    connection.close()
                    if self._answers:
                        continue
                    return
            with connection:
                request = self._read(connection)
                if request == "" or not self._answers:
                    return
                self.requests.append(request)
                answer = self._answers.pop(0) or b""
                try:
                    for start in range(0, len(answer), self._pieces):
                        connection.sendall(answer[start : start + self._pieces])
                except OSError:
                    # The client had enough.
                    pass

    @staticmethod
    def _read(connection: socket.socket) -> str:
        data = b""
        while b"\r\n\r\n" not in data:
            chunk = connection.recv(65536)
            if not chunk:
                return ""
            data += chunk
        head, _, body = data.partition(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        while len(body) < length:
            body += connection.recv(65536)
        return (head + b"\r\n\r\n" + body).decode("latin-1")


def answer(status: str, body: bytes = b"", **headers: str) -> bytes:
    """A whole answer of known length."""
    fields = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def stream(*frames: str, end: bool = True, **headers: str) -> bytes:
    """An event stream, a chunk a frame; without its end where the connection is to look cut."""
    fields = {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked", **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    chunks = b"".join(chunk(frame.encode()) for frame in frames)
    return f"HTTP/1.1 200 OK\r\n{head}\r\n".encode() + chunks + (b"0\r\n\r\n" if end else b"")


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
