import assert from "node:assert/strict";
import { test } from "node:test";
import { defineTool } from "../../../src/agent/tool/tool.ts";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { startCuttingProxy } from "../../harness/cutting-proxy.ts";
import { startTestService } from "../../harness/service.ts";
import { shown, socketOf, startChat } from "./session.ts";

/** `stall` waits for `release`; `ask <kind>` calls the tool that asks; all else is said back. */
function scripted(): { readonly script: Script; readonly release: () => void } {
  const gate = Promise.withResolvers<void>();
  async function* slowly(signal: AbortSignal) {
    yield "Wai";
    const stopped = new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    await Promise.race([gate.promise, stopped]);
    yield "ted.";
  }
  const script: Script = ({ user, toolResults, signal }) => {
    const kind = /^ask (\w+)/.exec(user)?.[1];
    if (kind !== undefined && toolResults.length === 0) {
      return { text: "I ask.", calls: [{ tool: "asker", input: { kind } }] };
    }
    if (toolResults.length > 0) return { text: `The tool said ${toolResults.at(-1)?.text}` };
    return user.startsWith("stall")
      ? { text: slowly(signal) }
      : { reasoning: "Hm.", text: `You said ${user}` };
  };
  return { script, release: gate.resolve };
}

const asker = defineTool<{ readonly kind: string }>({
  name: "asker",
  toolset: "test",
  description: "Asks the person",
  parameters: { type: "object", properties: { kind: { type: "string" } }, required: ["kind"] },
  inspect: ({ kind }) =>
    kind === "approval"
      ? { kind: "command", title: "Run: rm -rf /x", command: "rm -rf /x" }
      : { kind: "tool", title: "Ask", effect: "none" },
  run: async ({ kind }, { questions }) => {
    if (kind === "approval") return "it was allowed";
    if (kind === "sudo")
      return (await questions.sudo("apt install x")) === undefined ? "nothing" : "a password";
    if (kind === "broken") throw new Error(`cannot use ${await questions.sudo("apt install y")}`);
    if (kind === "secret") return questions.secret({ envVar: "SOME_KEY", prompt: "The key of some service" });
    const asked = { id: "q", question: "Which one?", choices: ["red", "blue"], multi_select: false };
    return JSON.stringify(await questions.clarify([asked]));
  },
});

test("a prompt streams its reasoning and its answer, and the status line knows the model", async () => {
  await using service = await startTestService(scripted());
  await using one = await startChat(socketOf(service));
  one.chat.submit("hello");
  await one.answered("assistant: You said hello");
  assert.deepEqual(shown(one.state()), ["user: hello", "reasoning: Hm.", "assistant: You said hello"]);
  assert.equal(one.state().live.length, 0);
  const { status, session } = await one.until((state) => state.status.totalTokens > 0 && state);
  assert.ok(status.model !== "" && (status.contextMax ?? 0) > 0);
  assert.match(session?.id ?? "", /^\d{8}_\d{6}_\w+$/);
  assert.deepEqual(one.state().composer.history, ["hello"]);
});

test("a prompt that is sent before the session is open is answered once it is", async () => {
  await using service = await startTestService(scripted());
  await using one = await startChat(socketOf(service), { kind: "new" }, (chat) => chat.submit("early"));
  await one.answered("assistant: You said early");
});

test("a prompt during a turn waits in the queue and is answered after it", async () => {
  const { script, release } = scripted();
  await using service = await startTestService({ script });
  await using one = await startChat(socketOf(service));
  one.chat.submit("stall");
  await one.until(({ turn }) => turn);
  one.chat.submit("second", "queue");
  const [queued] = await one.until(({ queue }) => queue.length > 0 && queue);
  assert.equal(queued?.preview, "second");
  release();
  await one.answered("assistant: You said second");
  assert.deepEqual(one.state().queue, []);
  assert.deepEqual(
    shown(one.state()).filter((line) => !line.startsWith("reasoning")),
    ["user: stall", "assistant: Waited.", "user: second", "assistant: You said second"],
  );
});

for (const command of ["/queue", "/q"]) {
  test(`${command} interrupts no turn, though prompts do`, async () => {
    const { script, release } = scripted();
    await using service = await startTestService({
      script,
      config: { sessions: { when_busy: "interrupt" } },
    });
    await using one = await startChat(socketOf(service));
    one.chat.submit("stall");
    await one.until(({ turn }) => turn);
    one.chat.submit(`${command} second`);
    const [queued] = await one.until(({ queue }) => queue.length > 0 && queue);
    assert.equal(queued?.preview, "second");
    release();
    await one.answered("assistant: You said second");
    assert.ok(shown(one.state()).includes("assistant: Waited."), shown(one.state()).join("\n"));
  });
}

test("a steer during a turn appears in the transcript", async () => {
  const { script, release } = scripted();
  await using service = await startTestService({ script });
  await using one = await startChat(socketOf(service));
  one.chat.submit("stall");
  await one.until(({ turn }) => turn);
  one.chat.submit("be brief", "steer");
  await one.until((state) => shown(state).includes("user: be brief"));
  release();
  await one.until(({ turn }) => turn === undefined);
});

test("Ctrl-C interrupts the turn, and pressed twice without a turn leaves", async () => {
  await using service = await startTestService(scripted());
  await using one = await startChat(socketOf(service));
  one.chat.submit("stall");
  await one.until(({ live }) => live.some((item) => item.kind === "assistant"));
  one.chat.interrupt();
  await one.until(({ turn }) => turn === undefined);
  assert.ok(
    shown(one.state()).some((line) => /^notice: .*(interrupt|cancel|stop)/i.test(line)),
    shown(one.state()).join("\n"),
  );
  one.chat.interrupt();
  assert.equal(one.state().isLeaveArmed, true);
  assert.equal(one.left.aborted, false);
  one.chat.interrupt();
  assert.equal(one.left.aborted, true);
});

test("an approval is asked, and its answer lets the tool run", async () => {
  await using service = await startTestService({ ...scripted(), tools: [asker] });
  await using one = await startChat(socketOf(service));
  one.chat.submit("ask approval");
  const question = await one.asked("approval");
  assert.equal(question.command, "rm -rf /x");
  assert.ok(question.choices.includes("once") && question.choices.includes("deny"));
  one.chat.answer(question.id, { kind: "approval", choice: "once" });
  await one.answered(/^assistant: The tool said it was allowed/);
  one.chat.submit("ask approval");
  const again = await one.asked("approval");
  one.chat.interrupt();
  await one.answered(/^assistant: The tool said (?!it was allowed)/);
  assert.ok(!one.state().questions.some(({ id }) => id === again.id));
});

test("a clarification is asked, and its answer goes to the tool", async () => {
  await using service = await startTestService({ ...scripted(), tools: [asker] });
  await using one = await startChat(socketOf(service));
  one.chat.submit("ask clarify");
  const question = await one.asked("clarify");
  assert.equal(question.question, "Which one?");
  assert.deepEqual(question.choices, ["red", "blue"]);
  one.chat.answer(question.id, { kind: "clarify", answer: "blue" });
  await one.answered(/^assistant: The tool said .*blue/);
  assert.deepEqual(one.state().questions, []);
});

test("Ctrl-C refuses a question and not the turn", async () => {
  await using service = await startTestService({ ...scripted(), tools: [asker] });
  await using one = await startChat(socketOf(service));
  one.chat.submit("ask sudo");
  await one.asked("sudo");
  one.chat.interrupt();
  await one.answered(/^assistant: The tool said nothing/);
});

test("passwords and secrets go to the gateway and stand in no state", async () => {
  const canary = "canary-7c1f-password";
  await using service = await startTestService({ ...scripted(), tools: [asker] });
  await using one = await startChat(socketOf(service));
  let seen = "";
  one.chat.submit("ask sudo");
  const sudo = await one.asked("sudo");
  one.chat.answer(sudo.id, { kind: "sudo", password: canary });
  await one.answered(/^assistant: The tool said a password/);
  seen += JSON.stringify(one.state());
  one.chat.submit("ask secret");
  const secret = await one.asked("secret");
  assert.equal(secret.envVar, "SOME_KEY");
  one.chat.answer(secret.id, { kind: "secret", value: canary });
  await one.answered(/^assistant: The tool said stored/);
  seen += JSON.stringify(one.state());
  assert.ok(!seen.includes(canary));
  one.chat.submit("ask broken");
  one.chat.answer((await one.asked("sudo")).id, { kind: "sudo", password: canary });
  await one.answered(/^assistant: The tool said .*failed inside the server/);
  assert.match(service.logLines.join("\n"), /cannot use \[redacted\]/);
  assert.ok(!service.logLines.join("\n").includes(canary));
});

test("an answer of another client takes the question away", async () => {
  await using service = await startTestService({ ...scripted(), tools: [asker] });
  await using one = await startChat(socketOf(service));
  one.chat.submit("ask clarify");
  const question = await one.asked("clarify");
  const ref = one.state().session?.id ?? "";
  await using two = await startChat(socketOf(service), { kind: "saved", ref });
  const same = await two.asked("clarify");
  assert.equal(same.id, question.id);
  two.chat.answer(same.id, { kind: "clarify", answer: "red" });
  await one.answered(/^assistant: The tool said .*red/);
  assert.deepEqual(one.state().questions, []);
  assert.ok(
    shown(one.state()).some((line) => line.startsWith("notice: The question was answered elsewhere")),
  );
});

test("a session that is resumed shows its conversation", async () => {
  await using service = await startTestService(scripted());
  await using one = await startChat(socketOf(service));
  one.chat.submit("hello");
  await one.answered("assistant: You said hello");
  const ref = one.state().session?.id ?? "";
  for (const target of [{ kind: "saved", ref } as const, { kind: "recent" } as const]) {
    await using two = await startChat(socketOf(service), target);
    assert.deepEqual(shown(two.state()), ["user: hello", "reasoning: Hm.", "assistant: You said hello"]);
    assert.deepEqual(two.state().composer.history, ["hello"]);
  }
  await assert.rejects(startChat(socketOf(service), { kind: "saved", ref: "nothing of this name" }));
});

test("a session that is entered in the middle of a turn shows it to its end", async () => {
  const { script, release } = scripted();
  await using service = await startTestService({ script });
  await using one = await startChat(socketOf(service));
  one.chat.submit("stall");
  await one.until(({ live }) => live.some((item) => item.kind === "assistant"));
  const ref = one.state().session?.id ?? "";
  await using two = await startChat(socketOf(service), { kind: "saved", ref });
  assert.ok(two.state().turn);
  assert.deepEqual(shown(two.state()), ["user: stall", "assistant: Wai"]);
  release();
  await two.answered("assistant: Waited.");
  assert.deepEqual(shown(two.state()), ["user: stall", "assistant: Waited."]);
});

test("the session picker lists the sessions, and a row that is picked is shown", async () => {
  await using service = await startTestService(scripted());
  await using one = await startChat(socketOf(service));
  one.chat.submit("first");
  await one.answered("assistant: You said first");
  const first = one.state().session?.id ?? "";
  one.chat.submit("/new");
  await one.until(({ session }) => session?.id !== first);
  one.chat.submit("other");
  await one.answered("assistant: You said other");
  one.chat.submit("/sessions");
  const rows = await one.until(
    ({ picker }) => picker?.kind === "sessions" && !picker.isLoading && picker.rows,
  );
  assert.deepEqual(
    rows.map(({ id, isCurrent }) => [id === first, isCurrent]),
    [
      [false, true],
      [true, false],
    ],
  );
  const { generation } = one.state();
  one.chat.pick(first);
  await one.until(({ session }) => session?.id === first);
  assert.equal(one.state().picker, undefined);
  assert.ok(one.state().generation > generation);
  assert.ok(shown(one.state()).includes("assistant: You said first"));
});

test("events of a session that was left are not shown in the next one", async () => {
  const { script, release } = scripted();
  await using service = await startTestService({ script });
  await using one = await startChat(socketOf(service));
  one.chat.submit("stall");
  await one.until(({ turn }) => turn);
  const first = one.state().session?.id;
  one.chat.submit("/new");
  await one.until(({ session }) => session?.id !== first);
  release();
  one.chat.submit("hello");
  await one.answered("assistant: You said hello");
  assert.deepEqual(
    shown(one.state()).filter((line) => line.startsWith("user")),
    ["user: hello"],
  );
});

test("commands of the gateway are run and their output is shown", async () => {
  await using service = await startTestService(scripted());
  await using one = await startChat(socketOf(service));
  one.chat.submit("/version");
  await one.until((state) => shown(state).find((line) => /^notice: .*\d/.test(line)));
  one.chat.submit("/nonsense");
  await one.until((state) => shown(state).find((line) => /^notice: .*nonsense/.test(line)));
  assert.equal(one.state().settled.at(-1)?.kind, "notice");
});

test("/undo takes the turn off the screen and puts the prompt back", async () => {
  await using service = await startTestService(scripted());
  await using one = await startChat(socketOf(service));
  one.chat.submit("hello");
  await one.answered("assistant: You said hello");
  one.chat.submit("/undo");
  const prefill = await one.until(({ composer }) => composer.prefill);
  assert.equal(prefill.text, "hello");
  await one.until((state) => !shown(state).includes("user: hello"));
});

test("a slash is completed to commands, those of the chat among them", async () => {
  await using service = await startTestService(scripted());
  await using one = await startChat(socketOf(service));
  one.chat.edit("/se");
  const { completions } = await one.until(
    ({ composer }) => composer.completionsFor === "/se" && composer.completions.length > 0 && composer,
  );
  assert.ok(completions.some(({ text }) => text === "/sessions"));
  assert.ok(completions.every(({ text }) => text.startsWith("/se")));
  one.chat.edit("no command");
  await one.until(({ composer }) => composer.completionsFor === "no command");
  assert.deepEqual(one.state().composer.completions, []);
});

test("a failure is shown with what to do next", async () => {
  await using service = await startTestService(scripted());
  await using one = await startChat(socketOf(service));
  one.chat.submit("/resume nothing of this name");
  const last = await one.until(({ settled }) => settled.at(-1)?.kind === "notice" && settled.at(-1));
  assert.ok(last.kind === "notice" && last.level === "error");
  one.chat.submit("hello");
  await one.answered("assistant: You said hello");
});

test("a cut is shown, and missed events are recovered without loss or repetition", async () => {
  const { script, release } = scripted();
  await using service = await startTestService({ script });
  await using proxy = await startCuttingProxy(service.url, Number.POSITIVE_INFINITY);
  await using one = await startChat(socketOf(proxy));
  const states: string[] = [];
  const seeing = one.until(({ connection }) => {
    if (states.at(-1) !== connection.kind) states.push(connection.kind);
    return states.includes("reconnecting") && connection.kind === "ready";
  });
  one.chat.submit("stall");
  await one.until(({ live }) => live.some((item) => item.kind === "assistant"));
  proxy.cut();
  release();
  await seeing;
  await one.answered("assistant: Waited.");
  one.chat.submit("hello");
  await one.answered("assistant: You said hello");
  assert.deepEqual(
    shown(one.state()).filter((line) => !line.startsWith("reasoning")),
    ["user: stall", "assistant: Waited.", "user: hello", "assistant: You said hello"],
  );
});
