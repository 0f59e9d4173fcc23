/** `agentd webhook test`: sends a signed request to a route of the running gateway, or does a dry run. */
import { readFile } from "node:fs/promises";
import process from "node:process";
import { buffer } from "node:stream/consumers";
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { createId } from "../../base/text.ts";
import { defaultEventOf, exampleBody, testHeaders } from "../../webhook/deliveries/replay.ts";
import type { WebhookRoute } from "../../webhook/routes/route.ts";
import { subscriptionName } from "../../webhook/routes/subscriptions.ts";
import { UsageError } from "../kit/arguments.ts";
import { print, printJson } from "../kit/output.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { jsonOption, repeatedOption, requiredArgument, switchOption, textOption } from "../kit/options.ts";
import {
  openWebhookHome,
  routeNamed,
  signedRequest,
  targetUrl,
  type WebhookHome,
  type Posted,
  post,
} from "./home.ts";
import { answerText, evaluationJson, evaluationText } from "./text.ts";

const MAX_FILE_BYTES = 104_857_600;

export const testCommand = defineCommand({
  meta: {
    name: "test",
    description:
      "Send a signed test request to a route of the running gateway. Exits with 0 for a 2xx response",
  },
  args: {
    name: requiredArgument("Name of the route"),
    payload: textOption("json", "Request body. Default: a small example"),
    file: textOption("path", "Read the request body from a file, or from standard input for -"),
    event: textOption(
      "type",
      "Event type. Default: the first that the route accepts, or test when it accepts all",
    ),
    header: textOption("'name: value'", "Additional header. Repeatable"),
    url: textOption("url", "Address of the receiver. Default: this machine"),
    "dry-run": switchOption(
      "Send nothing. Print the result of each stage and the rendered prompt. The script of the route runs",
    ),
    json: jsonOption,
  },
  async run({ args, rawArgs }) {
    const given = repeatedOption(rawArgs, "header").map(headerOf);
    const webhookHome = await openWebhookHome();
    const route = findRoute(webhookHome, args.name);
    const defaultEvent = defaultEventOf(route);
    const body = await bodyOf(args, args.event ?? defaultEvent);
    const headers = testHeaders(Object.fromEntries(given), { event: args.event, defaultEvent });
    if (args["dry-run"]) {
      const request = { route, headers: new Headers(headers), body, requestId: createId("req") };
      const { dryRunRequest } = await import("./dry-run.ts");
      const evaluated = await dryRunRequest(request);
      if (args.json) printJson(evaluationJson(evaluated));
      else print(evaluationText(evaluated));
      return;
    }
    const signed = signedRequest(route, targetUrl(webhookHome, args.url), body);
    if (!args.json) print(`  Sending test POST to ${signed.shownUrl}`);
    const posted = await post({ url: signed.url, headers: { ...signed.headers, ...headers }, body });
    if (args.json) printJson({ url: signed.shownUrl, ...posted });
    else print(answerText(posted));
    if (!isGood(posted)) process.exitCode = EXIT_FAILURE;
  },
});

/** Finds the route as typed, otherwise as `subscribe` would normalize its name. */
export function findRoute(webhookHome: WebhookHome, text: string): WebhookRoute {
  const { settings, subscriptions } = webhookHome;
  const isThere = Object.hasOwn(settings.routes, text) || Object.hasOwn(subscriptions, text);
  return routeNamed(webhookHome, isThere ? text : (subscriptionName(text) ?? text));
}

async function bodyOf(
  { payload, file }: { readonly payload?: string | undefined; readonly file?: string | undefined },
  event: string,
): Promise<Uint8Array<ArrayBuffer>> {
  if (payload !== undefined && file !== undefined)
    throw new UsageError("--payload and --file cannot be combined.");
  if (file !== undefined) return readBytes(file);
  if (payload === undefined) return exampleBody(event);
  try {
    JSON.parse(payload);
  } catch {
    throw new UsageError("--payload must be JSON. Use --file to send anything else.");
  }
  return new TextEncoder().encode(payload);
}

/** Reads a file, or standard input for `-`. */
export async function readBytes(file: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    const bytes = file === "-" ? await buffer(process.stdin) : await readFile(file);
    if (bytes.length > MAX_FILE_BYTES) throw new UsageError(`The file exceeds ${MAX_FILE_BYTES} bytes.`);
    return new Uint8Array(bytes);
  } catch (error) {
    if (error instanceof UsageError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new ServiceError("not_found", `Cannot read ${JSON.stringify(file)}: ${reason}.`);
  }
}

function headerOf(text: string): readonly [string, string] {
  const [, name = "", value = ""] = /^([!#$%&'*+.^_`|~\w-]+):[ \t]*(.*)$/s.exec(text) ?? [];
  // oxlint-disable-next-line no-control-regex -- control characters are what it looks for
  if (name !== "" && !/[\u0000-\u0008\u000a-\u001f\u007f]|[^\u0000-\u00ff]/.test(value)) {
    return [name.toLowerCase(), value.trim()];
  }
  throw new UsageError(`--header must be 'name: value', not ${JSON.stringify(text)}.`);
}

export function isGood(posted: Posted): boolean {
  return posted.status !== undefined && posted.status >= 200 && posted.status < 300;
}
