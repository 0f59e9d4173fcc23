/**
 * What the compiler must refuse of RPC handlers. Checked by `npm run typecheck`: an `@ts-expect-error` over a line that
 * compiles is itself an error. Never run.
 */
import { defineRpc, type RpcGroup, type RpcHandlers } from "../../src/rpc/deps.ts";

interface Ctx {
  readonly caller: string;
}

declare const handlers: RpcHandlers<Ctx>;
const { ping: _ping, ...rest } = handlers;

export const whole = defineRpc<Ctx>(handlers);

export const declared = defineRpc<Ctx>({
  ...handlers,
  "session.close": ({ params, ctx }) => ({ closed: params.session_id === ctx.caller }),
  "session.list": ({ params }) => ({ sessions: [], next_cursor: String(params.limit + 1) }),
});

export const group: RpcGroup<"ping" | "gateway.ping", Ctx> = {
  ping: () => ({ pong: true }),
  "gateway.ping": async () => ({ pong: true }),
};

// @ts-expect-error a handler is missing
export const missing = defineRpc<Ctx>(rest);

// @ts-expect-error no such method in the spec
export const unknown = defineRpc<Ctx>({ ...handlers, "session.explode": () => ({}) });

// @ts-expect-error the result is not what the spec says
export const wrong = defineRpc<Ctx>({ ...handlers, "session.close": () => ({ closed: "yes" }) });

export const absent = defineRpc<Ctx>({
  ...handlers,
  // @ts-expect-error no default, so it may be absent
  "session.list": ({ params }) => ({ sessions: [], next_cursor: params.cursor.trim() }),
});
