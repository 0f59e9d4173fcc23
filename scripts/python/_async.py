"""The asyncio half: the same as _sync.py, with awaits. Everything that decides is shared."""

from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, Generic, TypeVar

import httpx

from ._follow import Follow, StreamKind
from ._request import MAX_ANSWER_BYTES, Head, Request, Server, read_answer, to_error
from ._retry import Retries, RetryPolicy
from ._transport import build_request, client_options, head_of, set_silence, translate
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
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        """Creates a client of one server. Nothing is sent yet.

        Args:
            base_url: With or without `/v1`.
            api_key: Sent as a bearer token. None takes the environment variable `API_SERVER_KEY`; "" sends no key.
            timeout: Longest silence of the server in seconds, for calls that name no other.
            connect_timeout: Seconds until a connection must be open.
            stream_timeout: Seconds of silence after which a stream counts as cut. The server writes at least a
                comment every 15 seconds, unless it is configured otherwise.
            retry: Bounds of what is tried again.
            http_client: Sends the requests, for example through a proxy or with other certificates. You close it.
                Default: one that keeps no connections, ignores the proxies of the environment and follows no redirects.
        """
        self._server = Server(base_url, api_key)
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._stream_timeout = stream_timeout
        self._retry = retry
        self._http = http_client or httpx.AsyncClient(**client_options(self._server))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._server!r})"

    async def _send(self, request: Request) -> Any:
        retries = Retries(self._retry, request)
        while True:
            try:
                exchange = await self._open(request)
                try:
                    content = await exchange.read_all()
                finally:
                    await exchange.close()
                return read_answer(request, exchange.head, content)
            except AgentError as error:
                wait = retries.after(error)
            await asyncio.sleep(wait)

    async def _open(self, request: Request) -> AsyncExchange:
        timeout = self._timeout if request.timeout is None else request.timeout
        sent = build_request(self._server, request, connect_timeout=self._connect_timeout, timeout=timeout)
        try:
            exchange = AsyncExchange(await self._http.send(sent, stream=True, follow_redirects=False))
        except httpx.HTTPError as error:
            raise translate(error) from error
        request.answered(exchange.head)
        return exchange


class AsyncExchange:
    """The answer to one request."""

    head: Head

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._chunks = response.aiter_raw()
        self.head = head_of(response)

    async def read_some(self) -> bytes:
        """What has arrived; b"" at the end of the answer. AgentConnectionError when it breaks off before."""
        try:
            return await anext(self._chunks, b"")
        except httpx.HTTPError as error:
            raise translate(error) from error

    async def read_all(self) -> bytes:
        content = bytearray()
        while chunk := await self.read_some():
            content += chunk
            if len(content) > MAX_ANSWER_BYTES:
                raise AgentProtocolError(f"the answer is larger than {MAX_ANSWER_BYTES} bytes")
        return bytes(content)

    def expect_silence(self, seconds: float) -> None:
        set_silence(self._response, seconds)

    async def close(self) -> None:
        await self._response.aclose()


class AsyncStream(Generic[E]):
    """The events of a stream, as they arrive: `async for event in stream`.

    The request is sent when the first event is asked for, or on entering `async with`. To leave early, leave `async with`
    or call `close()`. A loop that is broken off closes its connection soon after, while the event loop runs.
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
        await self.close()

    async def close(self) -> None:
        """Ends the stream. What happens to its run is for the server to decide."""
        await self._course.close()


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

    async def close(self) -> None:
        self.follow.done = True
        await self._disconnect()

    async def run(self) -> AsyncIterator[Any]:
        try:
            while not self.follow.done:
                try:
                    async for event in self._read(await self._connect()):
                        yield event
                except AgentError as error:
                    await self._disconnect()
                    if self.follow.done:
                        return
                    wait = self.follow.failed(error)
                    await asyncio.sleep(wait)
        finally:
            await self._disconnect()

    async def _read(self, exchange: AsyncExchange) -> AsyncIterator[Any]:
        parser = SseParser()
        while chunk := await exchange.read_some():
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
                    raise to_error(exchange.head, await exchange.read_all())
                if not exchange.head.headers.get("content-type", "").startswith("text/event-stream"):
                    raise AgentProtocolError("the server's answer is not a stream of events")
            except BaseException:
                await exchange.close()
                raise
            exchange.expect_silence(self._silence)
            self._exchange = exchange
            self.follow.opened(exchange.head)
        return self._exchange

    async def _disconnect(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            await exchange.close()
