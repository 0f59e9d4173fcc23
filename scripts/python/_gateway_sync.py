"""The blocking gateway client: the asyncio one, on a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Callable, Coroutine, Literal, Mapping, Sequence, TypeVar

from ._gateway import AsyncGatewayBase, EventQueue, Fields, ReconnectPolicy, State
from .errors import GatewayClosedError
from .gateway_transport import Transport

T = TypeVar("T")
Self = TypeVar("Self", bound="SyncGatewayBase")


class SyncGatewayBase:
    """What every method of the blocking client uses. It may be shared between threads."""

    #: The asyncio client of the same methods.
    _kind: type[AsyncGatewayBase] = AsyncGatewayBase

    def __init__(
        self,
        transport: Transport,
        *,
        name: str = "agentd-client-python",
        version: str = "",
        questions: Mapping[str, Callable[[Any], Any]] | None = None,
        deltas: Literal["all", "final"] = "all",
        opt_out: Sequence[str] = (),
        reconnect: ReconnectPolicy = ReconnectPolicy(),
        call_timeout: float = 120.0,
    ) -> None:
        """Makes a client. It connects on entering `with`, or by `open()`.

        Args:
            transport: WebSocketTransport, SpawnTransport, or one of your own.
            name: Name of this program in the gateway's log.
            version: Its version.
            questions: Functions that answer what the agent asks, by method, such as `approval`. Each runs in a thread of
                its own; None declines. With any of them the gateway sends questions as requests instead of events, and a
                question without its function is declined.
            deltas: `final` asks for whole answers only.
            opt_out: Types of events that the gateway must not send.
            reconnect: Bounds of reconnecting.
            call_timeout: Seconds that a call may take, including the time to reconnect.
        """
        threaded = {method: _in_thread(function) for method, function in (questions or {}).items()}
        self._core = self._kind(
            transport,
            name=name,
            version=version,
            questions=None if questions is None else threaded,
            deltas=deltas,
            opt_out=opt_out,
            reconnect=reconnect,
            call_timeout=call_timeout,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def state(self) -> State:
        return self._core.state

    def cursor(self, session_id: str) -> dict[str, Any] | None:
        """The last event of a session; None when this client is not attached to it."""
        return self._core.cursor(session_id)

    def open(self: Self) -> Self:
        """Connects. TransportError when the gateway is unreachable, GatewayError when it refuses the client."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="agentd-gateway", daemon=True)
            self._thread.start()
        try:
            self._run(self._core.open())
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Closes the connection. Sessions and turns continue."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None or not thread.is_alive():
            return
        self._run(self._core.close())
        self._run(_finish())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def __enter__(self: Self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, method: str, params: Fields, *, timeout: float | None = None) -> Any:
        """Calls any method of the gateway. The typed methods are the better way; see the asyncio client."""
        return self._run(self._core.call(method, params, timeout=timeout))

    def queue(self, session_id: str | None) -> EventQueue:
        """The events from now on."""

        async def make() -> EventQueue:
            return self._core.queue(session_id)

        return self._run(make())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None or self._loop.is_closed():
            work.close()
            raise GatewayClosedError("the client is not open: use `with`, or call open()")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # The caller was interrupted: nobody waits any more.
            future.cancel()
            raise

    def _next_event(self, queue: EventQueue) -> Any:
        """None at the end of the events."""

        async def take() -> Any:
            try:
                return await queue.next()
            except StopAsyncIteration:
                return None

        return self._run(take())

    def _end_events(self, queue: EventQueue) -> None:
        async def end() -> None:
            queue.end()

        if self._loop is not None and not self._loop.is_closed():
            self._run(end())


def _in_thread(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def ask(question: Any) -> Any:
        return await asyncio.to_thread(function, question)

    return ask


async def _finish() -> None:
    """Lets what is left on the loop end before it stops."""
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)
