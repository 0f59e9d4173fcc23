import assert from "node:assert/strict";
import { test } from "node:test";
import { RequestError, type ContentBlock } from "@agentclientprotocol/sdk/unstable";
import { choose, type AcpClient, type AcpPlace } from "../../harness/acp.ts";
import { sharedAcpPlaces } from "../../harness/acp-shared.ts";
import { asking, deciding, twoSteps } from "../../harness/acp-leave.ts";
import { calling, saying, type Replies } from "../../harness/openai-server.ts";
import { pngBytes } from "../../unit/agent/attachments/images.ts";

const sharedPlace = sharedAcpPlaces();

interface Steering {
  readonly sessionId: unknown;
  readonly prompt: unknown;
  readonly _meta?: unknown;
}

function steer(editor: AcpClient, params: Steering): Promise<unknown> {
  return editor.agent.request("_session/steering", params as never);
}

const text = (value: string): ContentBlock[] => [{ type: "text", text: value }];
const whenIdle = (idleBehavior: unknown) => ({ _meta: { steering: { idleBehavior } } });

/** What users said, in the request number `index` to the model. */
function prompts(place: AcpPlace, index: number): readonly unknown[] {
  const messages = place.models?.requests[index]?.body.messages ?? [];
  return messages.filter(({ role }) => role === "user").map(({ content }) => content);
}

test("steering a running turn injects the text for the model's next step", async () => {
  await using place = await sharedPlace({ replies: twoSteps, config: asking });
  const { editor, asked, allow } = await deciding(place);
  assert.deepEqual(editor.hello._meta, { steering: { supported: true } });
  const sessionId = await editor.session(place.folder);
  const turn = editor.prompt(sessionId, "go");
  await asked;
  const file: ContentBlock = { type: "resource", resource: { uri: "mem:///note", text: "noted" } };
  const prompt = [...text("look left "), file];
  assert.deepEqual(await steer(editor, { sessionId, prompt, ...whenIdle("promptRequired") }), {
    outcome: "injected",
  });
  allow();
  assert.equal((await turn).stopReason, "end_turn");
  assert.deepEqual(prompts(place, 0), ["go"]);
  const [first, second] = prompts(place, 1);
  assert.equal(first, "go");
  assert.match(
    String(second),
    /look left \[@note\]\(mem:\/\/\/note\)\n\nFile "mem:\/\/\/note":\n```\nnoted\n```/,
  );
  assert.equal(place.models?.requests.length, 2);
});

test("a turn that runs in another process can be steered", async () => {
  const json = JSON.stringify({ command: "sleep 0.2" });
  // Works on, step by step, until it is told: the text comes at one of its steps or the turn has no end.
  const replies: Replies = ({ body }, index) =>
    body.messages.some(({ content }) => content === "from elsewhere")
      ? saying("heard")
      : calling({ id: `call_${index}`, name: "terminal", json });
  await using place = await sharedPlace({ replies });
  const editor = await place.start().client({ permission: choose("allow_once") });
  const sessionId = await editor.session(place.folder);
  const turn = editor.prompt(sessionId, "go");
  await editor.until(() =>
    editor.updates("tool_call_update", sessionId).find(({ status }) => status === "in_progress"),
  );
  const other = await place.start().client();
  await other.agent.request("session/resume", { sessionId, cwd: place.folder, mcpServers: [] });
  assert.deepEqual(await steer(other, { sessionId, prompt: text("from elsewhere") }), {
    outcome: "injected",
  });
  assert.equal((await turn).stopReason, "end_turn");
  assert.equal(editor.text(sessionId), "heard");
});

test("steering an idle session with promptRequired answers promptRequired and adds nothing to the conversation", async () => {
  await using place = await sharedPlace({ replies: (_, index) => saying(`answer ${index}`) });
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  const idle = { outcome: "promptRequired", reason: "noRunningTurn" };
  assert.deepEqual(
    await steer(editor, { sessionId, prompt: text("a"), ...whenIdle("promptRequired") }),
    idle,
  );
  await editor.prompt(sessionId, "first");
  assert.deepEqual(
    await steer(editor, { sessionId, prompt: text("b"), ...whenIdle("promptRequired") }),
    idle,
  );
  await editor.prompt(sessionId, "second");
  assert.deepEqual(prompts(place, 1), ["first", "second"]);
  assert.equal(place.models?.requests.length, 2);
});

test("steering an idle session starts a new turn whose updates and failure reach the client", async () => {
  await using place = await sharedPlace({
    replies: (_, index) => (index === 0 ? saying("begun ", "by itself") : { status: 401, body: "{}" }),
  });
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  for (const wish of [{}, whenIdle("startNewTurn")]) {
    assert.deepEqual(await steer(editor, { sessionId, prompt: text("go"), ...wish }), {
      outcome: "startedNewTurn",
    });
    const found = () =>
      /begun by itself$|The turn failed\./.test(editor.text(sessionId)) ? true : undefined;
    await editor.until(found);
    if (wish === whenIdle) continue;
  }
  await editor.until(() => (editor.text(sessionId).includes("The turn failed. ") ? true : undefined));
  assert.match(editor.text(sessionId), /^begun by itselfThe turn failed\. /);
});

test("steering with an image answers promptRequired or starts a new turn with the image", async () => {
  await using place = await sharedPlace({ replies: twoSteps, config: asking });
  const { editor, asked, allow } = await deciding(place);
  const sessionId = await editor.session(place.folder);
  const turn = editor.prompt(sessionId, "go");
  await asked;
  const data = pngBytes(2, 2).toString("base64");
  const prompt: ContentBlock[] = [...text("see"), { type: "image", data, mimeType: "image/png" }];
  assert.deepEqual(await steer(editor, { sessionId, prompt, ...whenIdle("promptRequired") }), {
    outcome: "promptRequired",
    reason: "notText",
  });
  assert.deepEqual(await steer(editor, { sessionId, prompt }), { outcome: "startedNewTurn" });
  allow();
  await turn;
  await editor.until(() => (editor.text(sessionId).endsWith("answer 2") ? true : undefined));
  assert.equal(JSON.stringify(prompts(place, 2).at(-1)).includes(data), true);
  assert.equal(prompts(place, 1).length, 1);
});

test("steering answers -32602 for invalid parameters and -32002 for a session that is not open", async () => {
  await using place = await sharedPlace();
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  const refused = (params: Steering, code: number) =>
    assert.rejects(
      steer(editor, params),
      (error) => error instanceof RequestError && error.code === code && error.message !== "",
    );
  const prompt = text("x");
  const wrong: readonly Steering[] = [
    { sessionId: 1, prompt },
    { sessionId, prompt: undefined },
    { sessionId, prompt: [] },
    { sessionId, prompt: "x" },
    { sessionId, prompt: [null] },
    { sessionId, prompt: [{ type: "text" }] },
    { sessionId, prompt: [{ type: "resource", resource: null }] },
    { sessionId, prompt: [{ type: "audio", data: "", mimeType: "" }] },
    { sessionId, prompt: text(" ") },
    { sessionId, prompt, ...whenIdle("whatever") },
    { sessionId, prompt, ...whenIdle(1) },
  ];
  for (const params of wrong) await refused(params, -32_602);
  await assert.rejects(
    steer(editor, { sessionId: "nowhere", prompt }),
    (error) =>
      error instanceof RequestError &&
      error.code === -32_002 &&
      (error.data as { sessionId: string }).sessionId === "nowhere",
  );
  assert.equal((await editor.prompt(sessionId, "hello")).stopReason, "end_turn");
});
