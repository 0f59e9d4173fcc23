import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { constants } from "node:os";
import { test } from "node:test";
import { gatewayEvents, type GatewayEvent } from "../../../generated/gateway/host.gen.ts";
import { rpcSchemas } from "../../../src/rpc/connection/calls.ts";
import { agentdCommand, programEnvironment } from "../../harness/program.ts";
import { KEY, startTestService } from "../../harness/service.ts";
import { createHome } from "../../unit/config/home-folder.ts";

const APPROVAL = "run: rm -rf /nonexistent-folder-x";

interface Started {
  readonly events: readonly GatewayEvent[];
  readonly stderr: string;
  readonly code: number;
}

interface Script {
  /** Standard input at the start; absent: none. */
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Called with each event as it arrives. */
  readonly onEvent?: (
    event: GatewayEvent,
    host: { readonly write: (text: string) => void; readonly kill: (signal: NodeJS.Signals) => void },
  ) => void;
  /** Standard input stays open; `onEvent` writes to it. */
  readonly isOpen?: boolean;
}

/** Runs `agentd chat --json`. Every line of its output must be an event as the specification has it. */
async function chatJson(home: string, words: readonly string[], script: Script = {}): Promise<Started> {
  const { input, env = {}, onEvent = () => {}, isOpen = false } = script;
  const [file, ...args] = agentdCommand("chat", "--json", ...words);
  const child = spawn(file, args, {
    env: programEnvironment({ AGENTD_HOME: home, ...env }),
    stdio: [input === undefined && !isOpen ? "ignore" : "pipe", "pipe", "pipe"],
  });
  if (input !== undefined) child.stdin?.write(input);
  if (!isOpen) child.stdin?.end();
  const host = {
    write: (text: string) => void child.stdin?.write(text),
    kill: (signal: NodeJS.Signals) => void child.kill(signal),
  };
  const events: GatewayEvent[] = [];
  let rest = "";
  let stderr = "";
  child.stderr?.on("data", (bytes: Uint8Array) => (stderr += bytes.toString()));
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const event = JSON.parse(line) as GatewayEvent;
      events.push(event);
      onEvent(event, host);
    }
  });
  const code = await new Promise<number>((resolve) =>
    child.once("close", (status, signal) =>
      resolve(status ?? 128 + (signal ? constants.signals[signal] : 0)),
    ),
  );
  assert.equal(rest, "", "the last line is complete");
  for (const event of events) {
    const { event: schema } =
      gatewayEvents[event.type] ?? assert.fail(`${event.type} is not in the specification`);
    assert.equal(rpcSchemas.check(schema, event), undefined, JSON.stringify(event));
  }
  return { events, stderr, code };
}

const answerOf = ({ events }: Started): string => {
  const last = events.at(-1);
  assert.equal(last?.type, "message.complete");
  return last.type === "message.complete" ? last.payload.text : "";
};

test("each line of chat --json is an event of the specification, and the last one has the whole answer", async () => {
  await using place = await createHome();
  const done = await chatJson(place.home, ["run: echo from-the-tool"]);
  assert.equal(done.code, 0, done.stderr);
  assert.equal(done.stderr, "");
  const types = done.events.map(({ type }) => type);
  for (const type of ["message.start", "message.delta", "tool.start", "tool.complete"] as const)
    assert.ok(types.includes(type), `${type} in ${types.join(" ")}`);
  assert.match(answerOf(done), /from-the-tool/);
  assert.equal(new Set(done.events.map(({ session_id: id }) => id)).size, 1);
});

test("chat --json takes its prompt from standard input and continues a session by its id", async () => {
  await using service = await startTestService({
    script: ({ messages }) => ({ text: `${messages.filter(({ role }) => role === "user").length} prompts` }),
  });
  await using place = await createHome();
  const url = ["--url", service.url];
  const first = await chatJson(place.home, url, { input: "one\n", env: { API_SERVER_KEY: KEY } });
  assert.equal(answerOf(first), "1 prompts", first.stderr);
  const id = first.events[0]?.session_id ?? assert.fail();
  const { port } = new URL(service.url);
  await using attached = await createHome({
    "config.yaml": `api_server:\n  port: ${port}\n`,
    ".env": `API_SERVER_KEY=${KEY}\n`,
  });
  const second = await chatJson(attached.home, ["two", "--attach", "--resume", id]);
  assert.equal(answerOf(second), "2 prompts", second.stderr);
});

test("chat --json refuses questions unless a script answers them", async () => {
  await using place = await createHome();
  const done = await chatJson(place.home, [APPROVAL]);
  assert.match(done.stderr, /Denied: rm -rf/);
  assert.match(answerOf(done), /denied/i);
});

test("chat --json --answers takes the answer to a question from a line of standard input", async () => {
  await using place = await createHome();
  const done = await chatJson(place.home, ["--answers", APPROVAL], {
    isOpen: true,
    onEvent: (event, { write }) => {
      if (event.type !== "approval.request") return;
      write(`not JSON and canary-0123456789\n`);
      write(`${JSON.stringify({ id: "ask_of_nobody", result: { choice: "once" } })}\n`);
      write(`${JSON.stringify({ id: event.payload.request_id, result: { choice: "once" } })}\n`);
    },
  });
  assert.equal(done.code, 0, done.stderr);
  assert.match(answerOf(done), /terminal answered \(ok\)/);
  const errors = done.events.flatMap((event) => (event.type === "error" ? [event.payload] : []));
  assert.deepEqual(
    errors.map(({ code, fatal }) => [code, fatal]),
    [
      ["invalid_answer", false],
      ["no_pending_request", false],
    ],
  );
  assert.ok(!JSON.stringify(errors).includes("canary"), "a line may contain a password");
});

test("a question that is open when the answers end is refused instead of waiting", async () => {
  await using place = await createHome();
  const done = await chatJson(place.home, ["--answers", APPROVAL], { input: "\n" });
  assert.equal(done.code, 0, done.stderr);
  assert.match(answerOf(done), /denied/i);
});

test("a line of standard input that never ends does not fill the memory, and its question is refused", async () => {
  await using place = await createHome();
  const done = await chatJson(place.home, ["--answers", APPROVAL], {
    isOpen: true,
    onEvent: (event, { write }) => {
      if (event.type === "approval.request") write("x".repeat(100_000));
    },
  });
  assert.match(done.stderr, /exceeds 65536 characters/);
  assert.match(answerOf(done), /denied/i);
});

test("a failed turn, a wrong key and no gateway exit with 1 and say why in the last line", async () => {
  await using service = await startTestService({
    script: () => ({ error: { code: "provider_error", message: "The provider is down." } }) as never,
  });
  await using place = await createHome();
  const env = { API_SERVER_KEY: KEY };
  const failed = await chatJson(place.home, ["hi", "--url", service.url], { env });
  assert.equal(failed.code, 1);
  const last = failed.events.at(-1);
  assert.ok(last?.type === "message.complete" && last.payload.status === "error", JSON.stringify(last));
  for (const url of [service.url, "http://127.0.0.1:1"]) {
    const refused = await chatJson(place.home, ["hi", "--url", url, "--token-stdin"], {
      input: "canary-key-0123456789\n",
    });
    const [event, ...others] = refused.events;
    assert.deepEqual([refused.code, others.length], [1, 0], refused.stderr);
    assert.ok(event?.type === "error" && event.payload.fatal, JSON.stringify(event));
    assert.ok(!JSON.stringify(refused).includes("canary"));
  }
});

test("SIGINT interrupts the turn of chat --json, which still ends with its last event and exit code 130", async () => {
  await using place = await createHome();
  const done = await chatJson(place.home, ["run: echo begun; sleep 30"], {
    onEvent: (event, { kill }) => {
      if (event.type === "tool.start") kill("SIGINT");
    },
  });
  assert.equal(done.code, 130, done.stderr);
  const last = done.events.at(-1);
  assert.ok(last?.type === "message.complete" && last.payload.status === "interrupted", JSON.stringify(last));
});
