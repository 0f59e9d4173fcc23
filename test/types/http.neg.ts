/**
 * What the compiler must refuse of HTTP handlers. Checked by `npm run typecheck`: an `@ts-expect-error` over a line
 * that compiles is itself an error. Never run.
 */
import type { ErrorEnvelope, Run } from "../../generated/http/client/types.gen.ts";
import { defineHttp, type HttpHandlers } from "../../src/http/edge/contract.ts";

interface Ctx {
  readonly caller: string;
}

declare const handlers: HttpHandlers<Ctx>;
declare const run: Run;
declare const envelope: ErrorEnvelope;
const { getRun: _getRun, ...rest } = handlers;

export const whole = defineHttp<Ctx>(handlers);

export const declared = defineHttp<Ctx>({
  ...handlers,
  getRun: ({ path, ctx, signal }) =>
    path.run_id === ctx.caller && !signal.aborted
      ? { status: 200, body: run }
      : { status: 404, headers: { "x-should-retry": "false" }, body: envelope },
  createChatCompletion: async ({ body, headers }) => {
    const [first]: readonly unknown[] = [body.messages[0], headers["x-agent-session-id"]];
    return { status: 400, body: { ...envelope, first } };
  },
});

// @ts-expect-error a handler is missing
export const missing = defineHttp<Ctx>(rest);

// @ts-expect-error no such operation in the spec
export const unknown = defineHttp<Ctx>({ ...handlers, dropEverything: () => ({ status: 200, body: {} }) });

// @ts-expect-error the spec does not list this status
export const undeclared = defineHttp<Ctx>({ ...handlers, getRun: () => ({ status: 201, body: run }) });

// @ts-expect-error the body is not what the status says
export const wrongBody = defineHttp<Ctx>({ ...handlers, getRun: () => ({ status: 200, body: { id: 1 } }) });

// @ts-expect-error an error body with a success status
export const wrongStatus = defineHttp<Ctx>({ ...handlers, getRun: () => ({ status: 200, body: envelope }) });

// @ts-expect-error the body is missing
export const noBody = defineHttp<Ctx>({ ...handlers, getRun: () => ({ status: 200 }) });

// @ts-expect-error a body where the spec has a stream
export const noStream = defineHttp<Ctx>({ ...handlers, streamRunEvents: () => ({ status: 200, body: run }) });

export const wrongEvent = defineHttp<Ctx>({
  ...handlers,
  // @ts-expect-error an event that the stream does not carry
  streamRunEvents: () => answer({ event: "run.nonsense" }),
});

// @ts-expect-error a stream where the spec has only a body
export const wrongStream = defineHttp<Ctx>({ ...handlers, getRun: () => answer(run) });

export const wrongPath = defineHttp<Ctx>({
  ...handlers,
  // @ts-expect-error no such parameter in the path
  getRun: ({ path }) => ({ status: 200, body: { ...run, id: path.id } }),
});

export const wrongHeader = defineHttp<Ctx>({
  ...handlers,
  // @ts-expect-error header names are in lower case
  streamRunEvents: ({ headers }) => never(headers["Last-Event-ID"]),
});

// @ts-expect-error the operation has no body
export const bodyless = defineHttp<Ctx>({ ...handlers, getRun: ({ body }) => never(body) });

function answer<T>(data: T): { readonly status: 200; readonly stream: AsyncIterable<{ readonly data: T }> } {
  return { status: 200, stream: endless(data) };
}

async function* endless<T>(data: T): AsyncGenerator<{ readonly data: T }> {
  for (;;) yield { data };
}

declare function never(value: unknown): never;
