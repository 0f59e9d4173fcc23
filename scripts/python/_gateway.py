"""The gateway client on asyncio: one connection after the other, and the state that outlives them."""

from __future__ import annotations

import asyncio
import collections
import inspect
import json
import random
import secrets
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Literal, Mapping, Sequence, TypedDict, TypeVar, Union

from .errors import (
    AgentError,
    AgentTimeoutError,
    ConnectionCutError,
    EventsLostError,
    GatewayClosedError,
    GatewayError,
    TransportError,
)
from .gateway_transport import Link, Transport

Fields = Mapping[str, Any]
Self = TypeVar("Self", bound="AsyncGatewayBase")

#: The version of the protocol that this client speaks.
PROTOCOL_VERSION = 1
_READY_SECONDS = 30.0
_PING_SECONDS = 15.0
#: A connection without a frame for this long is dead, whatever its state.
_SILENCE_SECONDS = 45.0
_CLOSE_SECONDS = 10.0
_MAX_EVENTS = 8192
_MAX_EVENT_BYTES = 16 * 1024 * 1024
#: Nominal size of a notice.
_NOTICE_BYTES = 256

State = Literal["open", "reconnecting", "closed"]


@dataclass(frozen=True)
class ReconnectPolicy:
    """Bounds of reconnecting. Times are in seconds."""

    #: First delay, doubled after each failed attempt. The first attempt is made at once.
    first_delay: float = 1.0
    max_delay: float = 30.0
    #: How many attempts may fail in a row before the client closes; 0 never reconnects.
    attempts: int = 20


class StateNotice(TypedDict):
    """The connection was cut or restored."""

    type: Literal["client.state"]
    state: State
    attempt: int
    message: str


class GapNotice(TypedDict):
    """Events of this session are missing: read its history. Those after `cursor` follow."""

    type: Literal["client.gap"]
    session_id: str
    reason: Literal["truncated", "epoch"]
    cursor: dict[str, Any]


class LostNotice(TypedDict):
    """The session could not be resumed after a cut; it sends no more events."""

    type: Literal["client.lost"]
    session_id: str
    code: int
    reason: str
    message: str


class QuestionFailedNotice(TypedDict):
    """A question function raised, and the question was declined."""

    type: Literal["client.question_failed"]
    session_id: str
    request_id: str
    message: str


GatewayNotice = Union[StateNotice, GapNotice, LostNotice, QuestionFailedNotice]


@dataclass
class _Call:
    id: str
    method: str
    params: dict[str, Any]
    #: The client itself makes it; it ends with its connection.
    own: bool
    answer: asyncio.Future[Any]
    sent: bool = False

    @property
    def frame(self) -> str:
        frame = {"jsonrpc": "2.0", "id": self.id, "method": self.method, "params": self.params}
        return json.dumps(frame, ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    def settle(self, error: Exception | None, result: Any = None) -> None:
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(result)
        else:
            self.answer.set_exception(error)
            # A caller that no longer waits is no reason for a warning.
            self.answer.exception()


@dataclass
class _Session:
    cursor: dict[str, Any]
    #: It closes with the connection, and with the next one.
    brief: bool = False


@dataclass
class _Question:
    id: str
    method: str
    session_id: str
    params: Fields
    #: The connection on which it is an open request; None when it only came with a session.
    on: _Connection | None
    answer: Any = None
    task: asyncio.Task[None] | None = None


@dataclass(eq=False)
class _Connection:
    link: Link
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    heard: float = field(default_factory=time.monotonic)
    was_open: bool = False
    error: TransportError | None = None


class EventQueue:
    """The waiting events of one reader."""

    def __init__(self, session_id: str | None, forget: Callable[[EventQueue], None]) -> None:
        self.session_id = session_id
        self._forget = forget
        self._waiting: collections.deque[tuple[Any, int, str]] = collections.deque()
        self._bytes = 0
        self._cursors: dict[str, Any] = {}
        self._ended = False
        self._error: Exception | None = None
        self._wake = asyncio.Event()

    def push(self, event: Any, size: int, epoch: str) -> None:
        self._waiting.append((event, size, epoch))
        self._bytes += size
        if len(self._waiting) > _MAX_EVENTS or self._bytes > _MAX_EVENT_BYTES:
            self._waiting.clear()
            self.end(EventsLostError(self._cursors))
        self._wake.set()

    def end(self, error: Exception | None = None) -> None:
        if not self._ended:
            self._ended, self._error = True, error
            self._forget(self)
        self._wake.set()

    async def next(self) -> Any:
        """StopAsyncIteration at the end."""
        while not self._waiting:
            if self._ended:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        event, size, epoch = self._waiting.popleft()
        self._bytes -= size
        if event.get("session_id") and event.get("seq"):
            self._cursors[event["session_id"]] = {"epoch": epoch, "last_seen": event["seq"]}
        return event


class AsyncGatewayBase:
    """What every method of the asyncio client uses."""

    #: Methods that only read, or are done once however often they are sent.
    _repeatable: frozenset[str] = frozenset()

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
        """Makes a client. It connects on entering `async with`, or by `open()`.

        Args:
            transport: WebSocketTransport, SpawnTransport, or one of your own.
            name: Name of this program in the gateway's log.
            version: Its version.
            questions: Functions that answer what the agent asks, by method, such as `approval`. They may be coroutines;
                None declines. With any of them the gateway sends questions as requests instead of events, and a
                question without its function is declined. They are cancelled when the question is no longer open.
            deltas: `final` asks for whole answers only.
            opt_out: Types of events that the gateway must not send.
            reconnect: Bounds of reconnecting.
            call_timeout: Seconds that a call may take, including the time to reconnect.
        """
        self._transport = transport
        self._client = {"name": name, "version": version}
        self._ask = questions
        self._events_wanted = {"deltas": deltas, "opt_out": list(opt_out)}
        self._reconnect = reconnect
        self._call_timeout = call_timeout
        self._state: State = "reconnecting"
        self._ready: Any = {}
        self._connection: _Connection | None = None
        self._calls: dict[str, _Call] = {}
        self._next_call = 1
        self._sessions: dict[str, _Session] = {}
        self._queues: set[EventQueue] = set()
        self._questions: dict[str, _Question] = {}
        self._failures = 0
        self._was_open = False
        self._error: Exception | None = None
        self._runner: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    # What callers use.

    @property
    def state(self) -> State:
        return self._state

    def cursor(self, session_id: str) -> dict[str, Any] | None:
        """The last event of a session; None when this client is not attached to it."""
        session = self._sessions.get(session_id)
        return None if session is None else dict(session.cursor)

    async def open(self: Self) -> Self:
        """Connects. TransportError when the gateway is unreachable, GatewayError when it refuses the client."""
        if self._runner is None:
            self._opened = asyncio.get_running_loop().create_future()
            self._runner = asyncio.create_task(self._run())
        assert self._opened is not None
        try:
            await asyncio.shield(self._opened)
        except asyncio.CancelledError:
            self._shut(None)
            raise
        return self

    async def close(self) -> None:
        """Closes the connection. Sessions and turns continue."""
        self._shut(None)
        if self._runner is not None:
            done, _ = await asyncio.wait([self._runner], timeout=_CLOSE_SECONDS)
            if not done:
                self._runner.cancel()

    async def __aenter__(self: Self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def call(self, method: str, params: Fields, *, timeout: float | None = None) -> Any:
        """Calls any method of the gateway. The typed methods are the better way.

        Waits during a reconnect. When the connection is cut during the call, calls that only read and `prompt.submit` are
        sent again; the others raise ConnectionCutError, since their outcome is unknown.
        """
        seconds = self._call_timeout if timeout is None else timeout
        try:
            return await asyncio.wait_for(self._call(method, dict(params)), seconds)
        except asyncio.TimeoutError:
            raise AgentTimeoutError(f"{method}: no answer within {seconds:g} seconds") from None

    def queue(self, session_id: str | None) -> EventQueue:
        """The events from now on."""
        queue = EventQueue(session_id, self._queues.discard)
        self._queues.add(queue)
        if self._state == "closed":
            queue.end()
        return queue

    # Connections.

    async def _run(self) -> None:
        while True:
            began = time.monotonic()
            error = await self._serve()
            if self._state == "closed":
                return
            lived = self._connection is not None and self._connection.was_open
            # A very short connection counts as failed; otherwise a crashing gateway would be contacted without a delay.
            steady = lived and time.monotonic() - began >= self._reconnect.first_delay
            self._failures = 0 if steady else self._failures + 1
            lasting = not getattr(error, "retryable", True)
            if lasting or not self._was_open or self._failures > self._reconnect.attempts or not self._reconnect.attempts:
                self._shut(error)
                return
            self._become("reconnecting", error)
            await asyncio.sleep(self._delay())

    def _delay(self) -> float:
        """Spread, so that clients that were cut together do not come back together."""
        if self._failures == 0:
            return random.uniform(0, self._reconnect.first_delay / 4)
        wait = min(self._reconnect.max_delay, self._reconnect.first_delay * 2.0 ** min(self._failures - 1, 32))
        return wait * random.uniform(0.5, 1.0)

    async def _serve(self) -> Exception:
        """Runs one connection. Returns why it ended."""
        self._connection = None
        try:
            link = await asyncio.wait_for(self._transport.open(), _READY_SECONDS)
        except asyncio.TimeoutError:
            return TransportError("the gateway does not answer")
        except (AgentError, OSError) as error:
            return error
        connection = self._connection = _Connection(link)
        reader = asyncio.create_task(self._read(connection))
        if self._state == "closed":
            link.close()
        setup = asyncio.create_task(self._set_up(connection))
        await asyncio.wait([reader, setup], return_when=asyncio.FIRST_COMPLETED)
        refusal: BaseException | None = None
        if setup.done():
            refusal = setup.exception()
            if refusal is not None:
                link.close()
        beat = asyncio.create_task(self._beat(connection))
        await asyncio.wait([reader])
        for task in (setup, beat):
            task.cancel()
        await asyncio.gather(setup, beat, return_exceptions=True)
        reason = connection.error or TransportError("the connection ended")
        for call in list(self._calls.values()):
            if not call.own and call.method in self._repeatable:
                call.sent = False
            elif call.sent:
                self._settle(call, _cut(call.method, reason))
        return refusal if isinstance(refusal, (GatewayError, TransportError)) else reason

    async def _set_up(self, connection: _Connection) -> None:
        try:
            await asyncio.wait_for(connection.ready.wait(), _READY_SECONDS)
        except asyncio.TimeoutError:
            raise TransportError("the gateway is not ready") from None
        minimum = self._ready["protocol"]["min_version"]
        if minimum > PROTOCOL_VERSION:
            raise TransportError("the gateway needs a newer client", retryable=False)
        wanted = {
            "protocol_version": PROTOCOL_VERSION,
            "client": self._client,
            "server_requests": self._ask is not None,
            "events": self._events_wanted,
        }
        await self._call_own(connection, "client.capabilities", wanted)
        for session_id in list(self._sessions):
            await self._attach_again(connection, session_id)
        if connection.error is not None or self._state == "closed":
            return
        connection.was_open = self._was_open = True
        self._become("open")
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(None)
        for call in list(self._calls.values()):
            if not call.sent:
                self._send(connection, call)

    async def _attach_again(self, connection: _Connection, session_id: str) -> None:
        """Resumes a session of the last connection where it stopped."""
        session = self._sessions.get(session_id)
        if session is None:
            return
        still_open: set[str] = set()
        params = {
            "session_id": session_id,
            "omit_messages": True,
            "close_on_disconnect": session.brief,
            "cursor": dict(session.cursor),
        }
        try:
            result = await self._call_own(connection, "session.resume", params)
            still_open.update(request["id"] for request in result["open_requests"])
        except GatewayError as error:
            # The session does not exist any more; other failures are those of the connection.
            if error.retryable:
                raise
            self._sessions.pop(session_id, None)
            lost = {"code": error.code, "reason": error.reason, "message": error.message}
            self._notify({"type": "client.lost", "session_id": session_id, **lost})
        for question in list(self._questions.values()):
            kept = question.id in still_open or question.on is connection
            if question.session_id == session_id and not kept:
                self._withdraw(question.id)

    async def _beat(self, connection: _Connection) -> None:
        await connection.ready.wait()
        while self._ready.get("heartbeat"):
            await asyncio.sleep(_PING_SECONDS)
            if time.monotonic() - connection.heard >= _SILENCE_SECONDS:
                connection.error = TransportError("the gateway is silent")
                connection.link.close()
                return
            connection.link.send('{"jsonrpc":"2.0","id":"ping","method":"gateway.ping"}')

    async def _read(self, connection: _Connection) -> None:
        try:
            while True:
                text = await connection.link.read()
                connection.heard = time.monotonic()
                try:
                    self._take(connection, text)
                except (ValueError, KeyError, TypeError, AttributeError):
                    connection.error = TransportError("the gateway sent a frame that cannot be read")
                    connection.link.close()
        except TransportError as error:
            connection.error = connection.error or error

    def _take(self, connection: _Connection, text: str) -> None:
        """One frame, at once: a response determines how the following frames are read."""
        frame = json.loads(text)
        if connection.error is not None:
            return
        if frame.get("method") == "event":
            self._event(connection, frame["params"], len(text))
        elif frame.get("method"):
            params = frame["params"]
            self._question(_Question(frame["id"], frame["method"], params["session_id"], params, connection))
        elif frame.get("id"):
            call = self._calls.get(frame["id"])
            if call is None:
                return
            error = frame.get("error")
            if error is not None:
                self._settle(call, GatewayError(error["code"], error["message"], error.get("data")))
                return
            self._follow(call, frame["result"])
            self._settle(call, None, frame["result"])

    # Calls.

    async def _call(self, method: str, params: dict[str, Any]) -> Any:
        if method == "prompt.submit":
            if self._state != "closed" and params.get("session_id") not in self._sessions:
                # Attaches before the turn begins, so that no event of it is missed.
                try:
                    await self._call("session.activate", {"session_id": params.get("session_id"), "omit_messages": True})
                except GatewayError as error:
                    # A problem with the session becomes the response to the submit itself.
                    if error.retryable:
                        raise
            params.setdefault("client_turn_id", secrets.token_hex(16))
        if self._state == "closed":
            raise GatewayClosedError("the client is closed") from self._error
        if self._runner is None:
            raise GatewayClosedError("the client is not open: use `async with`, or call open()")
        call = self._add(method, params, own=False)
        limit = self._ready.get("limits", {}).get("max_frame_bytes", 0)
        if limit and len(call.frame.encode("utf-8")) > limit:
            del self._calls[call.id]
            # The gateway would close the connection each time the call is repeated.
            raise GatewayError(-32600, f"the frame exceeds {limit} bytes", {"reason": "frame_too_large"})
        connection = self._connection
        if self._state == "open" and connection is not None and connection.error is None:
            self._send(connection, call)
        return await self._wait(call)

    async def _call_own(self, connection: _Connection, method: str, params: dict[str, Any]) -> Any:
        call = self._add(method, params, own=True)
        self._send(connection, call)
        return await self._wait(call)

    async def _wait(self, call: _Call) -> Any:
        try:
            return await call.answer
        finally:
            self._calls.pop(call.id, None)

    def _add(self, method: str, params: dict[str, Any], *, own: bool) -> _Call:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        call = _Call(f"c{self._next_call}", method, params, own, answer)
        self._next_call += 1
        self._calls[call.id] = call
        return call

    def _send(self, connection: _Connection, call: _Call) -> None:
        call.sent = True
        connection.link.send(call.frame)

    def _settle(self, call: _Call, error: Exception | None, result: Any = None) -> None:
        self._calls.pop(call.id, None)
        call.settle(error, result)

    # Events and sessions.

    def _event(self, connection: _Connection, event: Any, size: int) -> None:
        kind = event["type"]
        session_id = event.get("session_id", "")
        if kind == "gateway.ready":
            self._ready = event["payload"]
            connection.ready.set()
        elif kind == "request.cancel":
            self._withdraw(event["payload"]["id"])
        elif kind == "session.closed":
            self._sessions.pop(session_id, None)
        session, seq = self._sessions.get(session_id), event.get("seq")
        if session is not None and seq:
            if seq <= session.cursor["last_seen"]:
                return
            session.cursor = {**session.cursor, "last_seen": seq}
        self._push(event, size)

    def _push(self, event: Any, size: int) -> None:
        session_id = event.get("session_id")
        for queue in list(self._queues):
            if not queue.session_id or not session_id or queue.session_id == session_id:
                queue.push(event, size, self._ready.get("replay_epoch", ""))

    def _notify(self, notice: Any) -> None:
        self._push(notice, _NOTICE_BYTES)

    def _follow(self, call: _Call, result: Any) -> None:
        """Updates the sessions after a response."""
        params = call.params
        session_id = str(result.get("session_id") or params.get("session_id"))
        verb = call.method.rpartition(".")[2]
        if call.method in ("session.create", "session.branch"):
            cursor = {"epoch": self._ready["replay_epoch"], "last_seen": 0}
            self._sessions[session_id] = _Session(cursor, bool(params.get("close_on_disconnect")))
        elif call.method.startswith("session.") and verb in ("detach", "close", "delete"):
            self._sessions.pop(session_id, None)
        elif call.method in ("session.resume", "session.activate"):
            self._resumed(call, session_id, result)

    def _resumed(self, call: _Call, session_id: str, result: Any) -> None:
        newest = {"epoch": result["epoch"], "last_seen": result["latest_seq"]}
        asked = call.params.get("cursor")
        known = self._sessions.get(session_id)
        # Without a cursor, an attached session continues where it is: some of its events may still arrive.
        cursor = newest if result.get("truncated") else asked or (known.cursor if known else newest)
        brief = bool(call.params.get("close_on_disconnect")) or (known is not None and known.brief)
        self._sessions[session_id] = _Session(dict(cursor), brief)
        if result.get("truncated") and call.own:
            same = asked is not None and asked["epoch"] == result["epoch"]
            reason = "truncated" if same else "epoch"
            self._notify({"type": "client.gap", "session_id": session_id, "reason": reason, "cursor": newest})
        for request in result["open_requests"] if self._ask is not None else ():
            params = {"session_id": session_id, "payload": request["params"]}
            self._question(_Question(request["id"], request["method"], session_id, params, None))

    # Questions.

    def _question(self, question: _Question) -> None:
        """Asks the host. A known question is not asked again; if it was answered, the answer is sent again."""
        known = self._questions.get(question.id)
        if known is None:
            self._questions[question.id] = question
            question.task = self._start(self._hold(question))
            return
        known.on = question.on or known.on
        if known.answer is not None:
            self._start(self._send_answer(known))

    async def _hold(self, question: _Question) -> None:
        function = (self._ask or {}).get(question.method)
        try:
            answer = function(question.params) if function is not None else None
            question.answer = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:
            notice = {"request_id": question.id, "message": f"{type(error).__name__}: {error}"}
            self._notify({"type": "client.question_failed", "session_id": question.session_id, **notice})
        if question.answer is None:
            self._questions.pop(question.id, None)
        await self._send_answer(question)

    async def _send_answer(self, question: _Question) -> None:
        connection = question.on
        if connection is not None and connection is self._connection and connection.error is None:
            declined = {"error": {"code": -32601, "message": "declined"}}
            answer = declined if question.answer is None else {"result": question.answer}
            connection.link.send(json.dumps({"jsonrpc": "2.0", "id": question.id, **answer}))
        elif question.answer is not None:
            params = {"id": question.id, "session_id": question.session_id, "result": question.answer}
            try:
                await self.call("request.answer", params)
            except AgentError:
                # Another client answered first; or the connection was cut, and the question is sent again.
                pass

    def _withdraw(self, question_id: str) -> None:
        question = self._questions.pop(question_id, None)
        if question is not None and question.task is not None and question.answer is None:
            question.task.cancel()

    def _start(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # The end.

    def _become(self, state: State, error: Exception | None = None) -> None:
        self._state = state
        message = "" if error is None else str(error)
        self._notify({"type": "client.state", "state": state, "attempt": self._failures, "message": message})

    def _shut(self, error: Exception | None) -> None:
        if self._state == "closed":
            return
        self._become("closed", error)
        self._error = error
        closed = GatewayClosedError(str(error) if error is not None else "the client is closed")
        closed.__cause__ = error
        for call in list(self._calls.values()):
            self._settle(call, _cut(call.method, closed) if call.sent else closed)
        for question_id in list(self._questions):
            self._withdraw(question_id)
        for queue in list(self._queues):
            queue.end(None if error is None else closed)
        if self._opened is not None and not self._opened.done():
            self._opened.set_exception(error or closed)
            self._opened.exception()
        if self._connection is not None:
            self._connection.link.close()


def _cut(method: str, cause: Exception) -> ConnectionCutError:
    error = ConnectionCutError(f"cut before {method} was answered; check whether it was done: {cause}")
    error.__cause__ = cause
    return error


