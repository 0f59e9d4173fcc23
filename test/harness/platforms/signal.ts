/**
 * signal-cli's HTTP daemon as signal-cli-jsonrpc(5) documents it, with the errors of its "SignalJsonRpcCommandHandler"
 * and "JsonSendMessageResult"; and signal-cli-rest-api as its "Signal Cli REST API" describes POST /v2/send.
 */
import { startPlatform, type Asked, type FakePlatform, type Reply } from "./fake.ts";

export const SIGNAL_ACCOUNT = "+15550100100";
export const SIGNAL_GROUP = "Pmpi+EfPWmsxiomLe9Nx2XF9HOE483p6iKiFj65iMwI=";
export const SIGNAL_UUID = "0b5b6e0c-6d3c-4c5e-9a4f-2f9f3b8d1c11";

const rpcSchema = {
  type: "object",
  required: ["jsonrpc", "method", "id", "params"],
  additionalProperties: false,
  properties: {
    jsonrpc: { const: "2.0" },
    method: { const: "send" },
    id: { type: ["string", "integer"] },
    params: {
      type: "object",
      required: ["message"],
      additionalProperties: false,
      properties: {
        account: { type: "string" },
        recipient: { type: "array", minItems: 1, items: { type: "string" } },
        groupId: { type: "string" },
        message: { type: "string" },
        attachment: {
          type: "array",
          items: { type: "string", pattern: "^data:[^;]+;filename=[^;]+;base64," },
        },
        textStyle: { type: "array", items: { type: "string", pattern: "^\\d+:\\d+:[A-Z]+$" } },
      },
    },
  },
} as const;

const restSchema = {
  type: "object",
  required: ["message", "number", "recipients"],
  additionalProperties: false,
  properties: {
    message: { type: "string" },
    number: { type: "string" },
    recipients: { type: "array", items: { type: "string" } },
    base64_attachments: { type: "array", items: { type: "string", pattern: "^data:" } },
    text_mode: { enum: ["normal", "styled"] },
  },
} as const;

const known = new Set(["+15550100123", SIGNAL_UUID, "u:maria.42", "maria.42"]);
const styles = new Set(["BOLD", "ITALIC", "STRIKETHROUGH", "SPOILER", "MONOSPACE"]);

interface Cleanup {
  after(run: () => Promise<void>): void;
}

/** Knows the account, one number, one UUID, one user name and one group; of another number it says unregistered. */
export async function startSignal(t: Cleanup): Promise<FakePlatform> {
  return startPlatform(t, [
    {
      method: "POST",
      path: /^\/api\/v1\/rpc$/,
      schema: rpcSchema,
      refuse: ({ headers }) =>
        headers["content-type"]?.startsWith("application/json") ? undefined : { status: 415 },
      invalid: (issues) => rpcError(-32_600, issues),
      answer: rpcAnswer,
    },
    {
      method: "POST",
      path: /^\/v2\/send$/,
      schema: restSchema,
      invalid: (issues) => restError(400, issues),
      answer: restAnswer,
    },
  ]);
}

/** An error comes with HTTP 200. */
export function rpcError(code: number, message: string, results?: readonly object[]): Reply {
  const data = results ? { response: { timestamp: 1_700_000_000_000, results } } : null;
  return { status: 200, body: { jsonrpc: "2.0", error: { code, message, data }, id: "1" } };
}

export function rpcResult(type: string, more: object = {}): object {
  return { recipientAddress: { uuid: SIGNAL_UUID, number: null }, type, ...more };
}

export function restError(status: number, error: string, tokens?: readonly string[]): Reply {
  return {
    status,
    body: { error, account: SIGNAL_ACCOUNT, ...(tokens ? { challenge_tokens: tokens } : {}) },
  };
}

function rpcAnswer({ body }: Asked): Reply {
  const { id, params } = body as { readonly id: string; readonly params: Readonly<Record<string, unknown>> };
  const { account, recipient = [], groupId, message, textStyle = [], attachment } = params;
  const text = String(message);
  if (account !== SIGNAL_ACCOUNT) return rpcError(-32_602, "Specified account does not exist");
  if (text === "" && attachment === undefined) return rpcError(-1, "Sending empty message is not allowed");
  for (const style of textStyle as readonly string[]) {
    const [start, length, name = ""] = style.split(":");
    if (!styles.has(name)) return rpcError(-1, `Invalid style: ${name}`);
    if (Number(start) + Number(length) > text.length) return rpcError(-1, `Invalid textStyle: ${style}`);
  }
  if (groupId !== undefined && groupId !== SIGNAL_GROUP) return rpcError(-1, "Group not found");
  const strangers = (recipient as readonly string[]).filter((one) => !known.has(one));
  if (strangers.length > 0)
    return rpcError(-1, "Failed to send message", [rpcResult("UNREGISTERED_FAILURE")]);
  const result = { timestamp: 1_700_000_000_000, results: [rpcResult("SUCCESS")] };
  return { status: 200, body: { jsonrpc: "2.0", result, id } };
}

function restAnswer({ body = {} }: Asked): Reply {
  const { number, recipients } = body;
  if (number !== SIGNAL_ACCOUNT)
    return restError(400, `Specified account does not exist: User ${String(number)} is not registered.`);
  const groups = new Set([`group.${Buffer.from(SIGNAL_GROUP).toString("base64")}`]);
  const strangers = (recipients as readonly string[]).filter((one) => !known.has(one) && !groups.has(one));
  if (strangers.length > 0)
    return restError(400, `Failed to send message: Unregistered user "${strangers.join()}"`);
  return { status: 201, body: { timestamp: "1700000000000" } };
}
