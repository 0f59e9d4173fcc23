import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { constants } from "node:os";
import { test } from "node:test";
import { connectSocket } from "../../harness/rpc.ts";
import { KEY, startTestService } from "../../harness/service.ts";
import { createHome } from "../../unit/config/home-folder.ts";
import type { Outcome } from "../../harness/agentd.ts";
import { agentdCommand, programEnvironment } from "../../harness/program.ts";

interface Piped {
  readonly words?: readonly string[];
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Nobody reads stderr. */
  readonly isDeaf?: boolean;
  /** Called with all that stands on stderr so far. */
  readonly onStderr?: (text: string, kill: (signal: NodeJS.Signals) => void) => void;
}

/** `agentd chat` between pipes. */
async function chat(
  home: string,
  { words = [], input, env = {}, isDeaf = false, onStderr }: Piped,
): Promise<Outcome> {
  const [file, ...args] = agentdCommand("chat", ...words);
  const child = spawn(file, args, {
    env: programEnvironment({ AGENTD_HOME: home, ...env }),
    stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout?.on("data", (bytes: Uint8Array) => (stdout += bytes.toString()));
  child.stderr?.on("data", (bytes: Uint8Array) => {
    stderr += bytes.toString();
    onStderr?.(stderr, (signal) => void child.kill(signal));
  });
  if (isDeaf) child.stderr?.destroy();
  child.stdin?.end(input);
  // As shells count: Deno tells of an exit code of that size as of a signal.
  const code = await new Promise<number>((resolve) =>
    child.once("close", (status, signal) =>
      resolve(status ?? 128 + (signal ? constants.signals[signal] : 0)),
    ),
  );
  return { code, stdout, stderr };
}

test("`echo hi | agentd chat` on a fresh home prints the answer and nothing else", async () => {
  await using place = await createHome();
  const { code, stdout, stderr } = await chat(place.home, { input: "hi\n" });
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^\[demo model\] [\s\S]*You said: "hi"/);
  assert.ok(stdout.endsWith("\n"));
  assert.equal(stderr, "");
});

test("a user whose home folder does not exist, as users of services, gets an answer", async () => {
  await using place = await createHome();
  const { code, stdout, stderr } = await chat(place.home, {
    input: "hi\n",
    env: { HOME: "/nonexistent/home" },
  });
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^\[demo model\]/);
});

test("tools are reported on stderr, and stdout has the answer only", async () => {
  await using place = await createHome();
  const { code, stdout, stderr } = await chat(place.home, { words: ["run: echo from-the-tool"] });
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^\[demo model\] terminal answered \(ok\):\n[\s\S]*from-the-tool/);
  assert.match(stderr, /^terminal: .*echo from-the-tool/);
});

test("the answer is printed even when stderr is not read", async () => {
  await using place = await createHome();
  const { code, stdout } = await chat(place.home, { words: ["run: echo from-the-tool"], isDeaf: true });
  assert.equal(code, 0);
  assert.match(stdout, /from-the-tool/);
});

test("what is piped in stands behind the words of the command line", async () => {
  await using place = await createHome();
  const { code, stdout } = await chat(place.home, { words: ["What is this?"], input: "some text" });
  assert.equal(code, 0);
  assert.match(stdout, /What is this\?\\n\\nsome text/);
});

test("a conversation continues with --continue and with --resume", async () => {
  await using service = await startTestService({
    script: ({ messages }) => ({ text: `${messages.filter(({ role }) => role === "user").length} prompts` }),
  });
  await using place = await createHome();
  const url = ["--url", service.url];
  const env = { API_SERVER_KEY: KEY };
  assert.equal((await chat(place.home, { words: ["one", ...url], env })).stdout, "1 prompts\n");
  assert.equal((await chat(place.home, { words: ["two", "--continue", ...url], env })).stdout, "2 prompts\n");
  await using host = await connectSocket(service);
  const { session_id: id } = await host.result("session.most_recent", {});
  assert.equal(
    (await chat(place.home, { words: ["three", "--resume", id, ...url], env })).stdout,
    "3 prompts\n",
  );
  const wrong = await chat(place.home, { words: ["four", "--resume", "nothing of this name", ...url], env });
  assert.deepEqual([wrong.code, wrong.stdout], [1, ""]);
  assert.ok(!wrong.stderr.includes("    at "), wrong.stderr);
});

test("--attach finds the gateway of the home by its configuration and its key", async () => {
  await using service = await startTestService({ script: () => ({ text: "the one that runs" }) });
  const { port } = new URL(service.url);
  await using place = await createHome({
    "config.yaml": `api_server:\n  port: ${port}\n`,
    ".env": `API_SERVER_KEY=${KEY}\n`,
  });
  const { code, stdout, stderr } = await chat(place.home, { words: ["hi", "--attach"] });
  assert.deepEqual([code, stdout], [0, "the one that runs\n"], stderr);
});

test("an approval that cannot be given is denied, with a message", async () => {
  await using place = await createHome();
  const { code, stdout, stderr } = await chat(place.home, { words: ["run: rm -rf /nonexistent-folder-x"] });
  assert.equal(code, 0, stderr);
  assert.match(stderr, /Denied: .*rm -rf \/nonexistent-folder-x/);
  assert.match(stdout, /denied|refused/i);
});

test("a failed turn is an exit code, and its reason stands on stderr", async () => {
  await using service = await startTestService({
    script: () => ({ error: { code: "provider_error", message: "The provider is down." } }) as never,
  });
  await using place = await createHome();
  const { code, stdout, stderr } = await chat(place.home, {
    words: ["hi", "--url", service.url],
    env: { API_SERVER_KEY: KEY },
  });
  assert.deepEqual([code, stdout], [1, ""]);
  assert.match(stderr, /provider/i);
});

test("a wrong key and a closed port are reported in one line without the key", async () => {
  await using service = await startTestService();
  await using place = await createHome();
  const canary = "canary-key-0123456789";
  const refused = await chat(place.home, { words: ["hi", "--url", service.url, "--token", canary] });
  assert.deepEqual([refused.code, refused.stdout], [1, ""]);
  assert.ok(!refused.stderr.includes(canary), refused.stderr);
  const absent = await chat(place.home, { words: ["hi", "--url", "http://127.0.0.1:1", "--token", canary] });
  assert.deepEqual([absent.code, absent.stdout], [1, ""]);
  assert.ok(!absent.stderr.includes(canary) && !absent.stderr.includes("    at "), absent.stderr);
});

test("--url and --attach say whether no gateway answers, the key is wrong, or a key is needed", async () => {
  await using service = await startTestService();
  const seen: (string | undefined)[] = [];
  const other = createServer((request, response) => {
    seen.push(request.headers.authorization, request.url);
    response.end("{}");
  }).listen(0, "127.0.0.1");
  await once(other, "listening");
  const otherUrl = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
  const port = (url: string) => `api_server:\n  port: ${new URL(url).port}\n`;
  const env = { API_SERVER_KEY: "not-the-key-0123456789" };
  const gone = await startTestService();
  const goneUrl = gone.url;
  await gone[Symbol.asyncDispose]();
  for (const [url, keyed, wanted] of [
    [goneUrl, env, `No gateway listens at ${goneUrl}. `],
    [otherUrl, env, `No gateway answers at ${otherUrl}. `],
    [service.url, env, `The key is wrong: the gateway at ${service.url} refuses it. `],
    [service.url, {}, `The gateway at ${service.url} needs a key. `],
  ] as const) {
    await using place = await createHome();
    const explicit = await chat(place.home, { words: ["hi", "--url", url], env: keyed });
    await using own = await createHome({ "config.yaml": port(url) });
    const attached = await chat(own.home, { words: ["hi", "--attach"], env: keyed });
    for (const { code, stdout, stderr } of [explicit, attached]) {
      assert.deepEqual([code, stdout, stderr.startsWith(wanted)], [1, "", true], stderr);
      assert.equal(stderr.trim().split("\n").length, 1, stderr);
      assert.doesNotMatch(stderr, /1006|not-the-key/);
    }
  }
  other.close();
  await once(other, "close");
  assert.deepEqual(new Set(seen), new Set([undefined, "/health"]), "the other program does not get the key");
});

test("nothing to ask, and words that contradict each other, are mistakes of the caller", async () => {
  await using place = await createHome();
  for (const words of [
    [],
    ["hi", "--continue", "--resume", "x"],
    ["hi", "--url", "nonsense"],
    ["hi", "--token", "x"],
  ]) {
    const { code, stdout, stderr } = await chat(place.home, { words });
    assert.deepEqual([code, stdout], [2, ""], stderr);
    assert.match(stderr, /Usage: agentd chat/);
  }
});

test("SIGINT interrupts the turn, and the exit code is 130", async () => {
  await using place = await createHome();
  let isSent = false;
  const { code, stderr } = await chat(place.home, {
    words: ["run: echo begun; sleep 30"],
    onStderr: (text, kill) => {
      if (isSent || !text.includes("terminal:")) return;
      isSent = true;
      kill("SIGINT");
    },
  });
  assert.equal(code, 130, stderr);
});
