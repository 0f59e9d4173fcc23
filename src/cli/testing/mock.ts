/** `agentd mock`: serves a scripted agent to people who write hosts and clients. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defineCommand } from "citty";
import { createScriptedEngine } from "../../agent/engines/scripted.ts";
import { ServiceError } from "../../base/errors.ts";
import { createLog } from "../../base/observe.ts";
import { systemClock } from "../../base/time.ts";
import { toPort, untilStopped } from "../gateway/gateway.ts";
import { UsageError } from "../kit/arguments.ts";
import { currentContext } from "../kit/context.ts";
import { optionalArgument, switchOption, textOption } from "../kit/options.ts";
import { print } from "../kit/output.ts";
import { cutsConnections, EXAMPLE_SCRIPT, parseMockScript, toScript, toTools } from "./mock-script.ts";

export const mockCommand = defineCommand({
  meta: {
    name: "mock",
    description:
      "Serve a scripted agent for tests of hosts and clients: the real HTTP API and the real gateway, with answers, tool calls, questions, errors and cut connections from a YAML file. Nothing is kept, no model is called, no command runs",
  },
  args: {
    file: optionalArgument("The script. `--example` prints one"),
    port: textOption("number", "Port to listen on; 0 picks a free one. Default: 0"),
    host: textOption("address", "Address to listen on. Default: 127.0.0.1"),
    example: switchOption("Print an example of a script"),
  },
  async run({ args }) {
    if (args.example) return print(EXAMPLE_SCRIPT.trimEnd());
    if (args.file === undefined) {
      throw new UsageError("A script is missing: agentd mock FILE. `agentd mock --example` prints one.");
    }
    const script = parseMockScript(await readScript(args.file), args.file);
    if (cutsConnections(script) && "Deno" in globalThis) {
      throw new ServiceError(
        "invalid_config",
        "`cut` works on Node only. Remove it, or start the mock with Node.",
      );
    }
    const connections = new Connections();
    const home = await makeHome();
    try {
      const { startFromHome } = await import("../../app/start.ts");
      const started = await startFromHome({
        env: onlyKey(),
        home,
        host: args.host ?? "127.0.0.1",
        port: toPort(args.port ?? "0"),
        log: createLog("warn"),
        engine: createScriptedEngine(
          toScript(script, () => connections.cut()),
          { clock: systemClock },
        ),
        tools: toTools(script),
      });
      const stopped = untilStopped(started);
      print(await banner(started.service.url, home));
      await stopped;
    } finally {
      connections.close();
      await rm(home, { recursive: true, force: true });
    }
  },
});

async function readScript(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new ServiceError("not_found", `${path} cannot be read: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/** The mock takes nothing from the environment but the key that its clients should use. */
function onlyKey(): Readonly<Record<string, string>> {
  const key = currentContext().env["API_SERVER_KEY"];
  return { ...(key === undefined ? {} : { API_SERVER_KEY: key }), PATH: currentContext().env["PATH"] ?? "" };
}

async function makeHome(): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), "agentd-mock-"));
  const config = {
    model: {
      default: "mock:script",
      providers: { mock: { type: "openai_compatible", base_url: "http://127.0.0.1:9", models: ["script"] } },
    },
    agent: { toolsets: ["clarify", "planning"] },
    sessions: { titles: "prompt" },
    terminal: { sandbox: "off" },
    cron: { enabled: false },
  };
  // JSON is YAML.
  await writeFile(join(home, "config.yaml"), JSON.stringify(config), { mode: 0o600 });
  return home;
}

async function banner(url: string, home: string): Promise<string> {
  const own = await readFile(join(home, ".env"), "utf8").catch(() => "");
  const [, key] = /^API_SERVER_KEY=(.+)$/m.exec(own) ?? [];
  return [
    `The mock agent listens on ${url}`,
    `  key    ${key ?? "API_SERVER_KEY of the environment"}`,
    `  socket ${url.replace(/^http/, "ws")}/api/ws`,
  ].join("\n");
}

/** The connections of all clients, so that a script can cut them. */
class Connections {
  readonly #open = new Set<Socket>();
  readonly #add = (message: unknown) => {
    const { socket } = message as { readonly socket: Socket };
    this.#open.add(socket);
    socket.once("close", () => this.#open.delete(socket));
  };

  constructor() {
    subscribe(CHANNEL, this.#add);
  }

  cut(): void {
    for (const socket of this.#open) socket.destroy();
  }

  close(): void {
    unsubscribe(CHANNEL, this.#add);
  }
}

/** Node announces each accepted connection here. */
const CHANNEL = "net.server.socket";
