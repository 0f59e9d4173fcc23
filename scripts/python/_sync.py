"""The blocking half: one connection for each exchange, over http.client.

Connections are not kept: a kept one may already be closed by the server when the next request is written to it, and
then nobody knows whether that request was served. One each also makes a client safe to share between threads.
"""

from __future__ import annotations

import http.client
import ssl
import time
from typing import Any, Callable, Generic, Iterator, TypeVar

from ._follow import Follow, StreamKind
from ._request import MAX_ANSWER_BYTES, Head, Request, Server, read_answer, to_error
from ._retry import Retries, RetryPolicy
from .errors import AgentConnectionError, AgentError, AgentProtocolError, AgentTimeoutError
from .sse import SseParser

E = TypeVar("E")
_CHUNK_BYTES = 64 * 1024


class SyncBase:
    """What every method of the blocking client uses."""

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8642",
        api_key: str | None = None,
        *,
        timeout: float = 600.0,
        connect_timeout: float = 10.0,
        stream_timeout: float = 60.0,
        retry: RetryPolicy = RetryPolicy(),
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """A client of one server. Nothing is sent yet.

        Args:
            base_url: Without `/v1`.
            api_key: Sent as bearer token; None sends none.
            timeout: Longest silence of the server in seconds, for calls that say nothing else.
            connect_timeout: Seconds until the connection must stand.
            stream_timeout: Seconds of silence after which a stream counts as cut. The server writes at least a
                comment every 15 seconds, unless it is configured otherwise.
            retry: Bounds of what is tried again.
            ssl_context: For https; None checks certificates against those the machine trusts.
        """
        self._server = Server(base_url, api_key)
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._stream_timeout = stream_timeout
        self._retry = retry
        self._tls = ssl_context or (ssl.create_default_context() if self._server.tls else None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._server!r})"

    def _send(self, request: Request) -> Any:
        retries = Retries(self._retry, request)
        while True:
            try:
                exchange = self._open(request)
                try:
                    content = exchange.read_all()
                finally:
                    exchange.close()
                return read_answer(request, exchange.head, content)
            except AgentError as error:
                wait = retries.after(error)
            time.sleep(wait)

    def _open(self, request: Request) -> Exchange:
        server = self._server
        timeout = self._timeout if request.timeout is None else request.timeout
        # Made first: a header or body that cannot be sent needs no connection.
        headers = {"host": server.authority, **server.header_fields(request)}
        line, content = (request.method, server.target(request)), request.content()
        connection: http.client.HTTPConnection
        if self._tls is None:
            connection = http.client.HTTPConnection(server.host, server.port, timeout=self._connect_timeout)
        else:
            connection = http.client.HTTPSConnection(
                server.host, server.port, timeout=self._connect_timeout, context=self._tls
            )
        return Exchange(connection, line, headers, content, timeout)


class Exchange:
    """One request and its answer, on a connection of its own."""

    head: Head

    def __init__(
        self,
        connection: http.client.HTTPConnection,
        line: tuple[str, str],
        headers: dict[str, str],
        content: bytes | None,
        timeout: float,
    ) -> None:
        self._connection = connection
        try:
            self._response = self._guard(lambda: self._begin(line, headers, content, timeout))
        except BaseException:
            connection.close()
            raise
        fields: dict[str, str] = {}
        for name, value in self._response.getheaders():
            key = name.lower()
            fields[key] = f"{fields[key]}, {value}" if key in fields else value
        self.head = Head(self._response.status, fields)

    def read_some(self, timeout: float | None = None) -> bytes:
        """What has arrived; b"" at the end of the answer. AgentConnectionError when it breaks off before."""
        if timeout is not None:
            self._socket.settimeout(timeout)
        chunk = self._guard(lambda: self._response.read1(_CHUNK_BYTES))
        # http.client lets a body pass that ends before its announced length.
        if not chunk and self._response.length:
            raise AgentConnectionError("the connection was closed before the answer was whole")
        return chunk

    def read_all(self) -> bytes:
        content = bytearray()
        while chunk := self.read_some():
            content += chunk
            if len(content) > MAX_ANSWER_BYTES:
                raise AgentProtocolError(f"the answer is larger than {MAX_ANSWER_BYTES} bytes")
        return bytes(content)

    def close(self) -> None:
        self._response.close()
        self._connection.close()

    def _begin(
        self, line: tuple[str, str], headers: dict[str, str], content: bytes | None, timeout: float
    ) -> http.client.HTTPResponse:
        self._connection.connect()
        # Kept, because http.client forgets it once the server says that it will close.
        self._socket = self._connection.sock
        self._socket.settimeout(timeout)
        try:
            self._connection.request(*line, body=content, headers=headers)
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses a body answers and closes while the body is still being written.
            pass
        return self._connection.getresponse()

    @staticmethod
    def _guard(act: Callable[[], E]) -> E:
        try:
            return act()
        except TimeoutError as error:
            raise AgentTimeoutError("the server was silent for too long") from error
        except (OSError, http.client.IncompleteRead) as error:
            raise AgentConnectionError(f"the connection failed: {str(error) or type(error).__name__}") from error
        except http.client.HTTPException as error:
            raise AgentProtocolError(f"the server does not answer in HTTP/1.1: {type(error).__name__}") from error


class Stream(Generic[E]):
    """The events of a stream, as they arrive: `for event in stream`.

    The request is sent when the first event is asked for, or on entering `with`. To leave early, leave `with`,
    call `close()`, or break off the loop that has the only reference to the stream.
    """

    def __init__(self, client: SyncBase, request: Request, kind: StreamKind) -> None:
        self._course = _Course(client, request, kind)
        self._events: Iterator[E] = self._course.run()

    @property
    def run_id(self) -> str | None:
        """The run behind the stream, once the server has answered."""
        return self.header("x-agent-run-id")

    @property
    def session_id(self) -> str | None:
        return self.header("x-agent-session-id")

    def header(self, name: str) -> str | None:
        """A header of the server's newest answer."""
        return self._course.follow.header(name.lower())

    def __iter__(self) -> Iterator[E]:
        return self

    def __next__(self) -> E:
        return next(self._events)

    def __enter__(self) -> Stream[E]:
        self._course.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the stream. What happens to its run is for the server to decide."""
        self._course.close()


class _Course:
    """The connections of one stream. Does not know the stream: a circle would keep a stream that nobody wants."""

    def __init__(self, client: SyncBase, request: Request, kind: StreamKind) -> None:
        self.follow = Follow(request, kind, client._retry)
        self._client = client
        self._silence = client._stream_timeout if request.timeout is None else request.timeout
        self._exchange: Exchange | None = None

    def open(self) -> None:
        while self._exchange is None and not self.follow.done:
            try:
                self._connect()
            except AgentError as error:
                time.sleep(self.follow.failed(error))

    def close(self) -> None:
        self.follow.done = True
        self._disconnect()

    def run(self) -> Iterator[Any]:
        try:
            while not self.follow.done:
                try:
                    yield from self._read(self._connect())
                except AgentError as error:
                    self._disconnect()
                    if self.follow.done:
                        return
                    wait = self.follow.failed(error)
                    time.sleep(wait)
        finally:
            self._disconnect()

    def _read(self, exchange: Exchange) -> Iterator[Any]:
        parser = SseParser()
        while chunk := exchange.read_some(self._silence):
            for frame in parser.feed(chunk):
                self.follow.server_wait = parser.retry
                yield from self.follow.take(frame)
                if self.follow.done:
                    return
        self.follow.ended(parser.comment)

    def _connect(self) -> Exchange:
        if self._exchange is None:
            exchange = self._client._open(self.follow.next_request())
            try:
                if exchange.head.status != 200:
                    raise to_error(exchange.head, exchange.read_all())
                if not exchange.head.headers.get("content-type", "").startswith("text/event-stream"):
                    raise AgentProtocolError("the server's answer is not a stream of events")
            except BaseException:
                exchange.close()
                raise
            self._exchange = exchange
            self.follow.opened(exchange.head)
        return self._exchange

    def _disconnect(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.close()
