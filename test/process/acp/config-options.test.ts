import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { SessionConfigOption } from "@agentclientprotocol/sdk/unstable";
import { createAcpPlace, type AcpClient, type AcpPlace, type AcpPlaceOptions } from "../../harness/acp.ts";
import { sharedAcpPlaces } from "../../harness/acp-shared.ts";
import { load, refused, resume } from "../../harness/acp-sessions.ts";
import { saying } from "../../harness/openai-server.ts";

const sharedPlace = sharedAcpPlaces();

const MODES = ["ask", "accept_edits", "dont_ask", "plan"];
const EFFORTS = ["default", "none", "minimal", "low", "medium", "high", "xhigh"];

/** The model says its own name. */
const echoing: AcpPlaceOptions = { replies: ({ body }) => saying(body.model) };

const connect = (place: AcpPlace, booleans = false) =>
  place.start().client(booleans ? { capabilities: { session: { configOptions: { boolean: {} } } } } : {});

/** Values by the id of their option. */
function valuesOf(options: readonly SessionConfigOption[] | null | undefined): Record<string, unknown> {
  assert.ok(options);
  return Object.fromEntries(options.map(({ id, currentValue }) => [id, currentValue]));
}

function choicesOf(
  options: readonly SessionConfigOption[] | null | undefined,
  id: string,
): readonly string[] {
  const option = options?.find((each) => each.id === id);
  assert.ok(option?.type === "select");
  return option.options.flatMap((each) =>
    ("options" in each ? each.options : [each]).map(({ value }) => value),
  );
}

const set = (editor: AcpClient, sessionId: string, configId: string, value: string) =>
  editor.agent.request("session/set_config_option", { sessionId, configId, value });

/** The last of the updates that tell all options, once it says this. */
const told = (editor: AcpClient, sessionId: string, wanted: Readonly<Record<string, unknown>>) =>
  editor.until(() => {
    const update = editor.updates("config_option_update", sessionId).at(-1);
    const values = update && valuesOf(update.configOptions);
    return values && Object.entries(wanted).every(([id, value]) => values[id] === value) ? update : undefined;
  });

const modeTold = (editor: AcpClient, sessionId: string, mode: string) =>
  editor.until(() =>
    editor.updates("current_mode_update", sessionId).find(({ currentModeId }) => currentModeId === mode),
  );

test("every answer that opens a session holds configOptions and modes with their current values", async () => {
  await using place = await sharedPlace(echoing);
  const editor = await connect(place);
  const made = await editor.agent.request("session/new", { cwd: place.folder, mcpServers: [] });
  assert.deepEqual(valuesOf(made.configOptions), {
    mode: "ask",
    model: "local:test-model",
    thought_level: "default",
  });
  assert.deepEqual(
    made.configOptions?.map(({ category }) => category),
    ["mode", "model", "thought_level"],
  );
  assert.equal(made.modes?.currentModeId, "ask");
  assert.deepEqual(
    made.modes?.availableModes.map(({ id }) => id),
    MODES,
  );
  assert.deepEqual(choicesOf(made.configOptions, "mode"), MODES);
  assert.deepEqual(choicesOf(made.configOptions, "thought_level"), EFFORTS);
  const models = choicesOf(made.configOptions, "model");
  assert.ok(models.includes("local:test-model") && models.includes("local:other-model"));
  const { models: legacy } = made as unknown as {
    readonly models: {
      readonly currentModelId: string;
      readonly availableModels: { readonly modelId: string }[];
    };
  };
  assert.equal(legacy.currentModelId, "local:test-model");
  assert.deepEqual(
    legacy.availableModels.map(({ modelId }) => modelId),
    models,
  );
  const { sessionId } = made;
  await editor.prompt(sessionId, "hello");
  await set(editor, sessionId, "mode", "plan");
  const forked = await editor.agent.request("session/fork", { sessionId, cwd: place.folder, mcpServers: [] });
  const loaded = await load(editor, sessionId, place.folder);
  const resumed = await resume(editor, sessionId, place.folder);
  for (const { modes, configOptions } of [forked, loaded, resumed]) {
    assert.equal(modes?.currentModeId, "plan");
    assert.deepEqual(valuesOf(configOptions), {
      mode: "plan",
      model: "local:test-model",
      thought_level: "default",
    });
  }
});

test("configOptions and modes stay in sync whichever request sets them, and set_config_option returns the full list", async () => {
  await using place = await sharedPlace(echoing);
  const editor = await connect(place);
  const sessionId = await editor.session(place.folder);
  // Before the first prompt nothing of a session is saved; what is chosen is kept all the same.
  const { configOptions } = await set(editor, sessionId, "mode", "accept_edits");
  assert.deepEqual(valuesOf(configOptions), {
    mode: "accept_edits",
    model: "local:test-model",
    thought_level: "default",
  });
  await told(editor, sessionId, { mode: "accept_edits" });
  await modeTold(editor, sessionId, "accept_edits");
  assert.deepEqual(await editor.agent.request("session/set_mode", { sessionId, modeId: "plan" }), {});
  await told(editor, sessionId, { mode: "plan" });
  await modeTold(editor, sessionId, "plan");
  const after = await set(editor, sessionId, "thought_level", "high");
  assert.deepEqual(valuesOf(after.configOptions), {
    mode: "plan",
    model: "local:test-model",
    thought_level: "high",
  });
  await told(editor, sessionId, { thought_level: "high" });
  await editor.prompt(sessionId, "/mode ask");
  await told(editor, sessionId, { mode: "ask", thought_level: "high" });
  await modeTold(editor, sessionId, "ask");
  await set(editor, sessionId, "thought_level", "default");
  await told(editor, sessionId, { thought_level: "default" });
  // One update for each of the five choices, no echo.
  assert.equal(editor.updates("config_option_update", sessionId).length, 5);
  assert.equal(editor.updates("current_mode_update", sessionId).length, 3);
  await editor.prompt(sessionId, "hello");
  const sent = place.models?.requests.at(-1)?.body;
  assert.equal(sent?.["reasoning_effort"], undefined);
});

test("options set concurrently before the session is saved are all kept", async () => {
  await using place = await sharedPlace(echoing);
  const editor = await connect(place);
  const sessionId = await editor.session(place.folder);
  await Promise.all([
    set(editor, sessionId, "mode", "plan"),
    set(editor, sessionId, "model", "local:other-model"),
    set(editor, sessionId, "thought_level", "low"),
  ]);
  const { configOptions } = await set(editor, sessionId, "mode", "accept_edits");
  const wanted = { mode: "accept_edits", model: "local:other-model", thought_level: "low" };
  assert.deepEqual(valuesOf(configOptions), wanted);
  await told(editor, sessionId, wanted);
});

test("a client gets mode and title changes made by another program until it closes the session", async () => {
  await using place = await sharedPlace(echoing);
  const [editor, other] = [await connect(place), await connect(place)];
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "hello");
  await resume(other, sessionId, place.folder);
  await other.agent.request("session/set_mode", { sessionId, modeId: "dont_ask" });
  await told(editor, sessionId, { mode: "dont_ask" });
  await modeTold(editor, sessionId, "dont_ask");
  await other.prompt(sessionId, "/title A fine name");
  const info = await editor.until(() =>
    editor.updates("session_info_update", sessionId).find(({ title }) => title === "A fine name"),
  );
  assert.ok(Math.abs(Date.parse(info.updatedAt ?? "") - Date.now()) < 600_000);
  await editor.agent.request("session/close", { sessionId });
  const count = editor.updates("config_option_update", sessionId).length;
  await set(other, sessionId, "mode", "ask");
  await told(other, sessionId, { mode: "ask" });
  // What the editor closed is told of no more; what happens later, in the same place, to another session of it is.
  const next = await editor.session(place.folder);
  await editor.prompt(next, "hello");
  await resume(other, next, place.folder);
  await set(other, next, "mode", "plan");
  await told(editor, next, { mode: "plan" });
  assert.equal(editor.updates("config_option_update", sessionId).length, count);
});

test("an unknown option id or value answers -32602 with the allowed ones and changes nothing", async () => {
  await using place = await sharedPlace(echoing);
  const editor = await connect(place);
  const sessionId = await editor.session(place.folder);
  const cases: readonly (readonly [Promise<unknown>, RegExp])[] = [
    [set(editor, sessionId, "colour", "red"), /mode, model, thought_level/],
    [set(editor, sessionId, "yolo", "true"), /mode, model, thought_level/],
    [set(editor, sessionId, "mode", "yolo"), /ask, accept_edits, dont_ask, plan/],
    [set(editor, sessionId, "thought_level", "huge"), /default, none, minimal, low, medium, high, xhigh/],
    [set(editor, sessionId, "model", "local:tets-model"), /local:test-model/],
    [set(editor, sessionId, "model", "nowhere:x"), /local:test-model, local:other-model/],
    [set(editor, sessionId, "model", "x".repeat(5_000)), /^.{0,700}$/],
    [
      editor.agent.request("session/set_config_option", {
        sessionId,
        configId: "mode",
        type: "boolean",
        value: true,
      }),
      /ask, accept_edits, dont_ask, plan/,
    ],
    [
      editor.agent.request("session/set_mode", { sessionId, modeId: "code" }),
      /ask, accept_edits, dont_ask, plan/,
    ],
    [editor.agent.request("session/set_model", { sessionId, modelId: "local:nothing" }), /local:test-model/],
    [editor.agent.request("session/set_model", { sessionId }), /modelId/],
    [editor.agent.request("session/set_model", { modelId: "local:test-model" }), /sessionId/],
  ];
  for (const [work, allowed] of cases) {
    const { message } = await refused(work, -32602);
    assert.match(message, allowed);
  }
  const { configOptions } = await set(editor, sessionId, "mode", "ask");
  assert.deepEqual(valuesOf(configOptions), {
    mode: "ask",
    model: "local:test-model",
    thought_level: "default",
  });
});

test("a client that supports boolean options can set `yolo` as one", async () => {
  await using place = await sharedPlace(echoing);
  const editor = await connect(place, true);
  const { sessionId, configOptions } = await editor.agent.request("session/new", {
    cwd: place.folder,
    mcpServers: [],
  });
  assert.equal(valuesOf(configOptions)["yolo"], false);
  const after = await editor.agent.request("session/set_config_option", {
    sessionId,
    configId: "yolo",
    type: "boolean",
    value: true,
  });
  assert.equal(valuesOf(after.configOptions)["yolo"], true);
  await told(editor, sessionId, { yolo: true });
  await refused(set(editor, sessionId, "yolo", "false"), -32602);
  await editor.prompt(sessionId, "/yolo off");
  await told(editor, sessionId, { yolo: false });
});

test("`acp.legacy_models: false` omits the models field for older clients, and session/set_model still works", async () => {
  await using place = await sharedPlace({ config: "acp: { legacy_models: false }\n" });
  const editor = await connect(place);
  const made = await editor.agent.request("session/new", { cwd: place.folder, mcpServers: [] });
  assert.deepEqual(Object.keys(made).toSorted(), ["configOptions", "modes", "sessionId"]);
  const model = "demo:demo";
  assert.deepEqual(choicesOf(made.configOptions, "model"), [model]);
  const { sessionId } = made;
  assert.deepEqual(await editor.agent.request("session/set_model", { sessionId, modelId: model }), {});
});

test("a model change applies to one session only and survives a resume", async () => {
  await using place = await sharedPlace(echoing);
  const first = place.start();
  const editor = await first.client();
  const [a, b] = [await editor.session(place.folder), await editor.session(place.folder)];
  await set(editor, a, "model", "local:other-model");
  await Promise.all([editor.prompt(a, "who?"), editor.prompt(b, "who?")]);
  assert.deepEqual([editor.text(a), editor.text(b)], ["other-model", "test-model"]);
  assert.deepEqual(editor.updates("config_option_update", b), []);
  first.child.stdin?.end();
  await first.exited;

  const again = await connect(place);
  for (const [sessionId, model] of [
    [a, "local:other-model"],
    [b, "local:test-model"],
  ] as const) {
    const { configOptions } = await resume(again, sessionId, place.folder);
    assert.equal(valuesOf(configOptions)["model"], model);
    await again.prompt(sessionId, "who?");
    assert.equal(again.text(sessionId), model.slice("local:".length));
  }
});

test("`/model`, set_config_option and session/set_model select a model alike, and each sends one config_option_update", async () => {
  await using place = await sharedPlace(echoing);
  const editor = await connect(place);
  const ways: readonly ((sessionId: string, model: string) => Promise<unknown>)[] = [
    (sessionId, model) => editor.prompt(sessionId, `/model ${model}`),
    (sessionId, model) => set(editor, sessionId, "model", model),
    (sessionId, modelId) => editor.agent.request("session/set_model", { sessionId, modelId }),
  ];
  for (const way of ways) {
    const sessionId = await editor.session(place.folder);
    await way(sessionId, "local:other-model");
    const update = await told(editor, sessionId, { model: "local:other-model" });
    assert.deepEqual(
      update.configOptions.map(({ id }) => id),
      ["mode", "model", "thought_level"],
    );
    const said = editor.text(sessionId).length;
    await editor.prompt(sessionId, "who?");
    assert.equal(editor.text(sessionId).slice(said), "other-model");
    assert.equal(editor.updates("config_option_update", sessionId).length, 1);
  }
});

test("a model that is no longer configured stays selected, and prompts fail until another is selected", async () => {
  await using place = await createAcpPlace(echoing);
  const first = place.start();
  const editor = await first.client();
  const sessionId = await editor.session(place.folder);
  await editor.prompt(sessionId, "who?");
  await set(editor, sessionId, "model", "local:other-model");
  first.child.stdin?.end();
  await first.exited;
  const file = join(place.home, "config.yaml");
  const config = await readFile(file, "utf8");
  await writeFile(file, config.replaceAll("local:", "here:"));

  const again = await connect(place);
  const { configOptions } = await resume(again, sessionId, place.folder);
  assert.equal(valuesOf(configOptions)["model"], "local:other-model");
  assert.ok(choicesOf(configOptions, "model").includes("local:other-model"));
  const asked = place.models?.requests.length;
  const { message } = await refused(again.prompt(sessionId, "who?"), -32603);
  assert.match(message, /local:other-model, is no longer configured. Choose another/);
  assert.equal(place.models?.requests.length, asked, "no other model got the conversation");
  await set(again, sessionId, "model", "here:other-model");
  await again.prompt(sessionId, "who?");
  assert.equal(again.text(sessionId), "other-model");
});
