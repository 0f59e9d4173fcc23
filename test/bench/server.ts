/** The servers that the benches put under load, each in a process of its own: started by child.ts, with the kind. */
import { once } from "node:events";
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { H3 } from "h3";
import { FastResponse } from "srvx";
import { createScriptedEngine, type ScriptState, type ScriptStep } from "../../src/agent/engines/scripted.ts";
import { createModelCatalog } from "../../src/agent/model.ts";
import { systemClock } from "../../src/base/clock.ts";
import { createLog } from "../../src/base/log.ts";
import { createKeyRing } from "../../src/config/secrets.ts";
import { listen } from "../../src/gateway/listen.ts";
import { startService } from "../../src/service.ts";
import { KEY, testConfig } from "../harness/service.ts";
import type { Reply, Request } from "./child.ts";

interface Running {
  readonly url: string;
  stop(): Promise<void>;
}

const kinds: Readonly<Record<string, (answer: string) => Promise<Running>>> = {
  service: runService,
  bare: runBare,
};

const start = kinds[process.argv[2] ?? ""];
if (!start || !process.send) throw new Error("child.ts starts this file, with the kind of server");
const [first] = (await once(process, "message")) as [Request];
const running = await start("answer" in first ? first.answer : "");
process.on("message", (request: Request) => {
  if (!("ask" in request)) return;
  if (request.ask === "cpu") {
    const { user, system } = process.cpuUsage();
    tell({ cpuMicros: user + system });
  } else void running.stop().then(() => process.disconnect());
});
// Also when the bench dies.
process.once("disconnect", () => process.exit());
tell({ url: running.url });

function tell(reply: Reply): void {
  process.send?.(reply);
}

/** The service as the gateway starts it, on a SQLite file, with keys, and a model that is a script. */
async function runService(): Promise<Running> {
  const home = await realpath(await mkdtemp(join(tmpdir(), "agentd-bench-")));
  const config = testConfig({ api_server: { key: KEY } });
  const service = await startService({
    config,
    places: { agentHome: home, userHome: home, workspace: home, databaseUrl: join(home, "state.db") },
    keys: createKeyRing(config, { env: {} }),
    models: createModelCatalog({ providers: [] }),
    engine: createScriptedEngine(script, { clock: systemClock }),
    openApi: {},
    version: "0.0.0-bench",
    log: createLog("warn"),
    validateResponses: false,
  });
  const stop = async () => {
    await service.stop({ graceMs: 0 });
    await rm(home, { recursive: true, force: true });
  };
  return { url: service.url, stop };
}

/** The least a server can do for the same exchange: read and parse the body, answer what it was told to. */
async function runBare(answer: string): Promise<Running> {
  const app = new H3({ silent: true });
  app.post("/v1/chat/completions", async (event) => {
    await event.req.json();
    return new FastResponse(answer, { headers: { "content-type": "application/json" } });
  });
  const listener = await listen(app, {
    host: "127.0.0.1",
    port: 0,
    maxBodyBytes: 16_777_216,
    clock: systemClock,
  });
  return { url: listener.url, stop: () => listener.close(0) };
}

/** What the model says is asked for by the prompt: nothing special, or deltas with a pace. */
function script({ user }: ScriptState): ScriptStep {
  const [what, count, paceMs] = user.split(" ");
  if (what === "deltas") return { text: deltas(Number(count), Number(paceMs)) };
  return { text: "Hello! I am well, thanks." };
}

async function* deltas(count: number, paceMs: number): AsyncGenerator<string> {
  for (let i = 0; i < count; i++) {
    await sleep(paceMs);
    yield `word ${i} `;
  }
}
