/** `agentd gateway`: runs the service until a signal stops it. */
import process from "node:process";
import { defineCommand } from "citty";
import { textOption } from "../kit/options.ts";
import type { StartedService, StartOptions } from "../../app/start.ts";
import { lazyCommand } from "../kit/command.ts";
import { currentContext } from "../kit/context.ts";
import { print } from "../kit/output.ts";
import { UsageError } from "../kit/arguments.ts";
import { oneLine } from "../sessions/text.ts";
import { boundHeap } from "../kit/runtime.ts";
import { GatewayLog, LOG_FORMATS } from "./log.ts";

const run = defineCommand({
  meta: { name: "run", description: "Run the service until it is stopped (the default)" },
  args: {
    host: textOption("address", "Address to listen on. Overrides api_server.host"),
    port: textOption("number", "Port to listen on; 0 picks a free one. Overrides api_server.port"),
    "log-format": {
      type: "enum",
      options: [...LOG_FORMATS],
      description: "Format of the log on stderr. auto: text on a terminal. Overrides log.format",
    },
    quiet: { type: "boolean", alias: "q", description: "Do not print the start message" },
  },
  async run({ args }) {
    const { env, home } = currentContext();
    const port = args.port === undefined ? {} : { port: toPort(args.port) };
    const host = args.host === undefined ? {} : { host: args.host };
    const log = new GatewayLog(home, args["log-format"]);
    const started = await start({ env, home, ...host, ...port, openLog: log.open }, log);
    // After the loading, which needs memory and would be slower otherwise.
    boundHeap();
    // A reader of the banner may send a signal at once: listen for signals first.
    const stopped = untilStopped(started);
    if (!args.quiet) print(banner(started));
    log.release();
    await stopped;
  },
});

async function start(options: StartOptions, log: GatewayLog): Promise<StartedService> {
  try {
    const { startFromHome } = await import("../../app/start.ts");
    return await startFromHome(options);
  } catch (error) {
    log.failed(error);
    throw error;
  }
}

export const gatewayCommand = defineCommand({
  meta: {
    name: "gateway",
    description: "Run the service: the agent with its HTTP API, gateway, webhooks and cron",
  },
  subCommands: {
    run,
    setup: lazyCommand(
      "Set up webhooks and message platforms",
      async () => (await import("./setup.ts")).gatewaySetupCommand,
    ),
  },
  default: "run",
});

/** Reads a port number. UsageError unless it is one. */
export function toPort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (port <= 65_535) return port;
  throw new UsageError(`--port must be a number from 0 to 65535, not ${JSON.stringify(text)}.`);
}

/** Returns the start message: address, key, model, and a request to try. */
function banner(started: StartedService): string {
  const { service, version, modelStatus, keyFile, keyCreated, hasConsole } = started;
  const { model, problem, fix = "" } = modelStatus;
  const key =
    keyFile === undefined
      ? "as configured"
      : `API_SERVER_KEY in ${keyFile}${keyCreated ? " (created now)" : ""}`;
  const bearer = keyFile === undefined ? "$API_SERVER_KEY" : `$(sed -n 's/^API_SERVER_KEY=//p' ${keyFile})`;
  return [
    `agentd ${version} listens on ${service.url}`,
    `  key      ${key}`,
    `  model    ${model}${problem === undefined ? "" : ` (${problem}). ${fix}`}`,
    ...webhookLines(service),
    ...(hasConsole ? [`  console  ${reachable(service.url)}  (agentd open)`] : []),
    "  try      curl -N " + `${service.url}/v1/chat/completions \\`,
    `             -H "authorization: Bearer ${bearer}" -H "content-type: application/json" \\`,
    `             -d '{"stream": true, "messages": [{"role": "user", "content": "run: echo hello"}]}'`,
  ].join("\n");
}

function webhookLines({ webhookUrl, webhookRoutes }: StartedService["service"]): readonly string[] {
  if (webhookRoutes === undefined) return [];
  if (webhookUrl === undefined) return ["  hooks    not listening yet, trying again; see the log"];
  const names = webhookRoutes.map(oneLine).join(", ") || "none yet, see `agentd webhook subscribe`";
  return [`  hooks    ${reachable(webhookUrl)}/webhooks/<route>, routes: ${names}`];
}

/** A wildcard address cannot be called, so show localhost like `agentd webhook`. */
function reachable(url: string): string {
  return url.replace(/\/\/(0\.0\.0\.0|\[::\])(?=:)/, "//localhost");
}

/** SIGHUP arrives when the terminal closes and stops the service gracefully, too. */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Stops gracefully at the first signal and immediately at the second. */
export async function untilStopped({ service, log }: StartedService): Promise<void> {
  process.on("unhandledRejection", (error) => log.error("unhandled promise rejection", { error }));
  let isStopping = false;
  const signal = await new Promise<string>((resolve) => {
    // The listeners stay: without them, a library with its own cleanup (signal-exit) would end the process.
    const onSignal = (name: string) => {
      if (!isStopping) resolve(name);
      // A closing terminal sends SIGHUP twice, from the kernel and from the shell.
      else if (name !== "SIGHUP") process.exit(1);
    };
    for (const name of SIGNALS) process.on(name, onSignal);
  });
  isStopping = true;
  log.info("stopping", { signal });
  await service.stop();
  log.info("stopped");
  for (const name of SIGNALS) process.removeAllListeners(name);
}
