/**
 * What the compiler must refuse of calls to the gateway. Checked by `npm run typecheck`: an `@ts-expect-error` over a line
 * that compiles is itself an error. Never run.
 */
import type { GatewayClient, GatewayOptions } from "../../src/client/gateway.ts";

declare const client: GatewayClient;
declare const transport: GatewayOptions["transport"];

// Where nothing is required, parameters may be left out; where defaults are filled in, each of them may.
export const pong: Promise<{ pong: boolean }> = client.call("ping");
export const created = client.call("session.create").then(({ session_id }) => session_id.trim());
export const listed = client.call("session.list", { limit: 3 }, { timeoutMs: 0 });

// @ts-expect-error session_id and text are required
export const nothing = client.call("prompt.submit");

// @ts-expect-error text is missing
export const partial = client.call("prompt.submit", { session_id: "s" });

// @ts-expect-error no such way to be busy
export const busy = client.call("prompt.submit", { session_id: "s", text: "x", when_busy: "wait" });

// @ts-expect-error no such method
export const unknown = client.call("session.explode", {});

// @ts-expect-error no such member of the result
export const wrong = client.call("session.usage", { session_id: "s" }).then(({ price }) => price);

export async function read(): Promise<string> {
  for await (const event of client.events()) {
    if (event.type === "message.delta") return event.payload.text;
    if (event.type === "client.gap") return event.payload.cursor.epoch;
    // @ts-expect-error a state is not a reason
    if (event.type === "client.state") return event.payload.reason;
    // @ts-expect-error no such event
    if (event.type === "message.explode") return "";
  }
  return "";
}

export const fits: GatewayOptions = {
  transport,
  questions: {
    approval: ({ payload }) => ({ choice: payload.choices[0] ?? "deny" }),
    secret: () => undefined,
  },
};

export const misfits: GatewayOptions = {
  transport,
  // @ts-expect-error an approval is answered with a choice
  questions: { approval: () => ({ answer: "yes" }) },
};

// @ts-expect-error which question is open no more must be told
export const deaf: GatewayOptions = { transport, optOut: ["request.cancel"] };
