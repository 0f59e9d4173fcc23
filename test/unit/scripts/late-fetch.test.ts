import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { promisify } from "node:util";
import { build, type Plugin } from "esbuild";
import { lateFetch } from "../../../scripts/lib/late-fetch.ts";

const root = join(import.meta.dirname, "../../..");

/** An import of `node:http` reads its getters, one of which loads `fetch`; the build of the program does this as well. */
const withoutGetters: Plugin = {
  name: "without-getters",
  setup(bundler) {
    const namespace = "builtin";
    bundler.onResolve({ filter: /^node:/ }, ({ path, kind }) =>
      kind === "import-statement" ? { path, namespace } : undefined,
    );
    bundler.onLoad({ filter: /./, namespace }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule("${path}");`,
    }));
  },
};

/** Serves with and without Node's `fetch` loaded, and prints what it saw. */
const SERVER = `
import { request } from "node:http";
import { H3, HTTPError, serve } from "h3";
import { FastResponse } from "srvx";
import { plugin } from "crossws/server";

const loaded = () => process.moduleLoadList.some((name) => name.includes("undici"));
const seen = { atTheStart: loaded() };
const app = new H3({ silent: true });
app.get("/", ({ req }) => ({
  isRequest: req instanceof Request,
  isHeaders: req.headers instanceof Headers,
  names: [...req.headers.keys()].includes("x-given"),
  given: req.headers.get("x-given"),
  url: new URL(req.url).pathname,
  cloned: req.clone().method,
}));
app.post("/", async ({ req }) => {
  const response = new FastResponse("said " + (await req.text()), { status: 201, headers: { "x-made": "yes" } });
  return response instanceof Response && response.headers.get("x-made") === "yes" ? response : "not a response";
});
app.get("/nothing", () => null);
app.get("/refused", () => { throw new HTTPError({ status: 418, message: "no" }); });
const sockets = plugin({ open: (peer) => void peer.send(new URL(peer.request.url).pathname) });
const server = serve(app, { hostname: "127.0.0.1", port: 0, silent: true, gracefulShutdown: false, plugins: [sockets] });
await server.ready();
seen.listening = loaded();
const call = (method, path, body) => new Promise((resolve, reject) => {
  const sent = request(server.url + path, { method, headers: { "x-given": "a value" } }, (answer) => {
    let text = "";
    answer.setEncoding("utf8").on("data", (chunk) => (text += chunk));
    answer.on("end", () => resolve([answer.statusCode, answer.headers["content-type"] ?? "", text]));
  });
  sent.on("error", reject).end(body);
});
seen.get = await call("GET", "");
seen.post = await call("POST", "", "a body");
seen.nothing = await call("GET", "nothing");
seen.refused = (await call("GET", "refused")).slice(0, 2);
seen.missing = (await call("GET", "missing"))[0];
seen.socket = await new Promise((resolve, reject) => {
  const socket = new WebSocket(server.url.replace("http", "ws") + "wire");
  socket.onmessage = ({ data }) => resolve(data);
  socket.onerror = reject;
});
console.log(JSON.stringify(seen));
process.exit(0);
`;

/** Loads the client of the HTTP API, then makes one by itself. */
const CLIENT = `
import { AgentClient } from "./generated/http/client/sdk.gen.ts";

const loaded = () => process.moduleLoadList.some((name) => name.includes("undici"));
const atTheStart = loaded();
const { baseUrl } = new AgentClient().client.getConfig();
console.log(JSON.stringify({ atTheStart, baseUrl }));
`;

test("a bundled server loads Node's fetch with the first request, and answers as it does with it", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "agentd-late-fetch-"));
  t.after(() => rm(folder, { recursive: true }));
  const run = (name: string, plugins: readonly Plugin[]) => runBundled(folder, name, SERVER, plugins);
  await writeFile(join(folder, "package.json"), "{}");
  const late = await run("late", [lateFetch]);
  const { atTheStart, listening, ...answers } = late;
  assert.deepEqual({ atTheStart, listening }, { atTheStart: false, listening: false });
  const { atTheStart: isEarly, listening: _, ...expected } = await run("plain", []);
  assert.equal(isEarly, true, "without the change it is loaded: else the change can go");
  assert.deepEqual(answers, expected);
  assert.match(JSON.stringify(answers["get"]), /isRequest\\":true,\\"isHeaders\\":true,\\"names\\":true/);
  assert.deepEqual(answers["post"], [201, "text/plain; charset=UTF-8", "said a body"]);
  assert.equal(answers["socket"], "/wire");
});

test("a bundled client loads Node's fetch when it is made, not with its module", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "agentd-late-fetch-"));
  t.after(() => rm(folder, { recursive: true }));
  const baseUrl = "http://127.0.0.1:8642";
  assert.deepEqual(await runBundled(folder, "late", CLIENT, [lateFetch]), { atTheStart: false, baseUrl });
  const plain = await runBundled(folder, "plain", CLIENT, []);
  assert.deepEqual(plain, { atTheStart: true, baseUrl }, "else the change can go");
});

/** Bundles and runs a program. Returns what it prints. */
async function runBundled(folder: string, name: string, contents: string, more: readonly Plugin[]) {
  const plugins = [withoutGetters, ...more];
  const outfile = join(folder, `${name}.mjs`);
  const stdin = { contents, resolveDir: root };
  await build({ stdin, outfile, bundle: true, platform: "node", format: "esm", target: "node24", plugins });
  const { stdout } = await promisify(execFile)(process.execPath, [outfile]);
  return JSON.parse(stdout) as Record<string, unknown>;
}
