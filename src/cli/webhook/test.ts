/** `agentd webhook test`: a signed request to a route of the running receiver, or what would become of it. */
import { readFile } from "node:fs/promises";
import process from "node:process";
import { buffer } from "node:stream/consumers";
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { createId } from "../../base/ids.ts";
import { WEBHOOK_SOURCES } from "../../webhook/receive/source.ts";
import type { WebhookRoute } from "../../webhook/routes/route.ts";
import { subscriptionName } from "../../webhook/routes/subscription.ts";
import { UsageError } from "../kit/arguments.ts";
import { print, printJson } from "../kit/output.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { jsonOption, repeatedOption } from "../kit/options.ts";
import {
  openWebhookHome,
  routeNamed,
  routeUrl,
  targetUrl,
  type WebhookHome,
  postSigned,
  type Posted,
} from "./home.ts";
import { answerText, evaluationJson, evaluationText } from "./text.ts";

const DEFAULT_EVENT = "test";
const DEFAULT_PAYLOAD = { test: true, event_type: "test", message: "Hello from agentd webhook test" };
const MAX_FILE_BYTES = 104_857_600;

export const testCommand = defineCommand({
  meta: {
    name: "test",
    description:
      "Send a signed request to a route of the running gateway; exit code 0 when it is answered with 2xx",
  },
  args: {
    name: { type: "positional", required: true, description: "Name of the route" },
    payload: { type: "string", valueHint: "json", description: "Body; without it a small example" },
    file: {
      type: "string",
      valueHint: "path",
      description: "Body from a file as it is; - for standard input",
    },
    event: { type: "string", valueHint: "type", description: `Kind of the event (default ${DEFAULT_EVENT})` },
    header: {
      type: "string",
      valueHint: "'name: value'",
      description: "Further header; may be given again",
    },
    url: {
      type: "string",
      valueHint: "url",
      description: "Address of the receiver; without it this machine's",
    },
    "dry-run": {
      type: "boolean",
      description: "Send nothing: show each stage and what would be told; the route's script does run",
    },
    json: jsonOption,
  },
  async run({ args, rawArgs }) {
    const body = await bodyOf(args);
    const headers = headersOf(repeatedOption(rawArgs, "header"), args.event);
    const place = await openWebhookHome();
    const route = findRoute(place, args.name);
    if (args["dry-run"]) {
      const request = { route, headers: new Headers(headers), body, requestId: createId("req") };
      const { rehearseRequest } = await import("./rehearsal.ts");
      const evaluated = await rehearseRequest(request);
      if (args.json) printJson(evaluationJson(evaluated));
      else print(evaluationText(evaluated));
      return;
    }
    const url = routeUrl(targetUrl(place, args.url), route.name);
    if (!args.json) print(`  Sending test POST to ${url}`);
    const posted = await postSigned({ url, route, headers, body });
    if (args.json) printJson({ url, ...posted });
    else print(answerText(posted));
    if (!isGood(posted)) process.exitCode = EXIT_FAILURE;
  },
});

/** As it is written, else as subscribe would have written it. */
function findRoute(place: WebhookHome, text: string): WebhookRoute {
  const { settings, subscriptions } = place;
  const isThere = Object.hasOwn(settings.routes, text) || Object.hasOwn(subscriptions, text);
  return routeNamed(place, isThere ? text : (subscriptionName(text) ?? text));
}

async function bodyOf({
  payload,
  file,
}: {
  readonly payload?: string | undefined;
  readonly file?: string | undefined;
}): Promise<Uint8Array<ArrayBuffer>> {
  if (payload !== undefined && file !== undefined)
    throw new UsageError("Give --payload or --file, not both.");
  if (file !== undefined) return readBytes(file);
  if (payload === undefined) return new TextEncoder().encode(JSON.stringify(DEFAULT_PAYLOAD));
  try {
    JSON.parse(payload);
  } catch {
    throw new UsageError("--payload must be JSON. What is something else can be sent with --file.");
  }
  return new TextEncoder().encode(payload);
}

async function readBytes(file: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    const bytes = file === "-" ? await buffer(process.stdin) : await readFile(file);
    if (bytes.length > MAX_FILE_BYTES) throw new UsageError(`--file: more than ${MAX_FILE_BYTES} bytes.`);
    return new Uint8Array(bytes);
  } catch (error) {
    if (error instanceof UsageError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new ServiceError("not_found", `--file cannot be read: ${reason}.`);
  }
}

/** A kind of event that is given by a header of its own is not given again. */
function headersOf(given: readonly string[], event: string | undefined): Readonly<Record<string, string>> {
  const own = Object.fromEntries(given.map(headerOf));
  const isNamed = WEBHOOK_SOURCES.some(({ eventHeader }) => eventHeader in own);
  return {
    "content-type": "application/json",
    ...(event === undefined && isNamed ? {} : { "x-github-event": event ?? DEFAULT_EVENT }),
    ...own,
  };
}

function headerOf(text: string): readonly [string, string] {
  const [, name = "", value = ""] = /^([!#$%&'*+.^_`|~\w-]+):[ \t]*(.*)$/s.exec(text) ?? [];
  // oxlint-disable-next-line no-control-regex -- control characters are what it looks for
  if (name !== "" && !/[\u0000-\u0008\u000a-\u001f\u007f]|[^\u0000-\u00ff]/.test(value)) {
    return [name.toLowerCase(), value.trim()];
  }
  throw new UsageError(`--header must be 'name: value', not ${JSON.stringify(text)}.`);
}

function isGood(posted: Posted): boolean {
  return posted.status !== undefined && posted.status >= 200 && posted.status < 300;
}
