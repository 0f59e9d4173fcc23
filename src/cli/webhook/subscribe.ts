/** `agentd webhook subscribe`: writes a route into the subscriptions file, which a running gateway reloads. */
import { shorten } from "../../base/text.ts";
import { randomBytes } from "node:crypto";
import { rename } from "node:fs/promises";
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { prepareHome } from "../../config/home.ts";
import { schemaAt } from "../../config/check.ts";
import { type WebhookRoute, findDeliveryGaps, receiverUrl, routeUrl } from "../../webhook/routes/route.ts";
import { platformsOf } from "../../deliver/address.ts";
import { platformProblems } from "../../deliver/platform/platforms.ts";
import {
  subscriptionName,
  subscriptionOf,
  type SubscribeInput,
  type Subscription,
  changeSubscriptions,
  checkEntry,
  problemsOf,
} from "../../webhook/routes/subscriptions.ts";
import { UsageError } from "../kit/arguments.ts";
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
import { openWebhookHome, recordRouteChange, type WebhookHome } from "./home.ts";

/** As the configuration schema lists them. */
const SCHEME_NAMES = optionsAt("scheme");
const AUTH_NAMES = optionsAt("auth");
const SECRET_BYTES = 32;
const SHOWN_CHARACTERS = 80;

export const subscribeCommand = defineCommand({
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
    const input: SubscribeInput = {
      description: args.description,
      events: commaList(args.events),
      prompt: args.prompt,
      skills,
      deliver: args.deliver,
      chatId: args["deliver-chat-id"],
      deliverOnly: args["deliver-only"] === true,
      script: args.script,
      retriesScript: args["retry-on-script-failure"] === true,
      scheme: args.scheme as SubscribeInput["scheme"],
      signature: signatureOf(repeatedOption(rawArgs, "signature")),
      auth: args.auth as SubscribeInput["auth"],
      verifyToken: args["verify-token"],
    };
    checkInput(input, args);
    const webhookHome = await openWebhookHome();
    refuseConfigured(webhookHome, name);
    warnOfArgument("--secret", args.secret, "Pass --secret-stdin, or --secret env:NAME.");
    warnOfArgument("--verify-token", args["verify-token"], "Pass --verify-token env:NAME.");
    const secret = args["secret-stdin"] ? await readSecret("--secret-stdin") : args.secret;
    const written = await write(webhookHome, { name, input, secret });
    await recordRouteChange(written.isNew ? "route.created" : "route.updated", name, written.entry);
    const names = platformsOf(args.deliver);
    for (const problem of await platformProblems(names, webhookHome.config, webhookHome.env))
      warn(`${problem}.`);
    for (const gap of findDeliveryGaps(written.route)) warn(`${gap}: add them to ${webhookHome.path}.`);
    warnOfSecret(name, written, secret);
    if (args.json) printJson(jsonOf(webhookHome, name, written));
    else print(textOf(webhookHome, name, written));
  },
});

interface Written {
  readonly entry: Subscription;
  readonly secret: string;
  readonly isNew: boolean;
  readonly route: WebhookRoute;
}

/** Returns the parts of a signature as the file has them. Undefined: none is given. */
function signatureOf(given: readonly string[]): SubscribeInput["signature"] {
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
function warnOfSecret(name: string, { route, isNew }: Written, given: string | undefined): void {
  if (given !== undefined || !isNew || route.sender?.secretFrom !== "sender") return;
  const { handshake } = route.sender;
  if (handshake === "meta" && route.verifyToken === undefined)
    warn(
      "meta verifies the URL first: pass --verify-token with a text of your own, and give it the same text.",
    );
  if (handshake === "notion")
    warn(
      `notion sends its verification token to the URL first. The gateway keeps it in <home>/webhook_verification/${name}.txt.`,
    );
  warn(
    `${route.sender.name} makes the secret itself. Pass it with \`agentd webhook subscribe ${name} --secret-stdin\`, or with --secret env:NAME after you set the variable.`,
  );
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

function checkInput(
  { deliverOnly, deliver, script, retriesScript }: SubscribeInput,
  { secret, "secret-stdin": readsSecret }: SecretOptions,
): void {
  if (secret !== undefined && readsSecret) throw new UsageError("Give either --secret or --secret-stdin.");
  if (secret === "") throw new UsageError("--secret is empty. Omit it to generate one.");
  if (deliverOnly && deliver === "log") {
    throw new UsageError("--deliver-only needs a real target: pass --deliver with a target other than log.");
  }
  if (retriesScript && script === undefined) {
    throw new UsageError("--retry-on-script-failure requires --script.");
  }
}

function refuseConfigured({ settings }: WebhookHome, name: string): void {
  if (!Object.hasOwn(settings.routes, name)) return;
  throw new ServiceError(
    "invalid_config",
    `The configured route ${name} would override it. Choose another name, or edit that route.`,
  );
}

/** Writes the subscription under a file lock: concurrent subscriptions are all kept. */
async function write(
  webhookHome: WebhookHome,
  {
    name,
    input,
    secret: given,
  }: { readonly name: string; input: SubscribeInput; secret: string | undefined },
): Promise<Written> {
  await prepareHome(webhookHome.home);
  await setAside(webhookHome);
  let written: Written | undefined;
  await changeSubscriptions(webhookHome.path, (subscriptions) => {
    const before = Object.hasOwn(subscriptions, name) ? subscriptions[name] : undefined;
    // A hand-edited file may have several valid secrets. Show the first one.
    const known = before?.secret || before?.secrets?.[0];
    const secret = given ?? known ?? randomBytes(SECRET_BYTES).toString("base64url");
    const createdAt = new Date().toISOString();
    const entry = subscriptionOf(input, { before, secret, createdAt });
    const checked = checkEntry(name, entry, webhookHome.defaults);
    if ("problems" in checked) {
      throw new ServiceError(
        "invalid_config",
        `The subscription ${name} is invalid: ${checked.problems.join("; ")}. Nothing was written.`,
      );
    }
    for (const warning of problemsOf(checked)) warn(`${name}: ${warning}`);
    written = { entry, secret, isNew: before === undefined, route: checked.route };
    return { ...subscriptions, [name]: entry };
  });
  if (!written) throw new Error("The subscriptions file was not changed.");
  return written;
}

/** Renames an unreadable file: its secrets may still be needed. */
async function setAside({ path, problem }: WebhookHome): Promise<void> {
  if (problem === undefined) return;
  const aside = `${path}.broken-${Date.now()}`;
  await rename(path, aside);
  warn(`${path} is invalid: ${problem}. Renamed it to ${aside} and started a new file.`);
}

function textOf(webhookHome: WebhookHome, name: string, written: Written): string {
  const { entry, secret, isNew, route } = written;
  const { events = [], prompt, script, deliver = "log" } = entry;
  const isDirect = entry.deliver_only === true;
  const url = urlOf(webhookHome, name, written);
  return [
    "",
    `  ${isNew ? "Created" : "Updated"} webhook subscription: ${name}`,
    `  URL:     ${url}`,
    `  Profile: ${currentContext().env["AGENTD_PROFILE"] || "default"}`,
    `  Secret:  ${secret}`,
    `  Events:  ${events.length > 0 ? oneLine(events.join(", ")) : "(all)"}`,
    `  Deliver: ${oneLine(deliver)}`,
    ...(isDirect ? ["  Mode:    direct delivery (no agent, zero LLM cost)"] : []),
    ...(prompt === undefined
      ? []
      : [`  ${isDirect ? "Message:" : "Prompt: "} ${shorten(oneLine(prompt), SHOWN_CHARACTERS)}`]),
    ...(script === undefined ? [] : [`  Script:  ${oneLine(script)}`]),
    "",
    "  Configure the service with this URL, using a public host name of this machine, and the secret.",
    `  ${proofText(route)}`,
    `  Test it with \`agentd webhook test ${name}\`. A running gateway applies the change immediately.`,
  ].join("\n");
}

/** Returns the URL of the route, with the secret where the route takes it there. */
function urlOf({ settings }: WebhookHome, name: string, { route }: Written): string {
  const url = routeUrl(receiverUrl(settings), name);
  const [secret] = route.secrets === "none" ? [] : route.secrets;
  return route.auth === "path" && secret !== undefined ? `${url}/${encodeURIComponent(secret)}` : url;
}

function proofText({ sender, auth }: WebhookRoute): string {
  if (sender) return `Requests must have the signature of ${sender.name} in the header ${sender.header}.`;
  if (auth === "path") return "The URL has the secret: anyone who knows it can send events.";
  const signed = "sign each body with HMAC-SHA256: X-Hub-Signature-256 or X-Webhook-Signature-V2";
  if (auth === "bearer") return `The service must send the secret as a bearer token, or ${signed}.`;
  if (auth === "basic")
    return `The service must send the secret as the password of basic authentication, or ${signed}.`;
  return `The service must ${signed}.`;
}

function jsonOf(webhookHome: WebhookHome, name: string, written: Written) {
  const { secret, isNew, entry } = written;
  const { secret: _, secrets: __, verify_token: ___, ...shown } = entry;
  return { name, url: urlOf(webhookHome, name, written), secret, created: isNew, ...shown };
}
