/** `agentd webhook test`: sends a signed request to a route of the running gateway, or does a dry run. */
import { readFile } from "node:fs/promises";
import process from "node:process";
import { buffer } from "node:stream/consumers";
import { ServiceError } from "../../base/errors.ts";
import { defaultEventOf, exampleBody, testHeaders } from "../../webhook/deliveries/replay.ts";
import { UsageError } from "../kit/arguments.ts";
import { defineApiCommand } from "../kit/command.ts";
import { print, printJson } from "../kit/output.ts";
import { EXIT_FAILURE } from "../chat/run.ts";
import { jsonOption, repeatedOption, requiredArgument, switchOption, textOption } from "../kit/options.ts";
import { findRoute, withWebhooks } from "./routes.ts";
import { isGood, openSender, post, receiverOption, signedRequest } from "./sender.ts";
import { answerText, resultText } from "./text.ts";

const MAX_FILE_BYTES = 104_857_600;

export const testCommand = defineApiCommand({
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
    receiver: receiverOption,
    "dry-run": switchOption(
      "Send nothing. Print the result of each stage and the rendered prompt. The script of the route runs",
    ),
    json: jsonOption,
  },
  async run({ args, rawArgs }) {
    const given = Object.fromEntries(repeatedOption(rawArgs, "header").map(headerOf));
    const { event } = args;
    await withWebhooks(async (api) => {
      const route = await findRoute(api, args.name);
      const body = await bodyOf(args);
      if (args["dry-run"]) {
        const { data: result } = await api.client.testRoute({
          path: { route_name: route.name },
          headers: api.ownedBy(route.owner),
          body: {
            headers: given,
            ...(event === undefined ? {} : { event }),
            ...(body === undefined ? {} : { payload: payloadIn(body) }),
          },
        });
        if (args.json) printJson(result);
        else print(resultText(result));
        return;
      }
      const sender = await openSender(api, route.name, args.receiver);
      const defaultEvent = defaultEventOf(route);
      const headers = testHeaders(given, { event, defaultEvent });
      const bytes = body ?? exampleBody(event ?? defaultEvent);
      const signed = signedRequest(sender, bytes);
      if (!args.json) print(`  Sending test POST to ${signed.shownUrl}`);
      const posted = await post({ url: signed.url, headers: { ...signed.headers, ...headers }, body: bytes });
      if (args.json) printJson({ url: signed.shownUrl, ...posted });
      else print(answerText(posted));
      if (!isGood(posted)) process.exitCode = EXIT_FAILURE;
    });
  },
});

/** Returns the given body; undefined for the example. */
async function bodyOf({
  payload,
  file,
}: {
  readonly payload?: string | undefined;
  readonly file?: string | undefined;
}): Promise<Uint8Array<ArrayBuffer> | undefined> {
  if (payload !== undefined && file !== undefined)
    throw new UsageError("--payload and --file cannot be combined.");
  if (file !== undefined) return readBytes(file);
  if (payload === undefined) return undefined;
  try {
    JSON.parse(payload);
  } catch {
    throw new UsageError("--payload must be JSON. Use --file to send anything else.");
  }
  return new TextEncoder().encode(payload);
}

function payloadIn(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    throw new UsageError("A dry run takes JSON. Send other bodies without --dry-run.");
  }
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
