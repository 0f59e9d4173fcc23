/**
 * How senders sign their requests, as data: a row for each sender, from its public documentation. Pure.
 *
 * A sender that is not here gets a row of its own from the configuration, with `scheme: custom`.
 */
import type { WebhookRouteConfig, WebhookSignatureConfig } from "../../../generated/config/types.gen.ts";

/** Where a signature is and what it covers. Header names in lower case. */
export interface SignatureScheme {
  /** The name of the preset, or `custom`. */
  readonly name: string;
  /**
   * mac: the HMAC of `signed`. token: the header is the secret itself. form: the HMAC of the URL with the sorted fields of
   * the form behind it.
   */
  readonly kind: "mac" | "token" | "form";
  readonly header: string;
  /** Precedes each signature in the header, which separates several values by commas. */
  readonly prefix: string;
  readonly encoding: "hex" | "base64";
  readonly algorithm: "sha1" | "sha256" | "sha512";
  /** The signed text: `{body}`, with `{timestamp}` and `{url}` where the sender signs them. */
  readonly signed: string;
  /** The header with the time, or the prefix of the time among the values of the signature header. */
  readonly timestampHeader?: string | undefined;
  readonly timestampPrefix?: string | undefined;
  /** The URL as the sender knows it. */
  readonly url?: string | undefined;
}

/** The first request of a sender, which wants an answer of its own. */
export type Handshake = "slack" | "zoom" | "meta" | "notion";

/** A sender: its signature, and where its payload names the event. */
export interface Sender extends SignatureScheme {
  /** Fields of the payload, dotted paths, in the order in which they are looked up. */
  readonly eventFields: readonly string[];
  /** The field of the payload that is the same for every attempt at a delivery. */
  readonly idField?: string;
  readonly handshake?: Handshake;
  /** True: the sender takes any other status than 200 for a failure, and sends the event again. */
  readonly wants200?: boolean;
  /** Who chooses the secret. */
  readonly secretFrom: "sender" | "you";
  /** What is weak about the scheme, a sentence. */
  readonly warning?: string;
}

const MAC = {
  kind: "mac",
  prefix: "",
  encoding: "hex",
  algorithm: "sha256",
  signed: "{body}",
  eventFields: [],
  secretFrom: "sender",
} as const satisfies Partial<Sender>;

const PRESETS = {
  // support.atlassian.com/bitbucket-cloud: "Manage webhooks", secure webhooks
  bitbucket: { ...MAC, header: "x-hub-signature", prefix: "sha256=", secretFrom: "you" },
  // developer.atlassian.com/cloud/jira: "Webhooks", secure admin webhooks
  jira: {
    ...MAC,
    header: "x-hub-signature",
    prefix: "sha256=",
    secretFrom: "you",
    eventFields: ["webhookEvent"],
  },
  // docs.stripe.com/webhooks: "Verify webhook signatures manually"
  stripe: {
    ...MAC,
    header: "stripe-signature",
    prefix: "v1=",
    timestampPrefix: "t=",
    signed: "{timestamp}.{body}",
    idField: "id",
  },
  // api.slack.com/authentication/verifying-requests-from-slack
  slack: {
    ...MAC,
    header: "x-slack-signature",
    prefix: "v0=",
    timestampHeader: "x-slack-request-timestamp",
    signed: "v0:{timestamp}:{body}",
    eventFields: ["event.type", "type", "command"],
    idField: "event_id",
    handshake: "slack",
  },
  // shopify.dev: "Verify webhook deliveries"
  shopify: { ...MAC, header: "x-shopify-hmac-sha256", encoding: "base64", wants200: true },
  // docs.sentry.io: "Integration platform webhooks"
  sentry: { ...MAC, header: "sentry-hook-signature" },
  // developers.notion.com/reference/webhooks
  notion: { ...MAC, header: "x-notion-signature", prefix: "sha256=", idField: "id", handshake: "notion" },
  // developers.zoom.us/docs/api/webhooks: "Verify webhook events"
  zoom: {
    ...MAC,
    header: "x-zm-signature",
    prefix: "v0=",
    timestampHeader: "x-zm-request-timestamp",
    signed: "v0:{timestamp}:{body}",
    eventFields: ["event"],
    handshake: "zoom",
    wants200: true,
  },
  // developer.pagerduty.com: "Verifying webhook signatures"
  pagerduty: {
    ...MAC,
    header: "x-pagerduty-signature",
    prefix: "v1=",
    eventFields: ["event.event_type"],
    idField: "event.id",
  },
  // twilio.com/docs/usage/security: "Validating requests are coming from Twilio"
  twilio: {
    ...MAC,
    kind: "form",
    header: "x-twilio-signature",
    encoding: "base64",
    algorithm: "sha1",
    signed: "{url}",
    eventFields: ["EventType", "MessageStatus", "SmsStatus", "CallStatus"],
    warning: "Twilio signs with SHA-1 and does not sign the time: anyone who sees a request can replay it.",
  },
  // developers.facebook.com/docs/graph-api/webhooks: "Validating payloads"
  meta: {
    ...MAC,
    header: "x-hub-signature-256",
    prefix: "sha256=",
    eventFields: ["object"],
    handshake: "meta",
    wants200: true,
  },
  // docs.gitea.com/usage/webhooks
  gitea: { ...MAC, header: "x-gitea-signature", secretFrom: "you" },
  // gogs.io/docs/features/webhook
  gogs: { ...MAC, header: "x-gogs-signature", secretFrom: "you" },
  // grafana.com/docs: "Configure webhook notifications", HMAC signature
  grafana: { ...MAC, header: "x-grafana-alerting-signature", secretFrom: "you", eventFields: ["status"] },
  // linear.app/developers/webhooks
  linear: { ...MAC, header: "linear-signature", wants200: true },
  // core.telegram.org/bots/api#setwebhook, secret_token
  telegram: {
    ...MAC,
    kind: "token",
    header: "x-telegram-bot-api-secret-token",
    secretFrom: "you",
    idField: "update_id",
  },
  // vercel.com/docs/webhooks/webhooks-api: "Securing webhooks"
  vercel: {
    ...MAC,
    header: "x-vercel-signature",
    algorithm: "sha1",
    idField: "id",
    warning: "Vercel signs with SHA-1 and does not sign the time: anyone who sees a request can replay it.",
  },
} as const satisfies Readonly<Record<string, Omit<Sender, "name">>>;

/** The presets, by name. */
export const SENDERS: ReadonlyMap<string, Sender> = new Map(
  Object.entries(PRESETS).map(([name, preset]): [string, Sender] => [name, { name, ...preset }]),
);

/** A signature by Grafana covers the time when its settings name a header for it, whatever the name. */
const GRAFANA_TIMED = "{timestamp}:{body}";
const CUSTOM_TIMED = "{timestamp}.{body}";

export type ResolvedScheme = { readonly sender?: Sender } | { readonly problems: readonly string[] };

/** Returns the sender that a route names, with the changes of its `signature`, or what is wrong, a clause each. */
export function resolveScheme({
  scheme = "auto",
  signature: written,
  auth = "signature",
}: Pick<Partial<WebhookRouteConfig>, "scheme" | "signature" | "auth">): ResolvedScheme {
  if (scheme === "auto") {
    return written ? { problems: ["signature needs a scheme; set scheme to custom, or to a preset"] } : {};
  }
  if (auth !== "signature") {
    return { problems: [`auth ${auth} does not go with the scheme ${scheme}; take one out`] };
  }
  const preset = SENDERS.get(scheme);
  if (!preset && written?.header === undefined) return { problems: ["scheme custom needs signature.header"] };
  const sender = changed(preset ?? { ...MAC, name: "custom", header: "" }, written);
  const problems = findProblems(sender);
  return problems.length > 0 ? { problems } : { sender };
}

function changed(base: Sender, written: WebhookSignatureConfig | undefined): Sender {
  if (!written) return base;
  const { header, timestamp_header: timeHeader, timestamp_prefix: timePrefix, ...rest } = written;
  const isTimed = timeHeader !== undefined || timePrefix !== undefined;
  const timed = base.name === "grafana" ? GRAFANA_TIMED : CUSTOM_TIMED;
  return {
    ...base,
    ...(isTimed && base.signed === "{body}" ? { signed: timed } : {}),
    ...rest,
    ...(header === undefined ? {} : { header: header.toLowerCase() }),
    ...(timeHeader === undefined
      ? {}
      : { timestampHeader: timeHeader.toLowerCase(), timestampPrefix: undefined }),
    ...(timePrefix === undefined ? {} : { timestampPrefix: timePrefix, timestampHeader: undefined }),
  };
}

const FIELDS = /\{(\w*)\}/g;

function findProblems({
  kind,
  signed,
  timestampHeader,
  timestampPrefix,
  url,
  prefix,
}: Sender): readonly string[] {
  const fields = [...signed.matchAll(FIELDS)].map(([, name = ""]) => name);
  const isTimed = timestampHeader !== undefined || timestampPrefix !== undefined;
  const unknown = fields.find((name) => !["body", "timestamp", "url"].includes(name));
  const problems: string[] = [];
  if (unknown !== undefined) problems.push(`signature.signed has the unknown field {${unknown}}`);
  if (kind === "mac" && fields.filter((name) => name === "body").length !== 1)
    problems.push("signature.signed needs {body}, once");
  if (isTimed !== fields.includes("timestamp"))
    problems.push("signature.signed needs {timestamp}, and a timestamp_header or timestamp_prefix with it");
  if (fields.includes("url") && url === undefined)
    problems.push("signature.url is missing: set the URL as the sender knows it");
  if (timestampPrefix !== undefined && timestampPrefix === prefix)
    problems.push("signature.timestamp_prefix must differ from prefix");
  return problems;
}
