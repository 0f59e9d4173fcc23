/** The servers of the webhook benches; started by server.ts. */
import { createHmac, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { H3 } from "h3";
import { FastResponse } from "srvx";
import { createScriptedEngine } from "../../src/agent/engines/scripted.ts";
import { createModelCatalog } from "../../src/agent/model.ts";
import { systemClock } from "../../src/base/time.ts";
import { createLog } from "../../src/base/observe.ts";
import { readBody } from "../../src/base/net/request.ts";
import { Variables } from "../../src/config/variables.ts";
import { createKeyRing } from "../../src/config/keys.ts";
import { listen } from "../../src/gateway/listen.ts";
import { startService } from "../../src/app/service.ts";
import { KEY, testConfig } from "../harness/service.ts";
import { modelCalls } from "./model-calls.ts";

export const SECRET = "secret-of-the-benches";
const MAX_BODY_BYTES = 2_097_152;

/** What the receiver is started with, as JSON. */
export interface ReceiverSettings {
  readonly rate_limit?: number;
  readonly max_body_bytes?: number;
}

const hook = {
  events: ["push"],
  filters: [{ field: "ref", regex: "^refs/heads/" }],
  prompt: "Push to {repository.full_name} by {pusher.name}: {head_commit.message}",
};
/** Runs of `waiting` wait for the one before them, which thinks for ever. */
const routes = {
  hook,
  plain: {},
  waiting: { ...hook, prompt: `Wait. ${hook.prompt}`, max_concurrent: 1 },
};

/** The service with its receiver, on a SQLite file; its address is that of the receiver. */
export async function runReceiver(settings: string, given: string | undefined) {
  const more = JSON.parse(settings || "{}") as ReceiverSettings;
  const ended = new AbortController();
  const home = given ?? (await realpath(await mkdtemp(join(tmpdir(), "agentd-bench-"))));
  const webhook = {
    enabled: true,
    host: "127.0.0.1",
    port: 0,
    secret: SECRET,
    rate_limit: 1_000_000,
    ...more,
    routes,
  };
  const config = testConfig({
    api_server: { key: KEY },
    platforms: { webhook },
    // A sweep in the middle would be measured, too.
    retention: { sweep_minutes: 1_440 },
  });
  const service = await startService({
    config,
    paths: { agentHome: home, userHome: home, workspace: home, databaseUrl: join(home, "state.db") },
    keys: createKeyRing(config, { env: {} }),
    models: createModelCatalog({ providers: [] }),
    engine: createScriptedEngine(
      async ({ user }) => {
        modelCalls.count += 1;
        if (user.includes("Wait.")) await once(ended.signal, "abort");
        return { text: "Seen." };
      },
      { clock: systemClock },
    ),
    env: {},
    variables: await Variables.open({ env: {}, home }),
    version: "0.0.0-bench",
    log: createLog("error"),
    validateResponses: false,
  });
  const stop = async () => {
    ended.abort();
    await service.stop({ graceMs: 0 });
    if (given === undefined) await rm(home, { recursive: true, force: true });
  };
  if (service.webhookUrl === undefined) throw new Error("the receiver does not listen");
  return { url: service.webhookUrl, apiUrl: service.url, stop };
}

/** The least a receiver can do: read the body, verify the same MAC, answer what it was told to. */
export async function runBareReceiver(answer: string) {
  const app = new H3({ silent: true });
  const settings = { maxBytes: "", timeoutMs: "" };
  const limits = { maxBytes: MAX_BODY_BYTES, timeoutMs: 10_000, clock: systemClock, settings };
  app.post("/webhooks/:route", async (event) => {
    const body = await readBody(event, limits);
    const given = Buffer.from(event.req.headers.get("x-hub-signature-256") ?? "");
    const wanted = Buffer.from(`sha256=${createHmac("sha256", SECRET).update(body).digest("hex")}`);
    const isGood = given.length === wanted.length && timingSafeEqual(given, wanted);
    return new FastResponse(answer, {
      status: isGood ? 202 : 401,
      headers: { "content-type": "application/json" },
    });
  });
  const options = { host: "127.0.0.1", port: 0, maxBodyBytes: MAX_BODY_BYTES, clock: systemClock };
  const listener = await listen(app, options);
  return { url: listener.url, stop: () => listener.close(0) };
}
