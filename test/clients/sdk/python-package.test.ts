import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { testTool } from "../../harness/agent.ts";
import { oncePerFile } from "../../harness/guard.ts";
import { startCuttingProxy } from "../../harness/cutting-proxy.ts";
import { programEnvironment } from "../../harness/program.ts";
import { KEY, startTestService } from "../../harness/service.ts";
import { missingPython, python, pythonSdk } from "./toolchain.ts";

const scripts = join(import.meta.dirname, "python");
const READ_KEY = "read-key-0123456789abcdef";
const ANSWER = "Every word of this comes as a piece of its own, and none is lost: äöü \u{1f40d}. ".repeat(4);

const skip = missingPython() ?? false;

/** What mypy knows of each file by its content, also of the standard library: later runs find it. */
const checked = join(import.meta.dirname, "../../../node_modules/.cache/mypy");

/** Compiled files stay out of the repository; what one test compiled, the next one finds. */
const cacheFolder = oncePerFile(async () => {
  const path = await mkdtemp(join(tmpdir(), "agentd-python-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
});

/** Runs Python with the package on its path, not installed, and returns what it printed. Every warning is an error. */
async function runPython(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  const { path: cache } = await cacheFolder();
  const child = spawn(python, ["-W", "error", ...args], {
    cwd: scripts,
    env: programEnvironment({
      PYTHONPATH: `${pythonSdk}:${scripts}`,
      PYTHONPYCACHEPREFIX: cache,
      MYPY_CACHE_DIR: checked,
      ...env,
    }),
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
  return output;
}

/** Writes each example of the README into `folder`, with the address of the service, and returns the files by heading. */
async function writeExamples(folder: string, url: string): Promise<ReadonlyMap<string, string>> {
  const readme = await readFile(join(pythonSdk, "README.md"), "utf8");
  const files = new Map<string, string>();
  for (const [, heading = "", code = ""] of readme.matchAll(
    /^## ([^\n]+)\n[^#]*?^```python\n([^]*?)^```$/gm,
  )) {
    const file = join(folder, `example_${heading.toLowerCase().replaceAll(/\W+/g, "_")}.py`);
    await writeFile(file, code.replaceAll("http://127.0.0.1:8642", url));
    files.set(heading, file);
  }
  return files;
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

/** The model of the examples: it cleans a folder, which needs approval, and has one answer to everything else. */
const exampleScript: Script = ({ user, step, toolResults }) => {
  if (!user.startsWith("Clean")) return { text: "the answer" };
  if (step === 0) return { calls: [{ tool: "terminal", input: { command: "rm -rf build" } }] };
  return { text: toolResults.map(({ status, text }) => `${status}: ${text}`).join() };
};

async function* holdUntil(signal: AbortSignal): AsyncGenerator<string> {
  yield "held";
  if (signal.aborted) return;
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}

test("python: every file of the package compiles", { skip }, async () => {
  await runPython(["-m", "compileall", "-q", pythonSdk]);
});

test("python: the package passes mypy --strict", { skip }, async () => {
  await runPython(["-m", "mypy", "--strict", join(pythonSdk, "agentd_client")]);
});

test("python: the parts of the package", { skip }, async () => {
  await runPython(["-m", "unittest", "test_parts"]);
});

test("python: both clients on the wire, against broken servers and connections", { skip }, async () => {
  await runPython(["-m", "unittest", "test_wire"]);
});

test("python: the examples of the README pass mypy --strict and do what they say", { skip }, async () => {
  await using service = await startTestService({
    script: exampleScript,
    tools: [testTool(() => Promise.resolve("it ran"))],
  });
  const folder = await mkdtemp(join(tmpdir(), "agentd-examples-"));
  try {
    const files = await writeExamples(folder, service.url);
    await runPython(["-m", "mypy", "--strict", ...files.values()]);
    const printed: Record<string, string> = {};
    for (const [heading, file] of files) {
      printed[heading] = await runPython([file], { API_SERVER_KEY: KEY });
    }
    assert.deepEqual(printed, {
      "The first call": "the answer\n",
      Streams: "the answer",
      "Runs and approvals": "ok: it ran",
      "The change feed": "session.created by default\n",
      asyncio: printed["asyncio"],
      Errors: printed["Errors"],
      "The gateway": "approved: rm -rf build\nok: it ran\n",
    });
    assert.match(printed["asyncio"] ?? "", /^ok\n(?:agentd\n)+$/);
    assert.match(printed["Errors"] ?? "", /^404 run_not_found .+ req_\w+\n$/);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

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
  await runPython(["-m", "unittest", "test_live"], {
    API_SERVER_KEY: "",
    AGENTD_URL: service.url,
    AGENTD_KEY: KEY,
    AGENTD_READ_KEY: READ_KEY,
    AGENTD_ANSWER: ANSWER,
    AGENTD_CUT_URLS: narrow.map(({ url }) => url).join(),
    AGENTD_WIDE_CUT_URLS: wide.map(({ url }) => url).join(),
  });
  for (const { cuts } of [...narrow, ...wide]) assert.ok(cuts >= 2, `only ${cuts} cuts`);
});
