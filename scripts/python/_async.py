"""The asyncio half: the same as _sync.py, with awaits. Everything that decides is shared."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, AsyncIterator, Generic, TypeVar

from ._follow import Follow, StreamKind
from ._http1 import AsyncExchange
from ._request import MAX_ANSWER_BYTES, Request, Server, read_answer, to_error
from ._retry import Retries, RetryPolicy
from .errors import AgentError, AgentProtocolError
from .sse import SseParser

E = TypeVar("E")


class AsyncBase:
    """What every method of the asyncio client uses."""

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
        """A client of one server. Nothing is sent yet; a client belongs to no event loop.

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

    async def _send(self, request: Request) -> Any:
        retries = Retries(self._retry, request)
        while True:
            try:
                exchange = await self._open(request)
                try:
                    content = await read_all(exchange)
                finally:
                    exchange.close()
                return read_answer(request, exchange.head, content)
            except AgentError as error:
                wait = retries.after(error)
            await asyncio.sleep(wait)

    async def _open(self, request: Request) -> AsyncExchange:
        server = self._server
        # Made first: a header or body that cannot be sent needs no connection.
        headers = {"host": server.authority, **server.header_fields(request)}
        target, content = server.target(request), request.content()
        exchange = await AsyncExchange.connect(
            (server.host, server.port),
            self._tls if server.tls else None,
            connect_timeout=self._connect_timeout,
            timeout=self._timeout if request.timeout is None else request.timeout,
        )
        try:
            await exchange.send((request.method, target), headers, content)
        except BaseException:
            exchange.close()
            raise
        return exchange


async def read_all(exchange: AsyncExchange) -> bytes:
    content = bytearray()
    while chunk := await exchange.read_some():
        content += chunk
        if len(content) > MAX_ANSWER_BYTES:
            raise AgentProtocolError(f"the answer is larger than {MAX_ANSWER_BYTES} bytes")
    return bytes(content)


class AsyncStream(Generic[E]):
    """The events of a stream, as they arrive: `async for event in stream`.

    The request is sent when the first event is asked for, or on entering `async with`. To leave early, leave `async with`,
    call `close()`, or break off the loop that has the only reference to the stream.
    """

    def __init__(self, client: AsyncBase, request: Request, kind: StreamKind) -> None:
        self._course = _Course(client, request, kind)
        self._events: AsyncIterator[E] = self._course.run()

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

    def __aiter__(self) -> AsyncIterator[E]:
        return self

    async def __anext__(self) -> E:
        return await self._events.__anext__()

    async def __aenter__(self) -> AsyncStream[E]:
        await self._course.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the stream. What happens to its run is for the server to decide."""
        self._course.close()


class _Course:
    """The connections of one stream. Does not know the stream: a circle would keep a stream that nobody wants."""

    def __init__(self, client: AsyncBase, request: Request, kind: StreamKind) -> None:
        self.follow = Follow(request, kind, client._retry)
        self._client = client
        self._silence = client._stream_timeout if request.timeout is None else request.timeout
        self._exchange: AsyncExchange | None = None

    async def open(self) -> None:
        while self._exchange is None and not self.follow.done:
            try:
                await self._connect()
            except AgentError as error:
                await asyncio.sleep(self.follow.failed(error))

    def close(self) -> None:
        self.follow.done = True
        self._disconnect()

    async def run(self) -> AsyncIterator[Any]:
        try:
            while not self.follow.done:
                try:
                    async for event in self._read(await self._connect()):
                        yield event
                except AgentError as error:
                    self._disconnect()
                    if self.follow.done:
                        return
                    wait = self.follow.failed(error)
                    await asyncio.sleep(wait)
        finally:
            self._disconnect()

    async def _read(self, exchange: AsyncExchange) -> AsyncIterator[Any]:
        parser = SseParser()
        while chunk := await exchange.read_some(self._silence):
            for frame in parser.feed(chunk):
                self.follow.server_wait = parser.retry
                for event in self.follow.take(frame):
                    yield event
                if self.follow.done:
                    return
        self.follow.ended(parser.comment)

    async def _connect(self) -> AsyncExchange:
        if self._exchange is None:
            exchange = await self._client._open(self.follow.next_request())
            try:
                if exchange.head.status != 200:
                    raise to_error(exchange.head, await read_all(exchange))
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
