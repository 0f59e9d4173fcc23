/** `agentd conformance`: runs the scenarios of the contracts against any server. */
import process from "node:process";
import { text as readText } from "node:stream/consumers";
import { defineCommand } from "citty";
import { EXIT_FAILURE } from "../chat/run.ts";
import { UsageError } from "../kit/arguments.ts";
import { currentContext } from "../kit/context.ts";
import { jsonOption, switchOption, textOption } from "../kit/options.ts";
import { print, printJson, printTable, warn } from "../kit/output.ts";
import { type Result, runScenarios, type Scenario } from "./scenario.ts";

export const conformanceCommand = defineCommand({
  meta: {
    name: "conformance",
    description:
      "Check any server against the contracts of the HTTP API, the gateway and webhooks. It sends about 40 short prompts and leaves the sessions that they create. The key is taken from API_SERVER_KEY, the secret of the webhook from WEBHOOK_SECRET. Exits with 1 if a scenario fails",
  },
  args: {
    http: textOption("url", "Address of an HTTP API, such as http://127.0.0.1:8642"),
    gateway: textOption(
      "url or command",
      "Address of a gateway, or the command that starts one on standard input and output",
    ),
    webhook: textOption("url", "Address of a webhook route that verifies GitHub's signature"),
    "key-stdin": switchOption("Read the key from standard input"),
    only: textOption("text", "Run only the scenarios whose title contains this text"),
    timeout: textOption("seconds", "Maximum duration of a scenario. Default: 60"),
    json: jsonOption,
  },
  async run({ args }) {
    if (args.http === undefined && args.gateway === undefined && args.webhook === undefined) {
      throw new UsageError("Pass what to check: --http, --gateway or --webhook.");
    }
    const { env } = currentContext();
    const key = args["key-stdin"] ? (await readText(process.stdin)).trim() : env["API_SERVER_KEY"];
    const options = { timeoutMs: toTimeout(args.timeout), onResult: args.json ? () => {} : showProgress };
    const results: Result[] = [];
    const run = async <Target>(surface: string, scenarios: readonly Scenario<Target>[], target: Target) => {
      const chosen = scenarios.filter(({ title }) => args.only === undefined || title.includes(args.only));
      results.push(...(await runScenarios(surface, chosen, { ...options, target })));
    };
    if (args.http !== undefined) {
      const [{ HttpTarget }, { httpScenarios }, { scenariosOfRuns }] = await Promise.all([
        import("./http-target.ts"),
        import("./http.ts"),
        import("./runs.ts"),
      ]);
      await run(
        "http",
        [...httpScenarios, ...scenariosOfRuns],
        new HttpTarget(toUrl(args.http, "--http"), { key, timeoutMs: options.timeoutMs }),
      );
    }
    if (args.gateway !== undefined) {
      const { GatewayTarget, gatewayScenarios } = await import("./gateway.ts");
      await run("gateway", gatewayScenarios, new GatewayTarget(args.gateway, key));
    }
    if (args.webhook !== undefined) {
      const secret = env["WEBHOOK_SECRET"];
      if (secret === undefined)
        throw new UsageError("--webhook needs the secret of the route in WEBHOOK_SECRET.");
      const { webhookScenarios } = await import("./webhook.ts");
      await run("webhook", webhookScenarios, { url: toUrl(args.webhook, "--webhook"), secret });
    }
    if (results.length === 0)
      throw new UsageError(`No scenario has a title with ${JSON.stringify(args.only)}.`);
    report(results, args.json === true);
  },
});

function report(results: readonly Result[], asJson: boolean): void {
  const failed = results.filter(({ status }) => status === "failed");
  const passed = results.length - failed.length;
  if (asJson) printJson({ passed, failed: failed.length, scenarios: results });
  else {
    printTable(
      ["surface", "result", "scenario"],
      results.map(({ surface, status, title, problem }) => [
        surface,
        status,
        problem === undefined ? title : `${title}: ${problem}`,
      ]),
    );
    print(`${passed} passed, ${failed.length} failed`);
  }
  if (failed.length > 0) process.exitCode = EXIT_FAILURE;
}

function showProgress({ surface, title, status }: Result): void {
  if (process.stderr.isTTY) warn(`${status === "passed" ? "ok  " : "FAIL"} ${surface}: ${title}`);
}

function toUrl(text: string, option: string): string {
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text;
  throw new UsageError(`${option} must be an http or https address, not ${JSON.stringify(text)}.`);
}

const MAX_TIMEOUT_SECONDS = 3_600;

function toTimeout(text = "60"): number {
  const seconds = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (seconds >= 1 && seconds <= MAX_TIMEOUT_SECONDS) return seconds * 1000;
  throw new UsageError(
    `--timeout must be a number from 1 to ${MAX_TIMEOUT_SECONDS}, not ${JSON.stringify(text)}.`,
  );
}
