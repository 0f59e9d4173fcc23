import type { SignalRpcRequest } from "../../../../generated/delivery/client/types.gen.ts";
import type { PlatformSettings } from "../../../config/platform-settings.ts";
import { createCall, type Call } from "../../platform/call.ts";
import { readMessage } from "../../message.ts";
import { sendParts } from "../../deps.ts";
import type { Platform } from "../../platform/platform.ts";
import type { SendOptions, SendOutcome } from "../../target.ts";
import type { Part } from "../../text/part.ts";
import { renderParts } from "../../text/parts.ts";
import { restOutcome, rpcOutcome } from "./outcome.ts";
import { readRecipient, restGroup, type SignalRecipient } from "./recipient.ts";
import { styledText } from "./styled.ts";

type Settings = PlatformSettings<"signal">;

/** Ours: Signal shows the start of longer ones, and the rest on demand. */
const TEXT_LIMIT = 4000;

/**
 * signal-cli's HTTP daemon, JSON-RPC method send (signal-cli-jsonrpc(5)), or signal-cli-rest-api, POST /v2/send. Styles
 * go beside the text. Repeats are not told apart.
 */
export const signal: Platform<Settings> = {
  name: "signal",
  missing: ({ base_url: baseUrl, account }) => [
    ...(baseUrl === undefined ? ["base_url (SIGNAL_HTTP_URL)"] : []),
    ...(account === undefined ? ["account (SIGNAL_ACCOUNT)"] : []),
  ],
  create({ base_url: baseUrl = "", account = "", home_channel: home, ...settings }, { clock, version }) {
    const call = createCall({ title: "Signal", baseUrl, clock, version });
    const post = settings.api === "rest" ? postRest : postRpc;
    return {
      name: "signal",
      ...(home === undefined ? {} : { home }),
      async send(delivery, options) {
        const message = readMessage("signal", delivery);
        if (!message) return { status: "permanent", error: "The message has no text." };
        const recipient = readRecipient(message);
        if (typeof recipient === "string") return { status: "permanent", error: recipient };
        const limit = settings.text_limit ?? TEXT_LIMIT;
        const parts = renderParts(message.text, { format: "signal", limit, unit: "utf16" });
        return sendParts(parts, { delivery, options }, (part, index) =>
          post({ call, account, recipient, id: `${delivery.id}-${index + 1}` }, part, options),
        );
      },
    };
  },
};

interface OutboxMessage {
  readonly call: Call;
  /** Who sends. */
  readonly account: string;
  readonly recipient: SignalRecipient;
  /** Of the request. */
  readonly id: string;
}

async function postRpc(
  { call, account, recipient, id }: OutboxMessage,
  { text, styles = [] }: Part,
  options: SendOptions,
): Promise<SendOutcome> {
  const body: SignalRpcRequest = {
    jsonrpc: "2.0",
    method: "send",
    id,
    params: {
      account,
      ...rpcRecipient(recipient),
      message: text,
      ...(styles.length > 0 ? { textStyle: [...styles] } : {}),
    },
  };
  const answer = await call("SignalRpcAnswer", (client) => client.signalRpcSend({ body }), options);
  return answer.kind === "none" ? answer.outcome : rpcOutcome(answer);
}

function rpcRecipient({
  kind,
  id,
}: SignalRecipient): Pick<SignalRpcRequest["params"], "recipient" | "groupId"> {
  if (kind === "group") return { groupId: id };
  return { recipient: [kind === "username" ? `u:${id}` : id] };
}

async function postRest(
  { call, account, recipient: { kind, id } }: OutboxMessage,
  part: Part,
  options: SendOptions,
): Promise<SendOutcome> {
  const styled = styledText(part);
  const body = {
    message: styled ?? part.text,
    number: account,
    recipients: [kind === "group" ? restGroup(id) : id],
    text_mode: styled === undefined ? ("normal" as const) : ("styled" as const),
  };
  const answer = await call("SignalRestAnswer", (client) => client.signalRestSend({ body }), options);
  return answer.kind === "none" ? answer.outcome : restOutcome(answer);
}
