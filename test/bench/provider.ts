/** A gateway whose model is a server on this machine, beside that server alone and a bare server that passes its stream on. */
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chatTexts } from "./chat-text.ts";
import type { Load } from "./load.ts";
import {
  bundle,
  GATEWAY_KEY,
  spawnReady,
  startGateway,
  writeHome,
  type Gateway,
  type Spawned,
} from "./program.ts";
import { toDeltas } from "./provider-deltas.ts";

const CLIENTS = 16;
const EXPECTED = toDeltas().join("");
const READY = /listens on (http:\/\/127\.0\.0\.1:\d+)/;

/** A streamed chat; each must bring the whole text of the model. */
export const chat: Omit<Load, "url"> = {
  path: "/v1/chat/completions",
  headers: { authorization: `Bearer ${GATEWAY_KEY}`, "content-type": "application/json" },
  body: JSON.stringify({
    model: "agentd",
    stream: true,
    messages: [{ role: "user", content: "Hello! How are you today?" }],
  }),
  connections: CLIENTS,
  statuses: [200],
  check: (body) => {
    const text = chatTexts(body).join("");
    if (text !== EXPECTED) throw new Error(`the chat said ${JSON.stringify(text)}`);
  },
};

/** The three servers, each in a process of its own. */
export interface ProviderServers extends AsyncDisposable {
  readonly gateway: Gateway;
  readonly model: Spawned & { readonly url: string; calls(): Promise<number> };
  readonly bare: Spawned & { readonly url: string };
}

export async function startProviderServers(): Promise<ProviderServers> {
  await using stack = new AsyncDisposableStack();
  const folder = await realpath(await mkdtemp(join(tmpdir(), "agentd-bench-")));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const model = stack.use(await started(["model-stub.ts"]));
  const script = await bundle(pathOf("bare-h3.ts"), join(folder, "bare"));
  const bare = stack.use(await started([script, join(folder, "bare-code"), model.url]));
  const home = join(folder, "agentd");
  await writeHome(home, configFor(model.url));
  const gateway = stack.use(await startGateway(folder, home));
  const owned = stack.move();
  return {
    gateway,
    bare,
    model: { ...model, calls: async () => Number(await (await fetch(`${model.url}/calls`)).text()) },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function started([script = "", ...rest]: readonly string[]): Promise<
  Spawned & { readonly url: string }
> {
  const spawned = await spawnReady({ args: [pathOf(script), ...rest], ready: READY });
  return { ...spawned, url: spawned.match[1] ?? "" };
}

/** Of a file beside this one; a whole path stays. */
function pathOf(file: string): string {
  return file.startsWith("/") ? file : fileURLToPath(new URL(file, import.meta.url));
}

/** One model call for each chat: without titles. More clients than the runs that are allowed by default. */
function configFor(modelUrl: string): string {
  return `api_server: { key: "${GATEWAY_KEY}" }
model:
  default: stub:stub
  providers:
    stub: { type: openai_compatible, base_url: "${modelUrl}/v1", models: [stub] }
sessions: { titles: "off" }
limits: { max_concurrent_runs: 0 }
`;
}
