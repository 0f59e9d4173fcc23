import { shorten } from "../../base/text.ts";
/** `agentd webhook subscribe`: writes a route into the subscriptions file, which a running gateway reloads. */
import { randomBytes } from "node:crypto";
import { rename } from "node:fs/promises";
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { prepareHome } from "../../config/home.ts";
import { platformsOf } from "../../deliver/address.ts";
import { platformProblems } from "../../deliver/platform/platforms.ts";
import {
  subscriptionName,
  subscriptionOf,
  type SubscribeInput,
  type Subscription,
} from "../../webhook/routes/subscription.ts";
import { changeSubscriptions } from "../../webhook/routes/files.ts";
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
import { checkEntry, openWebhookHome, receiverUrl, routeUrl, type WebhookHome } from "./home.ts";

const SECRET_BYTES = 32;
const SHOWN_CHARACTERS = 80;

export const subscribeCommand = defineCommand({
  meta: {
    name: "subscribe",
    description:
      "Create or change a subscription. Omitted options are reset to their defaults, except for the secret and keys that were added to the file by hand",
  },
  args: {
    name: requiredArgument("Name of the route in its URL: a-z, 0-9, - and _. Other characters are converted"),
    events: textOption("a,b", "Event types to accept. Default: all"),
    prompt: textOption("template", "Prompt template with {fields} of the payload. Default: the payload"),
    skill: textOption("name", "Skill to load. Repeatable"),
    skills: textOption("a,b", "Loads the first skill in the list that exists"),
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
      "Secret that signs requests, or env:NAME. Default: the current one, or a new one",
    ),
    script: textOption("file", "File in <home>/scripts that processes payloads first"),
    "retry-on-script-failure": switchOption(
      "Respond with 503 if the script fails, so that the sender retries",
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
    };
    checkInput(input, args.secret);
    const webhookHome = await openWebhookHome();
    refuseConfigured(webhookHome, name);
    const written = await write(webhookHome, { name, input, secret: args.secret });
    const names = platformsOf(args.deliver);
    for (const problem of await platformProblems(names, webhookHome.config, webhookHome.env))
      warn(`${problem}.`);
    if (args.json) printJson(jsonOf(webhookHome, name, written));
    else print(textOf(webhookHome, name, written));
  },
});

interface Written {
  readonly entry: Subscription;
  readonly secret: string;
  readonly isNew: boolean;
}

function nameOf(text: string): string {
  const name = subscriptionName(text);
  if (name !== undefined) return name;
  throw new UsageError(
    `Invalid name ${JSON.stringify(text)}. Use lowercase alphanumeric with hyphens/underscores.`,
  );
}

function checkInput({ deliverOnly, deliver, script, retriesScript }: SubscribeInput, secret?: string): void {
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
    for (const warning of checked.warnings) warn(`${name}: ${warning}`);
    written = { entry, secret, isNew: before === undefined };
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

function textOf({ settings }: WebhookHome, name: string, { entry, secret, isNew }: Written): string {
  const { events = [], prompt, script, deliver = "log" } = entry;
  const isDirect = entry.deliver_only === true;
  const url = routeUrl(receiverUrl(settings), name);
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
    "  The service must sign each body with HMAC-SHA256: X-Hub-Signature-256 or X-Webhook-Signature-V2.",
    `  Test it with \`agentd webhook test ${name}\`. A running gateway applies the change immediately.`,
  ].join("\n");
}

function jsonOf({ settings }: WebhookHome, name: string, { entry, secret, isNew }: Written) {
  const { secret: _, secrets: __, ...shown } = entry;
  return { name, url: routeUrl(receiverUrl(settings), name), secret, created: isNew, ...shown };
}
