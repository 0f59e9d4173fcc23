/** `agentd webhook subscribe`: writes a route into the file of subscriptions, which a running gateway reads again. */
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
import { changeSubscriptions } from "../../webhook/routes/subscriptions.ts";
import { UsageError } from "../kit/arguments.ts";
import { currentContext } from "../kit/context.ts";
import { print, printJson, warn } from "../kit/output.ts";
import { oneLine } from "../sessions/text.ts";
import { commaList, jsonOption, repeatedOption } from "../kit/options.ts";
import { checkEntry, openWebhookHome, receiverUrl, routeUrl, type WebhookHome } from "./home.ts";

const SECRET_BYTES = 32;
const SHOWN_CHARACTERS = 80;

export const subscribeCommand = defineCommand({
  meta: {
    name: "subscribe",
    description:
      "Make a route for the events of a service, or change it: what is not said goes back to its default, but for the secret and what a hand wrote into the file",
  },
  args: {
    name: {
      type: "positional",
      required: true,
      description: "Of the route, in its URL: a-z, 0-9, - and _; others are made to fit",
    },
    events: {
      type: "string",
      valueHint: "a,b",
      description: "Kinds of events that are taken; without it all",
    },
    prompt: {
      type: "string",
      valueHint: "template",
      description: "What the agent is told, with {fields} of the payload; without it the payload itself",
    },
    skill: { type: "string", valueHint: "name", description: "Skill that is loaded; may be given again" },
    skills: { type: "string", valueHint: "a,b", description: "The first of these that there is is loaded" },
    deliver: {
      type: "string",
      valueHint: "target",
      default: "log",
      description:
        "Where the answer goes: log, local, telegram, telegram:<chat>:<thread>, all ...; several with commas between them",
    },
    "deliver-chat-id": { type: "string", valueHint: "id", description: "Chat at targets that name none" },
    "deliver-only": { type: "boolean", description: "Send the prompt's text itself, without the agent" },
    description: { type: "string", valueHint: "text", description: "For people" },
    secret: {
      type: "string",
      valueHint: "text",
      description: "Proves who sends, or env:NAME; without it the one there is, or a new one",
    },
    script: {
      type: "string",
      valueHint: "file",
      description: "File in <home>/scripts that sees payloads first",
    },
    "retry-on-script-failure": {
      type: "boolean",
      description: "Answer 503 when the script fails, so that the service tries again",
    },
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
    const place = await openWebhookHome();
    refuseConfigured(place, name);
    const made = await write(place, { name, input, secret: args.secret });
    const names = platformsOf(args.deliver);
    for (const problem of await platformProblems(names, place.config, place.env)) warn(`${problem}.`);
    if (args.json) printJson(jsonOf(place, name, made));
    else print(textOf(place, name, made));
  },
});

interface Made {
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
  if (secret === "") throw new UsageError("--secret is empty. Leave it out to have one made.");
  if (deliverOnly && deliver === "log") {
    throw new UsageError("--deliver-only needs a real target: give --deliver another than log.");
  }
  if (retriesScript && script === undefined) {
    throw new UsageError("--retry-on-script-failure needs --script.");
  }
}

function refuseConfigured({ settings }: WebhookHome, name: string): void {
  if (!Object.hasOwn(settings.routes, name)) return;
  throw new ServiceError(
    "invalid_config",
    `The configuration has a route ${name}, which would count instead. Choose another name, or edit that route.`,
  );
}

/** Under the lock of the file, so that two who subscribe at once both stay. */
async function write(
  place: WebhookHome,
  {
    name,
    input,
    secret: given,
  }: { readonly name: string; input: SubscribeInput; secret: string | undefined },
): Promise<Made> {
  await prepareHome(place.home);
  await setAside(place);
  let made: Made | undefined;
  await changeSubscriptions(place.path, (subscriptions) => {
    const before = Object.hasOwn(subscriptions, name) ? subscriptions[name] : undefined;
    // In the file by hand there may be several that are good; the first is the one that is told.
    const known = before?.secret || before?.secrets?.[0];
    const secret = given ?? known ?? randomBytes(SECRET_BYTES).toString("base64url");
    const createdAt = new Date().toISOString();
    const entry = subscriptionOf(input, { before, secret, createdAt });
    const checked = checkEntry(name, entry, place.defaults);
    if ("problems" in checked) {
      throw new ServiceError("invalid_config", `${name} was not written: ${checked.problems.join("; ")}.`);
    }
    for (const warning of checked.warnings) warn(`${name}: ${warning}`);
    made = { entry, secret, isNew: before === undefined };
    return { ...subscriptions, [name]: entry };
  });
  if (!made) throw new Error("the file of subscriptions was not changed");
  return made;
}

/** A file that nobody can read is kept beside: its secrets may still be wanted. */
async function setAside({ path, problem }: WebhookHome): Promise<void> {
  if (problem === undefined) return;
  const aside = `${path}.broken-${Date.now()}`;
  await rename(path, aside);
  warn(`${path} could not be used: ${problem}. It is now ${aside}, and a new one was begun.`);
}

function textOf({ settings }: WebhookHome, name: string, { entry, secret, isNew }: Made): string {
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
    ...(prompt === undefined ? [] : [`  ${isDirect ? "Message:" : "Prompt: "} ${shortened(prompt)}`]),
    ...(script === undefined ? [] : [`  Script:  ${oneLine(script)}`]),
    "",
    "  Give the service the URL, under the name by which it reaches this machine, and the secret.",
    "  It signs each request with HMAC-SHA256 of the body: X-Hub-Signature-256, or X-Webhook-Signature-V2.",
    `  Try it with \`agentd webhook test ${name}\`; a running gateway takes it up at once.`,
  ].join("\n");
}

function jsonOf({ settings }: WebhookHome, name: string, { entry, secret, isNew }: Made) {
  const { secret: _, secrets: __, ...shown } = entry;
  return { name, url: routeUrl(receiverUrl(settings), name), secret, created: isNew, ...shown };
}

function shortened(text: string): string {
  const line = oneLine(text);
  return line.length > SHOWN_CHARACTERS ? `${Array.from(line).slice(0, SHOWN_CHARACTERS).join("")}…` : line;
}
