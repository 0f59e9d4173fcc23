/** `agentd webhook listen` beside a running gateway: real processes, one home. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { buffer } from "node:stream/consumers";
import { test } from "node:test";
import { createGatewayPlace, type GatewayProcess } from "../../harness/gateway.ts";
import { sign } from "../../harness/webhook.ts";
import { agentd, type Outcome } from "../../harness/agentd.ts";
import { keepAgentd, keptAgentd } from "../../harness/kept-agentd.ts";
import { agentdCommand, programEnvironment } from "../../harness/program.ts";
import { freePort } from "./free-port.ts";

const listenInOther = keepAgentd();
const testInOther = keepAgentd();

interface Place extends AsyncDisposable {
  readonly url: string;
  start(): Promise<GatewayProcess>;
  webhook(words: readonly string[]): Promise<Outcome>;
  /** The same in two other processes. */
  listenInOther(words: readonly string[]): Promise<Outcome>;
  testInOther(words: readonly string[]): Promise<Outcome>;
  /** The same in a process of its own, which knows no secrets yet. */
  inNewProcess(words: readonly string[], input?: string): Promise<Outcome>;
  /** Runs `webhook listen` until `onOutput` stops it. */
  listen(words: readonly string[], onOutput: (text: string, stop: () => void) => void): Promise<Outcome>;
}

async function createPlace(): Promise<Place> {
  const port = await freePort();
  const place = await createGatewayPlace();
  const config = `version: 1\nplatforms:\n  webhook:\n    enabled: true\n    extra: { host: 127.0.0.1, port: ${port} }\n`;
  await writeFile(join(place.home, "config.yaml"), config, { mode: 0o600 });
  const env = { AGENTD_HOME: place.home, AGENTD_DATABASE_URL: place.database };
  return {
    url: `http://127.0.0.1:${port}/webhooks`,
    start: place.start,
    webhook: (words) => keptAgentd(["webhook", ...words], env),
    listenInOther: (words) => listenInOther(["webhook", ...words], env),
    testInOther: (words) => testInOther(["webhook", ...words], env),
    inNewProcess: (words, input) => agentd(["webhook", ...words], env, input),
    listen: (words, onOutput) => listen(env, words, onOutput),
    [Symbol.asyncDispose]: () => place[Symbol.asyncDispose](),
  };
}

async function listen(
  env: Readonly<Record<string, string>>,
  words: readonly string[],
  onOutput: (text: string, stop: () => void) => void,
): Promise<Outcome> {
  const [file, ...args] = agentdCommand("webhook", "listen", ...words);
  const child = spawn(file, args, { env: programEnvironment(env), stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  let isStopped = false;
  const stop = () => {
    if (isStopped) return;
    isStopped = true;
    process.kill(child.pid ?? 0, "SIGINT");
  };
  child.stderr.on("data", (bytes: Uint8Array) => (stderr += bytes.toString()));
  child.stdout.on("data", (bytes: Uint8Array) => {
    stdout += bytes.toString();
    onOutput(stdout, stop);
  });
  const code = await new Promise<number>((resolve) => child.once("close", (status) => resolve(status ?? -1)));
  return { code, stdout, stderr };
}

const linesOf = (text: string): Record<string, unknown>[] =>
  text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));

test("listen sends a signed event through the gateway and shows its stages, its run, its text and its message", async () => {
  await using place = await createPlace();
  const gateway = await place.start();
  await place.webhook([
    "subscribe",
    "ci",
    "--events",
    "push",
    "--prompt",
    "hello {n}",
    "--secret",
    "canary-s1",
  ]);
  const once = await place.inNewProcess(["listen", "ci", "--event", "push", "--once"]);
  assert.equal(once.code, 0, once.stdout + once.stderr);
  // The event may be at work before the response to it has come.
  assert.match(once.stdout, /Response \(202\)/);
  const expected = [
    /signature pass {2}hub/,
    /events +pass {2}push/,
    /admit +pass/,
    /run run_\w+ started/,
    /\| \[demo model\] .*hello \{n\}/,
    /run run_\w+ completed/,
    /message out_\w+ to log: delivered, 1 attempt/,
    /\] completed$/m,
  ];
  let at = 0;
  for (const wanted of expected) {
    const found = wanted.exec(once.stdout.slice(at));
    assert.ok(found, `${String(wanted)} follows in ${once.stdout}`);
    at += found.index;
  }
  assert.ok(!once.stdout.includes("canary"));

  const lines = linesOf(
    (await place.webhook(["listen", "ci", "--event", "push", "--once", "--json"])).stdout,
  );
  const types = [...new Set(lines.map(({ type }) => type))];
  assert.ok(types.includes("sent"));
  assert.deepEqual(
    types.filter((type) => type !== "sent"),
    ["listening", "delivery", "run", "message", "ended"],
  );
  assert.equal(lines.find(({ type }) => type === "ended")?.["status"], "completed");

  const ignored = await place.webhook(["listen", "ci", "--event", "other", "--once"]);
  assert.equal(ignored.code, 1);
  assert.match(ignored.stdout, /events +stop {2}other is not one of push/);
  assert.equal(await gateway.kill("SIGTERM"), 0);
});

test("listen ends when its event was handled before the response to it came", async () => {
  await using place = await createPlace();
  const gateway = await place.start();
  await place.webhook(["subscribe", "ci", "--prompt", "hello {n}", "--secret", "s1"]);
  const handled = Promise.withResolvers<void>();
  const slow = createServer(async (request, response) => {
    const body = new Uint8Array(await buffer(request));
    const passed = Object.entries(request.headers).filter(([name]) => /^(?:x-|content-type)/.test(name));
    const headers = Object.fromEntries(passed) as Record<string, string>;
    const address = `${new URL(place.url).origin}${request.url}`;
    const answer = await fetch(address, { method: "POST", body, headers });
    const text = await answer.text();
    await handled.promise;
    response.writeHead(answer.status, { "content-type": "application/json" }).end(text);
  }).listen(0, "127.0.0.1");
  await once(slow, "listening");
  const url = `http://127.0.0.1:${(slow.address() as AddressInfo).port}`;
  const { code, stdout, stderr } = await place.listen(
    ["ci", "--event", "push", "--once", "--receiver", url],
    (text) => {
      if (/\] completed$/m.test(text)) handled.resolve();
    },
  );
  slow.close();
  assert.equal(code, 0, stdout + stderr);
  assert.match(stdout, /\] completed\n[^]*Response \(202\)/);
  assert.equal(await gateway.kill("SIGTERM"), 0);
});

test("listen proves itself the way the route demands: by a preset's signature, a token, a password or the path", async () => {
  await using place = await createPlace();
  const gateway = await place.start();
  const routes = {
    pager: ["--scheme", "pagerduty"],
    chat: ["--scheme", "slack"],
    bot: ["--scheme", "telegram"],
    bear: ["--auth", "bearer"],
    base: ["--auth", "basic"],
    path: ["--auth", "path"],
  };
  for (const [name, options] of Object.entries(routes)) {
    // Neither listens with, nor tests, a secret that its process has read before.
    const made = await place.webhook(["subscribe", name, "--secret", `canary-of-${name}`, ...options]);
    assert.equal(made.code, 0, made.stderr);
    const done = await place.listenInOther(["listen", name, "--event", "push", "--once"]);
    assert.equal(done.code, 0, `${name}: ${done.stdout}${done.stderr}`);
    assert.match(done.stdout, /signature pass/);
    assert.ok(!(done.stdout + done.stderr).includes("canary"), done.stdout);
    const tested = await place.testInOther(["test", name]);
    assert.equal(tested.code, 0, `${name}: ${tested.stdout}`);
    assert.ok(!tested.stdout.includes("canary"), tested.stdout);
  }
  assert.equal(await gateway.kill("SIGTERM"), 0);
});

test("listen shows what other senders deliver, not what was there before, and Ctrl-C ends it with 0", async () => {
  await using place = await createPlace();
  const gateway = await place.start();
  await place.webhook(["subscribe", "ci", "--prompt", "hello {n}", "--secret", "s1"]);
  await place.webhook(["subscribe", "other", "--secret", "s1"]);
  await place.webhook(["listen", "ci", "--event", "earlier", "--once"]);
  let isPosted = false;
  const shown = await place.listen(["ci", "--print"], (text, stop) => {
    if (text.includes("Listening") && !isPosted) {
      isPosted = true;
      void post(`${place.url}/other`, '{"n": 1}').then(() => post(`${place.url}/ci`, '{"n": 2}'));
    }
    if (/\] completed$/m.test(text)) stop();
  });
  assert.equal(shown.code, 0, shown.stderr);
  assert.equal(shown.stdout.match(/dlv_/g)?.length, 1, shown.stdout);
  assert.match(shown.stdout, /payload:\n {2}\{"n": 2\}\n.*prompt:\n {2}.*hello 2/);
  assert.equal(await gateway.kill("SIGTERM"), 0);
});

test("listen sends each line of its input, refuses what is not JSON, and fails when the gateway does not answer", async () => {
  await using place = await createPlace();
  await place.webhook(["subscribe", "ci", "--prompt", "hello {n}", "--secret", "s1"]);
  assert.equal((await place.webhook(["listen", "ci", "--once"])).code, 2);
  const gateway = await place.start();
  const words = ["listen", "ci", "--payload", "-", "--once"];
  const sent = await place.inNewProcess(words, '{"n": 1}\n\n{"n": 2}');
  assert.equal(sent.code, 0, sent.stdout + sent.stderr);
  assert.equal(sent.stdout.match(/\] completed$/gm)?.length, 2, sent.stdout);
  const wrong = await place.inNewProcess(words, 'nope\n{"n": 3}\n');
  assert.equal(wrong.code, 1);
  assert.match(wrong.stderr, /Not sent/);
  assert.match(wrong.stdout, /hello 3/);
  assert.equal(await gateway.kill("SIGTERM"), 0);
  const alone = await place.webhook(["listen", "ci", "--event", "push", "--once"]);
  assert.equal(alone.code, 1);
  assert.match(alone.stdout, /Is the gateway running\?/);
  const unknown = await place.webhook(["listen", "nope"]);
  assert.equal(unknown.code, 1);
  assert.match(unknown.stderr, /Unknown route "nope"/);
});

function post(url: string, body: string): Promise<Response> {
  const headers = {
    "content-type": "application/json",
    "x-github-event": "push",
    "x-hub-signature-256": sign(new TextEncoder().encode(body), "s1"),
  };
  return fetch(url, { method: "POST", body, headers });
}
