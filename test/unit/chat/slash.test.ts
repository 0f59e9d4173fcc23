import assert from "node:assert/strict";
import { test } from "node:test";
import { GatewayError } from "../../../src/client/gateway.ts";
import type { GatewayCall } from "../../../src/client/conversation/gateway.ts";
import { parseSlash, runSlash, welcomeText } from "../../../src/client/conversation/slash.ts";

/** A gateway that answers each command, and remembers how it was asked. */
function gateway(answers: Readonly<Record<string, unknown>>): {
  readonly call: GatewayCall;
  readonly asked: string[];
} {
  const asked: string[] = [];
  const call = async (method: string, params: { readonly command: string }) => {
    asked.push(`${method} ${params.command}`);
    const answer = answers[`${method} ${params.command}`];
    if (answer instanceof Error) throw answer;
    return answer;
  };
  return { call: call as GatewayCall, asked };
}

const refusal = (code: number, reason: string) =>
  new GatewayError({ code, message: `no: ${reason}`, data: { reason, retryable: false } });

const run = (call: GatewayCall, text: string) => runSlash(call, { text, sessionId: "s" });

test("a slash begins a command, and a path is a prompt", () => {
  assert.deepEqual(parseSlash("/model demo:demo"), { name: "model", args: "demo:demo" });
  assert.deepEqual(parseSlash("  /New  "), { name: "new", args: "" });
  assert.deepEqual(parseSlash("/queue one\ntwo"), { name: "queue", args: "one\ntwo" });
  for (const text of ["/usr/bin is full", "/", "//", "hello /new", "/ new", "/1"]) {
    assert.equal(parseSlash(text), undefined, text);
  }
});

test("output is printed, and a warning is one", async () => {
  const { call } = gateway({
    "slash.exec version": { output: "1.0" },
    "slash.exec careful": { warning: "Careful." },
  });
  assert.deepEqual(await run(call, "/version"), { output: "1.0", isWarning: false });
  assert.deepEqual(await run(call, "/careful"), { output: "Careful.", isWarning: true });
});

test("what slash.exec leaves to command.dispatch is dispatched", async () => {
  const { call, asked } = gateway({
    "slash.exec deploy now": refusal(4018, "not_dispatchable"),
    "command.dispatch /deploy now": { type: "skill", name: "deploy", message: "Deploy now." },
  });
  assert.deepEqual(await run(call, "/deploy now"), { prompt: "Deploy now." });
  assert.deepEqual(asked, ["slash.exec deploy now", "command.dispatch /deploy now"]);
});

test("other refusals are reported, and nothing is run twice", async () => {
  const { call, asked } = gateway({ "slash.exec undo x": refusal(4004, "command_usage") });
  await assert.rejects(run(call, "/undo x"), /no: command_usage/);
  assert.equal(asked.length, 1);
});

test("an alias is followed, and one that never ends is not", async () => {
  const { call } = gateway({
    "slash.exec h": { type: "alias", target: "/help" },
    "slash.exec help": { type: "exec", output: "Help." },
    "slash.exec round": { type: "alias", target: "/round" },
  });
  assert.equal((await run(call, "/h")).output, "Help.");
  await assert.rejects(run(call, "/round"), /too many aliases/);
});

test("directives say what to submit, to put into the composer, and where to go on", async () => {
  const { call } = gateway({
    "slash.exec retry": { type: "send", message: "again", notice: "Once more." },
    "slash.exec queue later": { type: "send", message: "later", when_busy: "queue" },
    "slash.exec undo": { type: "prefill", message: "before", notice: "Taken back." },
    "slash.exec branch": { type: "exec", output: "Branched.", session_id: "other" },
    "slash.exec quiet": { type: "plugin" },
  });
  assert.deepEqual(await run(call, "/retry"), { output: "Once more.", isWarning: false, prompt: "again" });
  assert.deepEqual(await run(call, "/queue later"), { prompt: "later", mode: "queue" });
  assert.deepEqual(await run(call, "/undo"), { output: "Taken back.", isWarning: false, prefill: "before" });
  assert.deepEqual(await run(call, "/branch"), { output: "Branched.", isWarning: false, sessionId: "other" });
  assert.deepEqual(await run(call, "/quiet"), {});
});

test("a new chat says which model answers, and that the demo model is none", () => {
  const real = welcomeText({ model: "sonnet", provider: "anthropic" });
  assert.match(real, /^anthropic:sonnet answers\..*\nTry:/);
  const demo = welcomeText({ model: "demo", provider: "demo" });
  assert.match(demo, /^The demo model answers.*`agentd setup`.*\nTry/);
});
