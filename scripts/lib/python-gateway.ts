/** Prints gateway.py: the same methods of the gateway, once for asyncio and once blocking. */
import { REPEATABLE } from "../../src/client/gateway/calls.ts";
import { wrapSchemas } from "./config-document.ts";
import type { BundledDocument } from "./document.ts";
import { EVENT_UNION } from "./emit-host.ts";
import { readRequests, type RpcRequest } from "./emit-rpc.ts";
import { printDocstring, printString, PYTHON_HEADER, snakeCase, takeName, wrap } from "./python-text.ts";
import { printAnnotation, type PyType } from "./python-type.ts";
import { PythonTypes } from "./python-types.ts";
import { collectRpcSchemas, type RpcParam } from "./rpc-method.ts";

/** Members of the runtime that no method may hide. */
const RESERVED = ["open", "close", "call", "queue", "cursor", "state", "ready", "events"];

interface PythonMethod {
  readonly name: string;
  readonly method: RpcRequest;
  readonly args: readonly PythonArgument[];
  readonly result: PyType;
}

interface PythonArgument {
  readonly name: string;
  readonly param: RpcParam;
  readonly type: PyType;
}

/** `gateway.py` and `gateway_types.py`. */
export function printPythonGateway(
  gateway: BundledDocument,
  host: BundledDocument,
): { readonly client: string; readonly types: string } {
  const requests = readRequests(gateway);
  // The parameters of the gateway's methods are arguments, and not dictionaries.
  const params = new Set(requests.map(({ paramsName }) => paramsName));
  const schemas = Object.entries(collectRpcSchemas([gateway, host])).filter(([name]) => !params.has(name));
  const types = new PythonTypes(wrapSchemas(Object.fromEntries(schemas)), "gateway");
  const taken = new Set(RESERVED);
  const methods = requests.map((method): PythonMethod => {
    const used = new Set(["self", "call_timeout", "types", "cast"]);
    return {
      name: takeName(snakeCase(method.name), taken),
      method,
      args: method.params.map((param) => ({
        name: takeName(snakeCase(param.name), used),
        param,
        type: types.ofParameter(param.schema, `${method.name}-${param.name}`),
      })),
      result: types.of({ $ref: `#/components/schemas/${method.result.name}` }, method.result.name),
    };
  });
  return { client: printModule(methods), types: types.print() };
}

function printModule(methods: readonly PythonMethod[]): string {
  const repeatable = methods.map(({ method }) => method.name).filter((name) => REPEATABLE.test(name));
  const body = (define: string, wait: string) =>
    methods.map((method) => printMethod(method, define, wait)).join("\n");
  const blocking = body("def", "");
  const head = printHead(/\bLiteral\b/.test(blocking) ? ["Any", "Literal"] : ["Any"], repeatable);
  return `${head}${printAsyncClient(body("async def", "await "))}${printClient(blocking)}`;
}

function printHead(typing: readonly string[], repeatable: readonly string[]): string {
  return `${PYTHON_HEADER}"""The client of the gateway: typed calls, events that survive reconnects, and questions as functions."""

from __future__ import annotations

from typing import ${typing.join(", ")}, Mapping, Union, cast

from . import gateway_types as types
from ._gateway import (
    AsyncGatewayBase,
    EventQueue,
    GapNotice,
    GatewayNotice,
    LostNotice,
    QuestionFailedNotice,
    ReconnectPolicy,
    StateNotice,
)
from ._gateway_sync import SyncGatewayBase
from .gateway_transport import Link, SpawnTransport, Transport, WebSocketTransport

__all__ = [
    "AsyncEvents",
    "AsyncGatewayClient",
    "Events",
    "GapNotice",
    "GatewayClient",
    "GatewayClientEvent",
    "GatewayNotice",
    "Link",
    "LostNotice",
    "QuestionFailedNotice",
    "ReconnectPolicy",
    "SpawnTransport",
    "StateNotice",
    "Transport",
    "WebSocketTransport",
    "types",
]

#: What the gateway sends, or the client itself reports (types that begin with \`client.\`).
GatewayClientEvent = Union["types.${EVENT_UNION}", GatewayNotice]

_REPEATABLE = frozenset(
    {
${repeatable.map((name) => `        ${printString(name)},\n`).join("")}    }
)


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    """Without those that are left out."""
    return {name: value for name, value in params.items() if value is not None}
`;
}

function printAsyncClient(methods: string): string {
  return `

class AsyncEvents:
    """Events in order, each once, over all connections: \`async for event in events\`.

    Up to 8,192 events or 16 MiB wait to be read; beyond that EventsLostError. They end when the client is closed.
    """

    def __init__(self, queue: EventQueue) -> None:
        self._queue = queue

    def __aiter__(self) -> AsyncEvents:
        return self

    async def __anext__(self) -> GatewayClientEvent:
        return cast(GatewayClientEvent, await self._queue.next())

    def close(self) -> None:
        """Ends the events."""
        self._queue.end()


class AsyncGatewayClient(AsyncGatewayBase):
    """The gateway client for asyncio: \`async with AsyncGatewayClient(transport) as gateway\`."""

    _repeatable = _REPEATABLE

    @property
    def ready(self) -> types.GatewayReadyPayload:
        """What the gateway said about itself at the start of the last connection."""
        return cast("types.GatewayReadyPayload", self._ready)

    def events(self, session_id: str | None = None) -> AsyncEvents:
        """The events from now on: of one session, or of all."""
        return AsyncEvents(self.queue(session_id))

${methods}`;
}

function printClient(methods: string): string {
  return `

class Events:
    """Events in order, each once, over all connections: \`for event in events\`.

    Up to 8,192 events or 16 MiB wait to be read; beyond that EventsLostError. They end when the client is closed.
    """

    def __init__(self, client: GatewayClient, queue: EventQueue) -> None:
        self._client = client
        self._queue = queue

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> GatewayClientEvent:
        event = self._client._next_event(self._queue)
        if event is None:
            raise StopIteration
        return cast(GatewayClientEvent, event)

    def close(self) -> None:
        """Ends the events."""
        self._client._end_events(self._queue)


class GatewayClient(SyncGatewayBase):
    """The blocking gateway client: \`with GatewayClient(transport) as gateway\`."""

    _kind = AsyncGatewayClient

    @property
    def ready(self) -> types.GatewayReadyPayload:
        """What the gateway said about itself at the start of the last connection."""
        return cast("types.GatewayReadyPayload", self._core._ready)

    def events(self, session_id: str | None = None) -> Events:
        """The events from now on: of one session, or of all."""
        return Events(self, self.queue(session_id))

${methods}`;
}

function printMethod({ name, method, args, result }: PythonMethod, define: string, wait: string): string {
  const type = printAnnotation(result, "types.");
  const rows = [
    ...args.filter(({ param }) => param.required).map((arg) => `${arg.name}: ${annotate(arg)}`),
    ...args.filter(({ param }) => !param.required).map((arg) => `${arg.name}: ${optional(arg)} = None`),
    "call_timeout: float | None = None",
  ];
  const pairs = args.map((arg) => `                ${printString(arg.param.name)}: ${arg.name},\n`).join("");
  const params = args.length === 0 ? "{}" : `_given(\n            {\n${pairs}            }\n        )`;
  return `    ${define} ${name}(
        self,
        *,
${rows.map((row) => `        ${row},\n`).join("")}    ) -> ${type}:
${printDocstring(methodDoc(method, args), "        ")}        params: Mapping[str, Any] = ${params}
        return cast(${printString(type)}, ${wait}self.call(${printString(method.name)}, params, timeout=call_timeout))
`;
}

function annotate({ type }: PythonArgument): string {
  return printAnnotation(type, "types.");
}

function optional(arg: PythonArgument): string {
  const type = annotate(arg);
  return type === "Any" ? "Any" : `${type} | None`;
}

function methodDoc(
  { summary = "", name, scope }: RpcRequest,
  args: readonly PythonArgument[],
): readonly string[] {
  const text = summary.trim();
  const rows = args.flatMap(({ name: arg, param }) => {
    const { description } = param.schema;
    const preset = param.default === undefined ? "" : ` Default ${JSON.stringify(param.default)}.`;
    if (typeof description !== "string" && preset === "") return [];
    const note = `${arg}: ${typeof description === "string" ? description : ""}${preset}`;
    return wrap(note, 92).map((line, index) => `${" ".repeat(index === 0 ? 4 : 8)}${line}`);
  });
  return [
    /[.?!]$/.test(text) ? text : `${text || `Calls ${name}`}.`,
    `\`${name}\`.${scope === undefined ? "" : ` Needs a key with the scope \`${scope}\`.`}`,
    ...(rows.length === 0 ? [] : [`Args:\n${rows.join("\n")}`]),
  ];
}
