import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { demoScript } from "../../../src/agent/engines/scripted.ts";
import { programEnvironment } from "../../harness/program.ts";
import { KEY, startTestService } from "../../harness/service.ts";

const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) =>
  existsSync(path),
);
const skip = CHROMIUM === undefined && "there is no Chromium on this machine";

/** As a page would: a turn is held, over a connection that is cut in it. */
const script = `
import { connectGateway, webSocketTransport } from "./gateway.mjs";
const said = { texts: [], seqs: [], states: [] };
const sockets = [];
class Watched extends WebSocket {
  constructor(url) {
    super(url);
    sockets.push(this);
  }
}
try {
  const { url, token } = await (await fetch("/where")).json();
  const client = await connectGateway({
    transport: webSocketTransport({ url, token, WebSocket: Watched }),
    reconnect: { minMs: 1 },
    questions: { clarify: () => ({ answer: "yes" }) },
  });
  const { session_id } = await client.call("session.create");
  const events = client.events({ sessionId: session_id });
  const { turn_id } = await client.call("prompt.submit", { session_id, text: "hello from a page" });
  for await (const event of events) {
    if (event.seq) said.seqs.push([event.first_seq ?? event.seq, event.seq]);
    if (event.type === "message.start") sockets[0].close();
    if (event.type === "client.state") said.states.push(event.payload.state);
    if (event.type === "message.complete") said.texts.push(event.payload.text);
    if (event.type === "session.info" && event.turn_id === turn_id && !event.payload.running) break;
  }
  await client.close();
} catch (error) {
  said.error = String(error.stack ?? error);
}
await fetch("/said", { method: "POST", body: JSON.stringify(said) });
`;

interface Said {
  readonly texts: readonly string[];
  readonly seqs: readonly (readonly [number, number])[];
  readonly states: readonly string[];
  readonly error?: string;
}

/** Serves the page; `said` resolves to what it sent. */
async function servePage(where: () => object) {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL("../../../src/client/gateway.ts", import.meta.url))],
    bundle: true,
    minify: true,
    platform: "neutral",
    format: "esm",
    write: false,
  });
  const said = Promise.withResolvers<Said>();
  const files: Readonly<Record<string, readonly [string, () => string]>> = {
    "/": ["text/html", () => '<!doctype html><script type="module" src="page.mjs"></script>'],
    "/page.mjs": ["text/javascript", () => script],
    "/gateway.mjs": ["text/javascript", () => outputFiles[0]?.text ?? ""],
    "/where": ["application/json", () => JSON.stringify(where())],
  };
  const server: Server = createServer(async (request, response) => {
    if (request.method === "POST") said.resolve(JSON.parse(await text(request)) as Said);
    const [type, content] = files[request.url ?? ""] ?? ["text/plain", () => ""];
    response.setHeader("content-type", type).end(content());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    said: said.promise,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Shows a page without a screen, until it is disposed. */
async function browse(url: string) {
  const profile = await mkdtemp(join(tmpdir(), "agentd-chromium-"));
  const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"];
  const child = spawn(
    CHROMIUM ?? "",
    [...flags, "--remote-debugging-port=0", `--user-data-dir=${profile}`, url],
    {
      env: programEnvironment({ HOME: profile }),
      stdio: "ignore",
    },
  );
  const exited = once(child, "exit");
  return {
    exited,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGTERM");
      await exited;
      await rm(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
    },
  };
}

test("a page in a browser holds a turn, over a cut, by the built module", { skip }, async () => {
  let where = {};
  await using page = await servePage(() => where);
  await using service = await startTestService({
    script: demoScript,
    config: { api_server: { cors_origins: [page.origin] } },
  });
  where = { url: service.url, token: KEY };
  await using browser = await browse(page.origin);
  const ended = browser.exited.then(() => assert.fail("the browser ended"));
  const said = await Promise.race([page.said, ended]);
  ended.catch(() => {});
  assert.equal(said.error, undefined);
  assert.equal(said.texts.length, 1);
  assert.match(said.texts[0] ?? "", /You said: "hello from a page"/);
  let next = 1;
  for (const [first, last] of said.seqs) {
    assert.equal(first, next);
    next = last + 1;
  }
  assert.deepEqual(said.states, ["reconnecting", "open"]);
});
