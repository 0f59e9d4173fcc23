/** `agentd gateway`: runs the service until it is told to stop. */
import process from "node:process";
import { defineCommand } from "citty";
import type { StartedService } from "../../app/start.ts";
import { lazyCommand } from "../kit/command.ts";
import { keepCompiledCode } from "../kit/runtime.ts";
import { currentContext } from "../kit/context.ts";
import { print } from "../kit/output.ts";
import { UsageError } from "../kit/arguments.ts";
import { oneLine } from "../sessions/text.ts";

const run = defineCommand({
  meta: { name: "run", description: "Start the service and serve until it is stopped (the default)" },
  args: {
    host: {
      type: "string",
      valueHint: "address",
      description: "Address to listen on, instead of api_server.host",
    },
    port: {
      type: "string",
      valueHint: "number",
      description: "Port to listen on, instead of api_server.port; 0 takes a free one",
    },
  },
  async run({ args }) {
    const { env, home } = currentContext();
    keepCompiledCode(home);
    const { startFromHome } = await import("../../app/start.ts");
    const started = await startFromHome({
      env,
      home,
      ...(args.host === undefined ? {} : { host: args.host }),
      ...(args.port === undefined ? {} : { port: toPort(args.port) }),
    });
    // Whoever reads the address may send a signal at once: it must find its listeners.
    const stopped = untilStopped(started);
    print(banner(started));
    await stopped;
  },
});

export const gatewayCommand = defineCommand({
  meta: { name: "gateway", description: "Run the service: the HTTP API and the agent behind it" },
  subCommands: {
    run,
    setup: lazyCommand(
      "Let the gateway receive webhooks: enable them, choose port and secret",
      async () => (await import("./setup.ts")).gatewaySetupCommand,
    ),
  },
  default: "run",
});

function toPort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (port <= 65_535) return port;
  throw new UsageError(`--port must be a number from 0 to 65535, not ${JSON.stringify(text)}.`);
}

/** What a newcomer needs: where it is, how to get in, who answers, and one request to try. */
function banner({ service, version, model, keyFile, keyCreated }: StartedService): string {
  const demo = "the built-in demo model, because no provider is configured";
  const key =
    keyFile === undefined
      ? "as configured"
      : `${keyCreated ? "made now and kept" : "kept"} in ${keyFile}, as API_SERVER_KEY`;
  const bearer = keyFile === undefined ? "$API_SERVER_KEY" : `$(sed -n 's/^API_SERVER_KEY=//p' ${keyFile})`;
  return [
    `agentd ${version} listens on ${service.url}`,
    `  key    ${key}`,
    `  model  ${model}${model === "demo:demo" ? ` (${demo})` : ""}`,
    ...webhookLines(service),
    "  try    curl -N " + `${service.url}/v1/chat/completions \\`,
    `           -H "authorization: Bearer ${bearer}" -H "content-type: application/json" \\`,
    `           -d '{"stream": true, "messages": [{"role": "user", "content": "run: echo hello"}]}'`,
  ].join("\n");
}

function webhookLines({ webhookUrl, webhookRoutes }: StartedService["service"]): readonly string[] {
  if (webhookRoutes === undefined) return [];
  if (webhookUrl === undefined) return ["  hooks  not received yet: the log says why, and it is tried again"];
  const names = webhookRoutes.map(oneLine).join(", ") || "none yet, see `agentd webhook subscribe`";
  // As `agentd webhook` prints it: the address of all addresses is none that can be called everywhere.
  const url = webhookUrl.replace(/\/\/(0\.0\.0\.0|\[::\])(?=:)/, "//localhost");
  return [`  hooks  ${url}/webhooks/<route>, routes: ${names}`];
}

/** SIGHUP comes when the terminal closes: whoever started the service there gets the same good order. */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** The first signal stops in good order, the second at once. */
async function untilStopped({ service, log }: StartedService): Promise<void> {
  process.on("unhandledRejection", (error) =>
    log.error("a promise was rejected and nobody looked", { error }),
  );
  let isStopping = false;
  const signal = await new Promise<string>((resolve) => {
    // These listeners stay: a library that cleans up after itself (signal-exit) would end the process when it finds no
    // other.
    const take = (name: string) => {
      if (!isStopping) resolve(name);
      // A terminal that closes says so twice, by its kernel and by its shell.
      else if (name !== "SIGHUP") process.exit(1);
    };
    for (const name of SIGNALS) process.on(name, take);
  });
  isStopping = true;
  log.info("stopping", { signal });
  await service.stop();
  log.info("stopped");
  for (const name of SIGNALS) process.removeAllListeners(name);
}
