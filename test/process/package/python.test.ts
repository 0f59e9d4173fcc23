import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { testTool } from "../../harness/agent.ts";
import { startCuttingProxy } from "../../harness/cutting-proxy.ts";
import { programEnvironment } from "../../harness/program.ts";
import { KEY, startTestService } from "../../harness/service.ts";

const sdk = join(import.meta.dirname, "../../../generated/sdk/python");
const scripts = join(import.meta.dirname, "python");
const READ_KEY = "read-key-0123456789abcdef";
const ANSWER = "Every word of this comes as a piece of its own, and none is lost: äöü \u{1f40d}. ".repeat(4);

/** What keeps the tests of this file from running; undefined when nothing does. */
function missingPython(): string | undefined {
  const found = spawnSync("python3", ["-c", "import sys; print(*sys.version_info[:2])"], {
    encoding: "utf8",
  });
  if (found.status !== 0) return "there is no python3 on this machine";
  const [major = 0, minor = 0] = found.stdout.trim().split(" ").map(Number);
  return major === 3 && minor >= 10 ? undefined : `python3 is ${major}.${minor}, and the package needs 3.10`;
}

const skip = missingPython() ?? false;

/** Runs python3 with the package on its path, not installed. Every warning is an error. */
async function python(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<void> {
  const cache = await mkdtemp(join(tmpdir(), "agentd-python-"));
  try {
    const child = spawn("python3", ["-W", "error", ...args], {
      cwd: scripts,
      // Compiled files stay out of the repository.
      env: programEnvironment({ PYTHONPATH: `${sdk}:${scripts}`, PYTHONPYCACHEPREFIX: cache, ...env }),
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (chunk: string) => (output += chunk));
    }
    const status = await new Promise<number | null>((resolve, reject) => {
      child.on("error", reject).on("close", resolve);
    });
    assert.equal(status, 0, output);
    // What Python cannot raise it prints: a connection left open, a task nobody awaited.
    assert.doesNotMatch(output, /ResourceWarning|never awaited|never retrieved|was destroyed but/, output);
  } finally {
    await rm(cache, { recursive: true, force: true });
  }
}

/** The model of the live tests: the prompt says what it does. */
const script: Script = ({ user, messages, signal, step, toolResults }) => {
  if (user === "count") return { text: `${messages.length} messages` };
  if (user === "fail") return { text: "begun", error: { code: "provider_error", message: "hung up" } };
  if (user === "hold") return { text: holdUntil(signal) };
  if (user === "ask me" && step === 0) {
    return { calls: [{ tool: "terminal", input: { command: "rm -rf it" } }] };
  }
  if (user === "ask me") return { text: toolResults.map(({ status, text }) => `${status}: ${text}`).join() };
  // Slower than pieces are merged, so that there are several.
  return { text: ANSWER, chunkSize: 40, delayMs: 10 };
};

async function* holdUntil(signal: AbortSignal): AsyncGenerator<string> {
  yield "held";
  if (signal.aborted) return;
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}

test("python: every file of the package compiles", { skip }, () => python(["-m", "compileall", "-q", sdk]));

test("python: the parts of the package", { skip }, () => python(["-m", "unittest", "test_parts"]));

test("python: both clients on the wire, against broken servers and connections", { skip }, () =>
  python(["-m", "unittest", "test_wire"]),
);

test("python: both clients against the service, through proxies that cut", { skip }, async () => {
  await using service = await startTestService({
    script,
    config: { telemetry: { metrics: true } },
    tools: [testTool(() => Promise.resolve("it ran"))],
    keys: [
      { key: KEY, name: "all", scopes: ["admin"] },
      { key: READ_KEY, name: "reader", scopes: ["read"] },
    ],
  });
  await using proxies = new AsyncDisposableStack();
  const open = (sizes: readonly number[]) =>
    Promise.all(sizes.map(async (bytes) => proxies.use(await startCuttingProxy(service.url, bytes))));
  const narrow = await open([1100, 1303, 1777]);
  const wide = await open([2111, 3001, 4444]);
  await python(["-m", "unittest", "test_live"], {
    AGENTD_URL: service.url,
    AGENTD_KEY: KEY,
    AGENTD_READ_KEY: READ_KEY,
    AGENTD_ANSWER: ANSWER,
    AGENTD_CUT_URLS: narrow.map(({ url }) => url).join(),
    AGENTD_WIDE_CUT_URLS: wide.map(({ url }) => url).join(),
  });
  for (const { cuts } of [...narrow, ...wide]) assert.ok(cuts >= 2, `only ${cuts} cuts`);
});
