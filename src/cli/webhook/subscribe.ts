/** `agentd webhook subscribe`: creates a route, or changes one. A running gateway applies it at once. */
import { shorten } from "../../base/text.ts";
import { rename } from "node:fs/promises";
import { ServiceError } from "../../base/errors.ts";
import { schemaAt } from "../../config/check.ts";
import type { Route } from "../../client/http.ts";
import { senderOf } from "../../webhook/routes/route.ts";
import {
  loadSubscriptions,
  subscriptionName,
  subscriptionsPath,
} from "../../webhook/routes/subscriptions.ts";
import type { Api } from "../kit/api.ts";
import { UsageError } from "../kit/arguments.ts";
import { defineApiCommand } from "../kit/command.ts";
import { currentContext } from "../kit/context.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { oneLine } from "../sessions/text.ts";
import {
  commaList,
  jsonOption,
  repeatedOption,
  requiredArgument,
  switchOption,
  textOption,
} from "../kit/options.ts";
import { readSecret, warnOfArgument } from "../kit/streams.ts";
import { listRoutes, withWebhooks } from "./routes.ts";

/** As the configuration schema lists them. */
const SCHEME_NAMES = optionsAt("scheme");
const AUTH_NAMES = optionsAt("auth");
const SHOWN_CHARACTERS = 80;

export const subscribeCommand = defineApiCommand({
  meta: {
    name: "subscribe",
    description:
      "Create or change a subscription. Omitted options are reset to their defaults, except for the secret and keys that were added to the file by hand",
  },
  args: {
    name: requiredArgument(
      "Name of the route in its URL: a-z, 0-9, - and _. Capitals and spaces are converted, other characters refused",
    ),
    events: textOption("a,b", "Event types to accept. Default: all"),
    prompt: textOption("template", "Prompt template with {fields} of the payload. Default: the payload"),
    skill: textOption("name", "Skill to load. Repeatable"),
    skills: textOption("a,b", "Load the first skill in the list that exists"),
    deliver: {
      type: "string",
      valueHint: "target",
      default: "log",
      description:
        "Where to send the answer: log, local, telegram, telegram:<chat>:<thread>, all and so on. Comma-separated",
    },
    "deliver-chat-id": textOption("id", "Chat id for targets without one"),
    "deliver-only": switchOption("Send the rendered prompt without running the agent"),
    description: textOption("text", "Description for people"),
    secret: textOption(
      "text",
      "Secret that signs requests, as env:NAME: other users of this machine see any other text in the process list. Default: the current one, or a new one",
    ),
    "secret-stdin": switchOption("Read that secret from standard input"),
    script: textOption("file", "File in <home>/scripts that processes payloads first"),
    "retry-on-script-failure": switchOption(
      "Respond with 503 if the script fails, so that the sender retries",
    ),
    scheme: {
      type: "enum",
      options: [...SCHEME_NAMES],
      description:
        "How the service signs. Default: as now, or auto, which recognizes GitHub, GitLab, Gitea, Bitbucket, Jira, Linear, Svix and Standard Webhooks",
    },
    signature: textOption(
      "name=value",
      "Part of the signature with --scheme custom, or where it differs: header, prefix, encoding, algorithm, signed, timestamp_header, timestamp_prefix or url. Repeatable",
    ),
    auth: {
      type: "enum",
      options: [...AUTH_NAMES],
      description:
        "How a service that does not sign sends the secret: bearer token, basic password, or in the path of the URL",
    },
    "verify-token": textOption(
      "text",
      "Verify token that the service sends with its GET request (meta), best as env:NAME",
    ),
    json: jsonOption,
  },
  async run({ args, rawArgs }) {
    const name = nameOf(args.name);
    const skills = [...repeatedOption(rawArgs, "skill"), ...commaList(args.skills)];
    const wanted: Wanted = {
      description: args.description || null,
      events: [...commaList(args.events)],
      prompt: args.prompt ?? null,
      skills,
      deliver: args.deliver,
      chatId: args["deliver-chat-id"] ?? null,
      deliver_only: args["deliver-only"] ? true : null,
      script: args.script ?? null,
      retry_on_script_failure: args["retry-on-script-failure"] ? true : null,
      scheme: args.scheme,
      signature: signatureOf(repeatedOption(rawArgs, "signature")),
      auth: args.auth,
      verify_token: args["verify-token"],
    };
    check(wanted, args);
    warnOfArgument("--secret", args.secret, "Pass --secret-stdin, or --secret env:NAME.");
    warnOfArgument("--verify-token", args["verify-token"], "Pass --verify-token env:NAME.");
    await withWebhooks(async (api) => {
      await setBrokenFileAside(api);
      const before = (await listRoutes(api)).find((route) => route.name === name);
      if (before?.source === "config") throw configured(name);
      const secret = args["secret-stdin"] ? await readSecret("--secret-stdin") : args.secret;
      const written = before
        ? await change(api, before, wanted, secret)
        : await create(api, name, wanted, secret);
      for (const issue of written.route.issues) warn(`${name}: ${issue.replace(/\.$/, "")}.`);
      warnOfSecret(written, secret);
      const { route, ...how } = written;
      if (args.json) printJson({ ...route, ...how });
      else print(textOf(written));
    });
  },
});

/** The fields of a route as the options set them. Null: not given, so the default applies. Undefined: as it was. */
interface Wanted {
  readonly description: string | null;
  readonly events: string[];
  readonly prompt: string | null;
  readonly skills: string[];
  readonly deliver: string;
  readonly chatId: string | null;
  readonly deliver_only: boolean | null;
  readonly script: string | null;
  readonly retry_on_script_failure: boolean | null;
  readonly scheme: string | undefined;
  readonly signature: Record<string, string> | undefined;
  readonly auth: string | undefined;
  readonly verify_token: string | undefined;
}

interface Written {
  readonly route: Route;
  /** Null: an earlier one, which is not shown again. */
  readonly secret: string | null;
  /** With the secret where the route takes it there, if it is known. */
  readonly url: string | null;
  readonly created: boolean;
}

async function create(
  { client }: Api,
  name: string,
  { chatId, ...fields }: Wanted,
  secret: string | undefined,
): Promise<Written> {
  const body = {
    name,
    ...fields,
    ...(secret === undefined ? {} : { secret }),
    deliver_extra: chatId === null ? null : { chat_id: chatId },
  };
  const { data: route } = await client.createRoute({ body });
  return { route, secret: route.secret, url: urlOf(route, route.secret), created: true };
}

/** Changes a route, and its secret when one is given: not before the rest is known to be valid. */
async function change(
  { client, ownedBy }: Api,
  { name, owner, signature: before }: Route,
  { chatId, signature, ...fields }: Wanted,
  secret: string | undefined,
): Promise<Written> {
  const request = {
    path: { route_name: name },
    headers: ownedBy(owner),
    body: {
      ...fields,
      deliver_extra: { chat_id: chatId },
      // The changes of one scheme mean nothing to another.
      ...(signature === undefined && fields.scheme === undefined
        ? {}
        : { signature: patchOf(before, signature) }),
    },
  };
  if (secret !== undefined) {
    const { path, headers } = request;
    await client.updateRoute({ ...request, query: { dry_run: true } });
    await client.rotateRouteSecret({ path, headers, body: { secret, expire_previous_seconds: 0 } });
  }
  const { data: route } = await client.updateRoute(request);
  return { route, secret: secret ?? null, url: urlOf(route, secret ?? null), created: false };
}

/** Returns the merge patch that replaces an object as a whole. */
function patchOf(before: object | null, after: object | undefined): Record<string, unknown> | null {
  if (after === undefined) return null;
  return { ...Object.fromEntries(Object.keys(before ?? {}).map((key) => [key, null])), ...after };
}

/** Returns the parts of a signature as the API has them. Undefined: none is given. */
function signatureOf(given: readonly string[]): Wanted["signature"] {
  if (given.length === 0) return undefined;
  return Object.fromEntries(
    given.map((text) => {
      const [, name, value] = /^(\w+)=(.*)$/s.exec(text) ?? [];
      if (name !== undefined && value !== undefined) return [name, value];
      throw new UsageError(`--signature must be name=value, not ${JSON.stringify(text)}.`);
    }),
  );
}

/** A service that makes the secret itself cannot use the one that was made here. */
function warnOfSecret({ route, created }: Written, given: string | undefined): void {
  const sender = senderOf(schemeOf(route));
  if (given !== undefined || !created || sender?.secretFrom !== "sender") return;
  const { name, has_verify_token: hasToken } = route;
  if (sender.handshake === "meta" && !hasToken)
    warn(
      "meta verifies the URL first: pass --verify-token with a text of your own, and give it the same text.",
    );
  if (sender.handshake === "notion")
    warn(
      `notion sends its verification token to the URL first. The gateway keeps it in <home>/webhook_verification/${name}.txt.`,
    );
  warn(
    `${sender.name} makes the secret itself. Pass it with \`agentd webhook subscribe ${name} --secret-stdin\`, or with --secret env:NAME after you set the variable.`,
  );
}

/** Returns how a route is signed, as the configuration has it. */
function schemeOf({ scheme, signature }: Route) {
  return { scheme, ...(signature === null ? {} : { signature }) } as Parameters<typeof senderOf>[0];
}

function optionsAt(key: "scheme" | "auth"): readonly string[] {
  return (schemaAt(["platforms", "webhook", "routes", "name", key])?.["enum"] ?? []) as readonly string[];
}

function nameOf(text: string): string {
  const name = subscriptionName(text);
  if (name !== undefined) return name;
  throw new UsageError(
    `Invalid name ${JSON.stringify(text)}. Use lowercase alphanumeric with hyphens/underscores.`,
  );
}

interface SecretOptions {
  readonly secret?: string | undefined;
  readonly "secret-stdin"?: boolean | undefined;
}

function check(
  { deliver_only: isDirect, deliver, script, retry_on_script_failure: retriesScript }: Wanted,
  { secret, "secret-stdin": readsSecret }: SecretOptions,
): void {
  if (secret !== undefined && readsSecret) throw new UsageError("Give either --secret or --secret-stdin.");
  if (secret === "") throw new UsageError("--secret is empty. Omit it to generate one.");
  if (isDirect && deliver === "log") {
    throw new UsageError("--deliver-only needs a real target: pass --deliver with a target other than log.");
  }
  if (retriesScript && script === null) {
    throw new UsageError("--retry-on-script-failure requires --script.");
  }
}

function configured(name: string): ServiceError {
  return new ServiceError(
    "invalid_config",
    `The configured route ${name} would override it. Choose another name, or edit that route.`,
  );
}

/** Renames an unreadable file of this machine: its secrets may still be needed. */
async function setBrokenFileAside({ target }: Api): Promise<void> {
  if (target) return;
  const path = subscriptionsPath(currentContext().home);
  const parsed = await loadSubscriptions(path);
  if (!("problem" in parsed)) return;
  const aside = `${path}.broken-${Date.now()}`;
  await rename(path, aside);
  warn(`${path} is invalid: ${parsed.problem}. Renamed it to ${aside} and started a new file.`);
}

function textOf({ route, secret, url, created }: Written): string {
  const { name, events, prompt, script, deliver, deliver_only: isDirect } = route;
  return [
    "",
    `  ${created ? "Created" : "Updated"} webhook subscription: ${name}`,
    `  URL:     ${url ?? "(the receiver has a random port)"}`,
    `  Secret:  ${secret ?? "(as before)"}`,
    `  Events:  ${events.length > 0 ? oneLine(events.join(", ")) : "(all)"}`,
    `  Deliver: ${oneLine(deliver)}`,
    ...(isDirect ? ["  Mode:    direct delivery (no agent, zero LLM cost)"] : []),
    ...(prompt === null
      ? []
      : [`  ${isDirect ? "Message:" : "Prompt: "} ${shorten(oneLine(prompt), SHOWN_CHARACTERS)}`]),
    ...(script === null ? [] : [`  Script:  ${oneLine(script)}`]),
    "",
    "  Configure the service with this URL, using a public host name of this machine, and the secret.",
    `  ${proofText(route)}`,
    `  Test it with \`agentd webhook test ${name}\`. A running gateway applies the change immediately.`,
  ].join("\n");
}

function urlOf({ auth, url }: Route, secret: string | null): string | null {
  return auth === "path" && url !== null && secret !== null ? `${url}/${encodeURIComponent(secret)}` : url;
}

function proofText(route: Route): string {
  const { auth } = route;
  const sender = senderOf(schemeOf(route));
  if (sender) return `Requests must have the signature of ${sender.name} in the header ${sender.header}.`;
  if (auth === "path") return "The URL has the secret: anyone who knows it can send events.";
  const signed = "sign each body with HMAC-SHA256: X-Hub-Signature-256 or X-Webhook-Signature-V2";
  if (auth === "bearer") return `The service must send the secret as a bearer token, or ${signed}.`;
  if (auth === "basic")
    return `The service must send the secret as the password of basic authentication, or ${signed}.`;
  return `The service must ${signed}.`;
}
