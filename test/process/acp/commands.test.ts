import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import type { AvailableCommand } from "@agentclientprotocol/sdk/unstable";
import type { AcpClient, AcpPlace, AcpProcess } from "../../harness/acp.ts";
import { sharedAcpPlaces } from "../../harness/acp-shared.ts";
import { asking, deciding, twoSteps } from "../../harness/acp-leave.ts";
import { saying, type Replies } from "../../harness/openai-server.ts";

const sharedPlace = sharedAcpPlaces();

const counted: Replies = (_, index) => saying(`answer ${index}`);

/** What the client sees of one prompt: its text, behind what was there before. */
async function told(editor: AcpClient, sessionId: string, text: string): Promise<string> {
  const before = editor.text(sessionId).length;
  const { stopReason } = await editor.prompt(sessionId, text);
  assert.equal(stopReason, "end_turn", text);
  return editor.text(sessionId).slice(before);
}

/** What users said, in the newest request to the model. */
function prompts({ models }: AcpPlace): readonly unknown[] {
  const messages = models?.requests.at(-1)?.body.messages ?? [];
  return messages.filter(({ role }) => role === "user").map(({ content }) => content);
}

async function addSkill(folder: string, name: string): Promise<void> {
  const skill = join(folder, ".agents", "skills", name);
  await mkdir(skill, { recursive: true });
  await writeFile(
    join(skill, "SKILL.md"),
    `---\nname: ${name}\ndescription: About ${name}\n---\nDo ${name}.\n`,
  );
}

/** Where in the output of the process the commands of a session are told, and where the request `id` is answered. */
function places({ lines }: AcpProcess, sessionId: string) {
  const isTold = (line: (typeof lines)[number]) =>
    JSON.stringify(line).includes('"available_commands_update"') && JSON.stringify(line).includes(sessionId);
  return { told: lines.flatMap((line, at) => (isTold(line) ? [at] : [])) };
}

test("available_commands_update follows the answer of session/new, load, resume and fork", async () => {
  await using place = await sharedPlace({ replies: counted });
  const process = place.start();
  const editor = await process.client();
  assert.match(JSON.stringify(editor.hello.agentCapabilities?._meta), /"slashCommands":true/);
  const sessionId = await editor.session(place.folder);
  const begun = (id: string, count: number) =>
    process.until(() =>
      places(process, id).told.length === count ? places(process, id).told.at(-1) : undefined,
    );
  const answered = (holds: string) =>
    process.lines.findLastIndex((line) => "result" in line && JSON.stringify(line).includes(holds));
  assert.ok((await begun(sessionId, 1)) > answered(sessionId));
  await editor.prompt(sessionId, "hello");
  const saved = { sessionId, cwd: place.folder, mcpServers: [] };
  await editor.agent.request("session/load", saved);
  assert.ok((await begun(sessionId, 2)) > answered("configOptions"));
  await editor.agent.request("session/resume", saved);
  assert.ok((await begun(sessionId, 3)) > answered("configOptions"));
  const fork = await editor.agent.request<{ sessionId: string }>("session/fork", saved);
  const forked = fork.sessionId;
  assert.ok((await begun(forked, 1)) > answered(forked));
});

/** What makes sense behind the names of commands that must have something. */
const ARGUMENTS: Readonly<Record<string, string>> = { steer: " it", queue: " it" };

test("every advertised slash command works", async () => {
  await using place = await sharedPlace({
    replies: counted,
    config:
      "quick_commands:\n  hey: { type: prompt, value: Say hey. }\n  st: { type: alias, value: status }\n",
  });
  await addSkill(place.folder, "tidy-up");
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  const [update] = await editor.until(() => {
    const found = editor.updates("available_commands_update", sessionId);
    return found.length > 0 ? found : undefined;
  });
  const commands: readonly AvailableCommand[] = update?.availableCommands ?? [];
  const names = commands.map(({ name }) => name);
  assert.equal(new Set(names).size, names.length);
  for (const name of ["model", "help", "tools", "context", "reset", "compress", "steer", "queue", "status"]) {
    assert.ok(names.includes(name), name);
  }
  assert.ok(["title", "version", "hey", "st", "tidy-up"].every((name) => names.includes(name)));
  assert.ok(["new", "resume", "background"].every((name) => !names.includes(name)));
  await editor.prompt(sessionId, "begin");
  for (const { name } of commands) {
    const text = `/${name}${ARGUMENTS[name] ?? ""}`;
    const said = await told(editor, sessionId, text);
    assert.notEqual(said, "", text);
    assert.doesNotMatch(said, /No command is named|undefined|\[object/, text);
    assert.notEqual(prompts(place).at(-1), text);
  }
  assert.ok(
    prompts(place).includes("Say hey.") ||
      place.models?.requests.some(({ body }) => JSON.stringify(body.messages).includes("Say hey.")),
  );
});

test("a slash command answers or fails in one message that keeps its lines, without a model call", async () => {
  await using place = await sharedPlace({ replies: counted });
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  assert.match(await told(editor, sessionId, "/version"), /^agentd \d/);
  assert.match(await told(editor, sessionId, " /STATUS"), /^```\nSession {3}\d+_[\s\S]+\n```$/);
  assert.match(await told(editor, sessionId, "/context"), /^```\nContext {4}\d+ of \d+ tokens/);
  assert.equal(await told(editor, sessionId, "/title # My `title`"), "Title: # My `title`");
  assert.match(await told(editor, sessionId, "/undo x"), /^Usage: \/undo \[n\]$/);
  assert.match(await told(editor, sessionId, "/model nowhere:none"), /^Unknown model "nowhere:none"/);
  assert.match(await told(editor, sessionId, "/help nope"), /^No command is named \/nope/);
  assert.match(await told(editor, sessionId, "/new"), /^Start a new session in your editor\.$/);
  const chunks = editor.updates("agent_message_chunk", sessionId);
  assert.equal(new Set(chunks.map(({ messageId }) => messageId)).size, 8);
  assert.equal(place.models?.requests.length, 0);
});

test("an unknown slash command, or one beside other blocks, goes to the model as text", async () => {
  await using place = await sharedPlace({ replies: counted });
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  for (const text of ["/frobnicate now", "/etc/hosts is broken", "say /help", "/", "//help"]) {
    assert.match(await told(editor, sessionId, text), /^answer \d$/);
    assert.equal(prompts(place).at(-1), text);
  }
  const { stopReason } = await editor.agent.request("session/prompt", {
    sessionId,
    prompt: [
      { type: "text", text: "say /status of " },
      { type: "resource_link", uri: "https://example.com/a", name: "a" },
    ],
  });
  assert.equal(stopReason, "end_turn");
  assert.equal(prompts(place).at(-1), "say /status of [@a](https://example.com/a)");
});

test("a slash command takes the mention of a file beside it, and the model gets the file", async () => {
  await using place = await sharedPlace({
    replies: counted,
    config: "quick_commands: { deploy: { type: prompt, value: 'Deploy as described in {args}.' } }\n",
  });
  await writeFile(join(place.folder, "plan.md"), "first the database\n");
  const uri = pathToFileURL(join(place.folder, "plan.md")).href;
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  await editor.agent.request("session/prompt", {
    sessionId,
    prompt: [
      { type: "text", text: "/deploy " },
      { type: "resource_link", uri, name: "plan.md" },
    ],
  });
  const [prompt] = place.models?.requests ?? [];
  const sent = JSON.stringify(prompt?.body.messages.at(-1));
  assert.match(sent, /Deploy as described in \[@plan\.md\]/);
  assert.match(sent, /first the database/);
});

test("slash commands answer during a turn, and one that needs an idle session reports that it is busy", async () => {
  await using place = await sharedPlace({ replies: twoSteps, config: asking });
  const { editor, asked, allow } = await deciding(place);
  const sessionId = await editor.session(place.folder);
  const turn = editor.prompt(sessionId, "go");
  await asked;
  assert.match(await told(editor, sessionId, "/status"), /State {5}running/);
  assert.match(await told(editor, sessionId, "/reset"), /The session is busy/);
  assert.equal(await told(editor, sessionId, "/title while it works"), "Title: while it works");
  allow();
  assert.equal((await turn).stopReason, "end_turn");
});

test("`/steer` during a turn reaches the model at its next step, and `/queue` runs afterwards, also where prompts interrupt", async () => {
  // The configuration of the place ends with its sessions.
  const config = `  when_busy: interrupt\n${asking}`;
  await using place = await sharedPlace({ replies: twoSteps, config });
  const { editor, asked, allow } = await deciding(place);
  const sessionId = await editor.session(place.folder);
  const turn = editor.prompt(sessionId, "go");
  await asked;
  assert.match(await told(editor, sessionId, "/steer look left"), /at its next step/);
  const queued = editor.prompt(sessionId, "/queue afterwards");
  assert.match(await told(editor, sessionId, "/status"), /State {5}running, /);
  allow();
  assert.equal((await turn).stopReason, "end_turn");
  assert.equal((await queued).stopReason, "end_turn");
  assert.deepEqual(
    place.models?.requests.map(({ body }) =>
      body.messages.filter(({ role }) => role === "user").map(({ content }) => content),
    ),
    [["go"], ["go", "look left"], ["go", "look left", "afterwards"]],
  );
  assert.match(editor.text(sessionId), /answer 1answer 2$/);
});

test("`/steer` without a running turn becomes a normal prompt", async () => {
  await using place = await sharedPlace({ replies: counted });
  const editor = await place.start().client({ capabilities: { session: { notices: {} } } });
  const sessionId = await editor.session(place.folder);
  assert.equal(await told(editor, sessionId, "/steer go on"), "answer 0");
  assert.deepEqual(prompts(place), ["go on"]);
  assert.equal(editor.updates("notice", sessionId).at(0)?.title, "No run is active; sent as a prompt.");
});

test("available_commands_update is sent again only when the slash commands change", async () => {
  await using place = await sharedPlace({ replies: counted });
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  const names = () =>
    editor
      .updates("available_commands_update", sessionId)
      .map(({ availableCommands }) => availableCommands.map(({ name }) => name));
  await editor.until(() => names().at(0));
  await told(editor, sessionId, "/reload-mcp");
  await addSkill(place.folder, "fresh");
  await told(editor, sessionId, "/reload-mcp");
  await editor.until(() => (names().at(-1)?.includes("fresh") ? true : undefined));
  assert.equal(names().length, 2);
  assert.equal(await told(editor, sessionId, "/fresh with care"), "answer 0");
  assert.match(String(prompts(place).at(-1)), /skill fresh .* with care$/);
});

test("`/model` selects the model and sends a config_option_update", async () => {
  await using place = await sharedPlace({ replies: counted });
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  assert.match(await told(editor, sessionId, "/model local:other-model"), /^Model: local:other-model/);
  await editor.until(() => {
    const options = editor.updates("config_option_update", sessionId).at(-1)?.configOptions;
    const model = options?.find(({ id }) => id === "model");
    return model && "currentValue" in model && model.currentValue === "local:other-model" ? true : undefined;
  });
  await editor.prompt(sessionId, "hello");
  assert.equal(place.models?.requests.at(-1)?.body.model, "other-model");
});

test("a cancelled slash command answers cancelled", async () => {
  await using place = await sharedPlace({
    config: 'quick_commands:\n  wait: { type: exec, value: "touch began; sleep 600" }\n',
  });
  const editor = await place.start().client();
  const sessionId = await editor.session(place.folder);
  const answer = editor.prompt(sessionId, "/wait");
  const cancel = setInterval(() => void editor.agent.notify("session/cancel", { sessionId }), 100);
  const { stopReason } = await answer.finally(() => clearInterval(cancel));
  assert.equal(stopReason, "cancelled");
  assert.match(await told(editor, sessionId, "/version"), /^agentd/);
});
