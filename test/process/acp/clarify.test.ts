import assert from "node:assert/strict";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import type { CreateElicitationRequest, CreateElicitationResponse } from "@agentclientprotocol/sdk/unstable";
import { createAcpPlace, type AcpClient, type AcpClientOptions, type AcpPlace } from "../../harness/acp.ts";
import { sharedAcpPlaces } from "../../harness/acp-shared.ts";
import { calling, saying, type Replies } from "../../harness/openai-server.ts";

const sharedPlace = sharedAcpPlaces();

const COLOUR = { question: "Which colour?", choices: ["red", "blue"] };
const SIZE = { question: "Which sizes?", choices: ["S", "M", "L"], multi_select: true };
const NAME = { question: "What is its name?" };

/** The model asks what it was told to ask, and says what it learned. */
function asking(...questions: readonly object[]): Replies {
  return callingOnce("clarify", { questions });
}

function callingOnce(name: string, input: object): Replies {
  return ({ body }) => {
    const last = body.messages.at(-1);
    const isFirst = !body.messages.some(({ role }) => role === "tool");
    return last?.["role"] === "user" && isFirst
      ? calling({ id: "call_1", name, json: JSON.stringify(input) })
      : saying(`I heard: ${String(last?.["content"])}`);
  };
}

const forms = { elicitation: { form: {} } };

/** An editor that shows forms, and what it was asked to show. */
async function withForms(
  place: AcpPlace,
  answer: (
    request: CreateElicitationRequest,
  ) => CreateElicitationResponse | Promise<CreateElicitationResponse>,
  options: AcpClientOptions = {},
): Promise<{ editor: AcpClient; asked: CreateElicitationRequest[] }> {
  const asked: CreateElicitationRequest[] = [];
  const editor = await place.start().client({
    capabilities: forms,
    serve: (app) =>
      app.onRequest("elicitation/create", async ({ params }) => {
        asked.push(params);
        return answer(params);
      }),
    ...options,
  });
  return { editor, asked };
}

const permissions = (editor: AcpClient) =>
  editor.seen.flatMap((each) => (each.kind === "permission" ? [each.request] : []));

test("clarify shows its questions in one form, and the model gets the answers", async () => {
  await using place = await sharedPlace({ replies: asking(COLOUR, SIZE, NAME) });
  const content = { q1: "blue", q2: ["S", "L"], q3: "Ada", q9: "what nobody asked" };
  const { editor, asked } = await withForms(place, () => ({ action: "accept", content }));
  const sessionId = await editor.session(place.folder);
  assert.equal((await editor.prompt(sessionId, "go")).stopReason, "end_turn");
  const [form] = asked as (CreateElicitationRequest & {
    readonly requestedSchema: { readonly properties: Readonly<Record<string, object>> };
  })[];
  assert.ok(form);
  assert.equal(form.mode, "form");
  const [call] = editor.updates("tool_call");
  assert.equal((form as { toolCallId?: string }).toolCallId, call?.toolCallId);
  assert.deepEqual(form.requestedSchema.properties["q1"], {
    type: "string",
    title: "Which colour?",
    enum: ["red", "blue"],
  });
  assert.deepEqual(form.requestedSchema.properties["q2"], {
    type: "array",
    title: "Which sizes?",
    items: { type: "string", enum: ["S", "M", "L"] },
  });
  assert.deepEqual(form.requestedSchema.properties["q3"], { type: "string", title: "What is its name?" });
  assert.match(
    editor.text(),
    /Q: Which colour\?\nA: blue\n\nQ: Which sizes\?\nA: S\nL\n\nQ: What is its name\?\nA: Ada$/,
  );
  assert.deepEqual(permissions(editor), []);
});

test("a form accepts the user's own text beside the choices", async () => {
  await using place = await sharedPlace({ replies: asking(COLOUR) });
  const { editor, asked } = await withForms(place, () => ({
    action: "accept",
    content: { q1_own: "green" },
  }));
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "go");
  assert.equal(asked[0]?.message, "Which colour?");
  assert.match(editor.text(), /A: green$/);
});

for (const action of ["decline", "cancel"] as const) {
  test(`a form answered with ${action} skips its questions, and the turn continues`, async () => {
    await using place = await sharedPlace({ replies: asking(COLOUR, NAME) });
    const { editor } = await withForms(place, () => ({ action }));
    const sessionId = await editor.session(place.folder);
    assert.equal((await editor.prompt(sessionId, "go")).stopReason, "end_turn");
    assert.equal(editor.text().match(/A: \(skipped: decide yourself\)/g)?.length, 2);
  });
}

test("a cancel while a form is open withdraws the form and cancels the turn", async () => {
  await using place = await sharedPlace({ replies: asking(NAME) });
  const shown = Promise.withResolvers<void>();
  const { editor } = await withForms(place, () => {
    shown.resolve();
    return new Promise<never>(() => {});
  });
  const sessionId = await editor.session(place.folder);
  const answer = editor.prompt(sessionId, "go");
  await shown.promise;
  await editor.agent.notify("session/cancel", { sessionId });
  assert.equal((await answer).stopReason, "cancelled");
  assert.ok(editor.process.lines.some(({ method }) => method === "$/cancel_request"));
});

test("clarify without form support offers choices as permission requests, one question at a time", async () => {
  await using place = await sharedPlace({
    replies: asking(COLOUR, { question: "Which way?", choices: ["left", "right"] }),
  });
  const picks = ["choice_2", "skip"];
  const editor = await place.start().client({
    permission: () => ({ outcome: { outcome: "selected", optionId: picks.shift() ?? "" } }),
  });
  const sessionId = await editor.session(place.folder);
  assert.equal((await editor.prompt(sessionId, "go")).stopReason, "end_turn");
  const [first, second] = permissions(editor);
  assert.deepEqual(
    first?.options.map(({ optionId, kind, name }) => [optionId, kind, name]),
    [
      ["choice_1", "allow_once", "red"],
      ["choice_2", "allow_once", "blue"],
      ["skip", "reject_once", "Skip this question"],
    ],
  );
  assert.equal(first?.toolCall.title, "Which colour?");
  assert.equal(second?.toolCall.title, "Which way?");
  assert.match(editor.text(), /A: blue\n\nQ: Which way\?\nA: \(skipped: decide yourself\)$/);
});

test("a cancelled permission request of clarify cancels the turn", async () => {
  await using place = await sharedPlace({ replies: asking(COLOUR) });
  const editor = await place.start().client({ permission: () => ({ outcome: { outcome: "cancelled" } }) });
  const sessionId = await editor.session(place.folder);
  assert.equal((await editor.prompt(sessionId, "go")).stopReason, "cancelled");
});

test("clarify without forms or permission requests ends the turn with its questions, and the next prompt answers them", async () => {
  await using place = await sharedPlace({ replies: asking(NAME, SIZE) });
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  assert.equal((await editor.prompt(sessionId, "go")).stopReason, "end_turn");
  assert.equal(editor.text(), "What is its name?\n\nWhich sizes?\n- S\n- M\n- L");
  assert.deepEqual(permissions(editor), []);
  assert.equal((await editor.prompt(sessionId, "Ada, S")).stopReason, "end_turn");
  assert.match(editor.text(), /I heard: Ada, S$/);
  // The model knows what it asked, and that the answer is what follows.
  const { messages } = place.models?.requests.at(-1)?.body ?? { messages: [] };
  assert.deepEqual(
    messages.slice(-4).map(({ role }) => role),
    ["user", "assistant", "tool", "user"],
  );
  assert.match(String(messages.at(-2)?.["content"]), /next message is the answer/);
  assert.equal(
    place.models?.requests.length,
    2,
    "the model is not called between the question and its answer",
  );
});

test("clarify uses permission requests after a form fails, and does not try forms again", async () => {
  await using place = await createAcpPlace({ replies: asking(COLOUR) });
  const { editor, asked } = await withForms(place, () => Promise.reject(new Error("no forms today")), {
    permission: () => ({ outcome: { outcome: "selected", optionId: "choice_1" } }),
  });
  for (let round = 1; round <= 2; round++) {
    const sessionId = await editor.session(place.folder);
    assert.equal((await editor.prompt(sessionId, "go")).stopReason, "end_turn");
    assert.match(editor.text(sessionId), /A: red$/);
  }
  assert.equal(asked.length, 1);
  assert.equal(permissions(editor).length, 2);
});

const SKILL = `---
name: keyed
description: Needs a key.
required_variables:
  - name: KEYED_TOKEN
    prompt: The token of the service
---
Use it.
`;

test("a secret is never requested through a form", async () => {
  await using place = await createAcpPlace({
    replies: callingOnce("skill", { action: "view", name: "keyed" }),
  });
  const skill = join(place.home, "skills", "keyed");
  await mkdir(skill, { recursive: true });
  await writeFile(join(skill, "SKILL.md"), SKILL);
  const { editor, asked } = await withForms(place, () => ({ action: "accept", content: {} }));
  const sessionId = await editor.session(place.folder);
  assert.equal((await editor.prompt(sessionId, "go")).stopReason, "end_turn");
  assert.deepEqual(asked, []);
  assert.deepEqual(permissions(editor), []);
  assert.match(editor.text(), /The secret KEYED_TOKEN is missing/);
  assert.match(editor.text(), /I heard: [^]*KEYED_TOKEN is missing/);
});

test("a password is never requested through a form, and the command gets none", async () => {
  await using place = await createAcpPlace({
    replies: callingOnce("terminal", { command: "sudo sh -c 'echo done > marker'" }),
    config: "approvals: { mode: yolo }\n",
  });
  const bin = join(place.base, "bin");
  await mkdir(bin);
  await writeFile(join(bin, "sudo"), "#!/bin/sh\nexit 1\n");
  await chmod(join(bin, "sudo"), 0o755);
  const asked: unknown[] = [];
  const env = { PATH: `${bin}:${process.env["PATH"] ?? ""}` };
  const editor = await place.start({ env }).client({
    capabilities: { ...forms, session: { notices: {} } },
    serve: (app) =>
      app.onRequest("elicitation/create", ({ params }) => {
        asked.push(params);
        return { action: "cancel" };
      }),
  });
  const sessionId = await editor.session(place.folder);
  assert.equal((await editor.prompt(sessionId, "go")).stopReason, "end_turn");
  assert.deepEqual(asked, []);
  const [notice] = editor.updates("notice");
  assert.match(notice?.title ?? "", /needs a password\. agentd never asks for passwords in an editor/);
  assert.match(editor.text(), /I heard: [^]*needs a password for sudo, and none was given/);
});
