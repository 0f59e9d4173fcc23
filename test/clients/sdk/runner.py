"""The scenarios in Python, once for each flavour of the clients. Each function returns its outcome; one line of JSON each."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import traceback
from typing import Any, AsyncIterator

from agentd_client import (
    AgentApiError,
    AgentClient,
    AgentConnectionError,
    AsyncAgentClient,
    AuthenticationError,
    ConflictError,
    GatewayError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    ResponseInfo,
    RetryPolicy,
    StreamCutError,
    TransportError,
)
from agentd_client.gateway import (
    AsyncGatewayClient,
    GatewayClient,
    ReconnectPolicy,
    SpawnTransport,
    WebSocketTransport,
)

STAGE: dict[str, Any] = json.loads(sys.argv[1])
BLOCKING = sys.argv[2] == "blocking"
NEVER = RetryPolicy(max_retries=0)
FAST = RetryPolicy(first_delay=0.001, max_delay=0.01)
AGAIN = ReconnectPolicy(first_delay=0.001, max_delay=0.02, attempts=200)
KINDS = [
    (AuthenticationError, "authentication"),
    (PermissionDeniedError, "permission"),
    (NotFoundError, "not_found"),
    (ConflictError, "conflict"),
    (RateLimitError, "rate_limit"),
]


def client(url: str = "url", key: str = "key", retry: RetryPolicy = FAST) -> Any:
    kind: Any = AgentClient if BLOCKING else AsyncAgentClient
    return kind(STAGE[url], STAGE.get(key, key), retry=retry)


async def do(value: Any) -> Any:
    """What a call of either flavour gives."""
    return await value if inspect.isawaitable(value) else value


async def each(items: Any) -> AsyncIterator[Any]:
    if hasattr(items, "__aiter__"):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


async def collect(items: Any) -> list[Any]:
    return [item async for item in each(items)]


async def refused(call: Any) -> dict[str, Any]:
    try:
        await do(call())
    except AgentApiError as error:
        kind = next((name for type_, name in KINDS if isinstance(error, type_)), "api")
        return {"kind": kind, "status": error.status, "code": error.code}
    return {"kind": "none"}


def said(chunks: list[Any]) -> str:
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])


def run_text(events: list[Any]) -> str:
    return "".join(event["delta"] for event in events if event["event"] == "message.delta")


def counts(numbers: list[int], first: int) -> bool:
    return numbers == list(range(first, first + len(numbers)))


async def start(text: str) -> str:
    return str((await do(client().create_run({"input": text})))["run_id"])


def ask(text: str, **more: Any) -> Any:
    return {"messages": [{"role": "user", "content": text}], **more}


async def health() -> Any:
    return {"status": (await do(client().get_health()))["status"]}


async def chat() -> Any:
    return {"text": (await do(client().create_chat_completion(ask("hi"))))["choices"][0]["message"]["content"]}


async def chat_stream() -> Any:
    chunks = await collect(client().stream_chat_completion(ask("hi")))
    return {"text": said(chunks), "pieces": len(chunks) > 3}


async def chat_stream_cut() -> Any:
    try:
        body = ask("hi", agent={"on_disconnect": "continue"})
        await collect(client("cutUrl").stream_chat_completion(body))
    except StreamCutError as cut:
        assert cut.run_id is not None
        return {"text": run_text(await collect(client().stream_run_events(cut.run_id)))}
    return {"text": "the stream was not cut"}


def response_text(events: list[Any]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


async def response_stream() -> Any:
    events = await collect(client().stream_response({"input": "hi"}))
    return {"text": response_text(events), "last": events[-1]["type"]}


async def follow_response_cut() -> Any:
    response = await do(client().create_response({"input": "hi", "background": True}))
    events = await collect(client("wideCutUrl").follow_response(response["id"]))
    order = counts([event["sequence_number"] for event in events], 0)
    return {"text": response_text(events), "last": events[-1]["type"], "in_order": order}


async def run_events() -> Any:
    events = await collect(client().stream_run_events(await start("hi")))
    order = counts([event["seq"] for event in events], 1)
    return {"first": events[0]["event"], "last": events[-1]["event"], "in_order": order}


async def run_events_cut() -> Any:
    events = await collect(client("cutUrl").stream_run_events(await start("hi")))
    order = counts([event["seq"] for event in events], 1)
    return {"text": run_text(events), "last": events[-1]["event"], "in_order": order}


async def run_events_from_middle() -> Any:
    run_id = await start("hi")
    await collect(client().stream_run_events(run_id))
    events = await collect(client().stream_run_events(run_id, last_event_id="2"))
    return {"first": events[0]["seq"], "last": events[-1]["event"]}


async def feed_cut() -> Any:
    listed = ResponseInfo()
    await do(client().list_sessions(response=listed))
    made = [(await do(client().create_session({})))["id"] for _ in range(12)]
    found: list[str] = []
    after = listed.headers["x-agent-event-cursor"]
    async for frame in each(client("cutUrl").stream_events(types_=["session.created"], after=after)):
        if frame["object"] == "event" and frame["data"]["id"] in made:
            found.append(frame["data"]["id"])
        if found and found[-1] == made[-1]:
            break
    return {"events": len(found), "in_order": found == made}


async def end_of_run(choice: str) -> Any:
    run_id = await start("ask me")
    last: Any = {}
    async for last in each(client().stream_run_events(run_id)):
        if last["event"] == "approval.request":
            answer: Any = {"choice": choice, "request_id": last["request_id"]}
            await do(client().resolve_run_approval(run_id, answer))
    return last


async def run_approved() -> Any:
    return {"output": (await end_of_run("once"))["output"]}


async def run_denied() -> Any:
    return {"ran": "it ran" in (await end_of_run("deny"))["output"]}


async def run_cancelled() -> Any:
    run_id = await start("hold")
    last: Any = {}
    async for last in each(client().stream_run_events(run_id)):
        if last["event"] == "message.delta":
            await do(client().stop_run(run_id))
    return {"last": last["event"], "status": (await do(client().get_run(run_id)))["status"]}


async def idempotent_replay() -> Any:
    key = f"replay-{STAGE['tag']}-{sys.argv[2]}"
    info = ResponseInfo()
    first = await do(client().create_run({"input": "hi"}, idempotency_key=key))
    second = await do(client().create_run({"input": "hi"}, idempotency_key=key, response=info))
    return {"same": first["run_id"] == second["run_id"], "replayed": info.headers["idempotency-replayed"]}


async def idempotency_conflict() -> Any:
    key = f"conflict-{STAGE['tag']}-{sys.argv[2]}"
    await do(client().create_run({"input": "hi"}, idempotency_key=key))
    return await refused(lambda: client().create_run({"input": "another"}, idempotency_key=key))


async def list_pages() -> Any:
    await start("one")
    await start("two")
    first = await do(client().list_runs(limit=1))
    second = await do(client().list_runs(limit=1, after=first["last_id"]))
    ids = [page["data"][0]["run_id"] for page in (first, second)]
    return {"pages": len(ids), "same": ids[0] == ids[1]}


async def not_found() -> Any:
    return await refused(lambda: client().get_run("run_unknown"))


async def unauthorized() -> Any:
    return await refused(lambda: client(key="wrong-key-0123456789").list_runs())


async def forbidden() -> Any:
    return await refused(lambda: client(key="readKey").create_run({"input": "hi"}))


async def rate_limited() -> Any:
    limited = client(key="limitedKey", retry=NEVER)
    for _ in range(8):
        try:
            await do(limited.list_runs())
        except RateLimitError as error:
            waits = (error.retry_after or 0) > 0
            return {"kind": "rate_limit", "status": error.status, "code": error.code, "waits": waits}
    return {}


async def invalid_request() -> Any:
    try:
        await do(client().list_runs(limit=0))
    except AgentApiError as error:
        return {"kind": "api", "status": error.status, "code": error.code, "param": error.param}
    return {}


async def unreachable() -> Any:
    kind: Any = AgentClient if BLOCKING else AsyncAgentClient
    try:
        await do(kind("http://127.0.0.1:1", retry=NEVER).get_health())
    except AgentConnectionError:
        return {"kind": "connection"}
    return {}


class Gateway:
    """A gateway client of either flavour."""

    def __init__(self, transport: Any = None, url: str = "url", **options: Any) -> None:
        kind: Any = GatewayClient if BLOCKING else AsyncGatewayClient
        self.client = kind(
            transport or WebSocketTransport(STAGE[url], STAGE["key"]), reconnect=AGAIN, **options
        )

    async def __aenter__(self) -> Any:
        return await do(self.client.open())

    async def __aexit__(self, *_: object) -> None:
        await do(self.client.close())


async def turn(gateway: Any, text: str, hear: Any = None) -> Any:
    session_id = (await do(gateway.session_create()))["session_id"]
    events = gateway.events(session_id)
    await do(gateway.prompt_submit(session_id=session_id, text=text))
    deltas, following, order = "", 1, True
    async for event in each(events):
        if hear is not None:
            await hear(event, session_id)
        if event.get("seq"):
            order = order and event.get("first_seq", event["seq"]) == following
            following = event["seq"] + 1
        if event["type"] == "message.delta":
            deltas += event["payload"]["text"]
        if event["type"] == "message.complete":
            events.close()
            return {**event["payload"], "deltas": deltas, "in_order": order}
    raise AssertionError("the events ended before the turn")


def whole(result: Any) -> Any:
    return {name: result[name] for name in ("text", "deltas", "in_order", "status")}


async def gateway_error() -> Any:
    async with Gateway() as gateway:
        pong = (await do(gateway.ping()))["pong"]
        try:
            await do(gateway.session_usage(session_id="none"))
        except GatewayError as error:
            return {"pong": pong, "code": error.code, "reason": error.reason, "retryable": error.retryable}
    return {}


async def gateway_prompt() -> Any:
    async with Gateway() as gateway:
        return whole(await turn(gateway, "hi"))


async def gateway_cut() -> Any:
    async with Gateway(url="gatewayCutUrl") as gateway:
        return whole(await turn(gateway, "hi"))


async def gateway_approval() -> Any:
    asked = []

    def approval(question: Any) -> Any:
        asked.append(question["command"])
        return {"choice": "once"}

    async with Gateway(questions={"approval": approval}) as gateway:
        return {"text": (await turn(gateway, "ask me"))["text"], "asked": asked[0]}


async def gateway_clarify() -> Any:
    asked = []
    async with Gateway() as gateway:

        async def hear(event: Any, session_id: str) -> None:
            if event["type"] != "clarify.request":
                return
            asked.append(event["payload"]["question"])
            request_id = event["payload"]["request_id"]
            await do(gateway.clarify_respond(request_id=request_id, answer="this", session_id=session_id))

        return {"text": (await turn(gateway, "clarify", hear))["text"], "question": asked[0]}


async def gateway_declined() -> Any:
    async with Gateway(questions={}) as gateway:
        return {"ran": "it ran" in (await turn(gateway, "ask me"))["text"]}


async def gateway_interrupt() -> Any:
    statuses: list[str] = []
    async with Gateway() as gateway:

        async def hear(event: Any, session_id: str) -> None:
            if event["type"] == "message.delta" and not statuses:
                statuses.append((await do(gateway.session_interrupt(session_id=session_id)))["status"])

        status = (await turn(gateway, "hold", hear))["status"]
        return {"interrupted": statuses[0], "status": status}


async def gateway_wrong_key() -> Any:
    try:
        async with Gateway(WebSocketTransport(STAGE["url"], "wrong-key-0123456789")):
            pass
    except TransportError:
        return {"refused": True}
    return {"refused": False}


async def gateway_stdio() -> Any:
    transport = SpawnTransport(STAGE["command"], env=STAGE["env"])
    async with Gateway(transport) as gateway:
        result = await turn(gateway, "hello there")
        is_whole = result["text"] != "" and result["text"] == result["deltas"]
        name = gateway.ready["protocol"]["name"]
        return {"protocol": name, "whole": is_whole, "status": result["status"]}


def main() -> None:
    for name in sys.argv[3:]:
        try:
            outcome = asyncio.run(globals()[name](), debug=True)
        except Exception:
            outcome = {"raised": traceback.format_exc()}
        print(json.dumps({"name": name, "outcome": outcome}), flush=True)


main()
