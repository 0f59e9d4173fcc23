import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { RequestError } from "@agentclientprotocol/sdk/unstable";
import { createAcpPlace, type AcpClient, type AcpPlace } from "../../harness/acp.ts";
import { saying } from "../../harness/openai-server.ts";

interface Method {
  readonly id: string;
  readonly type?: string;
  readonly args?: readonly string[];
  readonly _meta?: Readonly<Record<string, unknown>>;
}

/** The error that a request is answered with. */
async function refusal(asked: Promise<unknown>): Promise<RequestError> {
  const error = await asked.then(
    () => assert.fail("it was not refused"),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof RequestError, String(error));
  return error;
}

const authenticate = (editor: AcpClient, methodId: string) =>
  editor.agent.request("authenticate", { methodId });

/** As `refusal`, of a request that needs a provider which is not there. */
async function missing(asked: Promise<unknown>): Promise<string> {
  const { code, message, data } = await refusal(asked);
  assert.equal(code, -32_000, message);
  assert.deepEqual(
    (data as { readonly authMethods: readonly Method[] }).authMethods.map(({ id }) => id),
    ["provider"],
  );
  return message;
}

function configure({ home }: AcpPlace, config: string): Promise<void> {
  return writeFile(join(home, "config.yaml"), config);
}

const KEYLESS =
  'model:\n  default: openai:gpt-5.1\n  providers:\n    openai: { type: openai, base_url: "URL" }\n';

test("the terminal auth method is offered only to clients that support it", async () => {
  await using place = await createAcpPlace();
  const program = place.start({ args: [] });
  const plain = await program.client();
  const methods = (each: AcpClient) => each.hello.authMethods as readonly Method[];
  assert.deepEqual(
    methods(plain).map(({ id, type }) => [id, type]),
    [["provider", undefined]],
  );

  const able = await place.start().client({ capabilities: { auth: { terminal: true } } });
  const [, terminal] = methods(able);
  assert.deepEqual([terminal?.id, terminal?.type, terminal?.args], ["setup", "terminal", ["--setup"]]);
  assert.equal(terminal?._meta, undefined);

  const older = await place.start().client({ capabilities: { _meta: { "terminal-auth": true } } });
  const told = methods(older)[1]?._meta?.["terminal-auth"] as Record<string, unknown>;
  assert.deepEqual(Object.keys(told), ["command", "args", "env", "label"]);
  assert.deepEqual((told["args"] as string[]).slice(-2), ["acp", "--setup"]);
  assert.deepEqual(told["env"], { AGENTD_HOME: place.home });
});

test("authenticate refuses an unknown or terminal method with -32602, and the demo model counts as a provider", async () => {
  await using place = await createAcpPlace();
  const editor = await place.start().client({ capabilities: { auth: { terminal: true } } });
  for (const id of ["nobody", "setup"]) assert.equal((await refusal(authenticate(editor, id))).code, -32_602);
  assert.deepEqual(await authenticate(editor, "provider"), {});
  await editor.session(place.folder);
});

test("session requests answer -32000 with authMethods without a provider, and work without a restart once one is configured", async () => {
  await using place = await createAcpPlace({ replies: [saying("from the provider")] });
  const mended = KEYLESS.replace("URL", place.models?.baseUrl ?? "");
  await configure(place, mended);
  const editor = await place.start({ env: { OPENAI_API_KEY: "" } }).client();
  const { agent } = editor;
  const where = { cwd: place.folder, mcpServers: [] };
  const told = await missing(agent.request("session/new", where));
  assert.match(told, /openai:gpt-5\.1 is not usable: its provider has no API key\. Run `agentd setup/);
  const saved = { ...where, sessionId: "nothing" };
  await missing(agent.request("session/load", saved));
  await missing(agent.request("session/resume", saved));
  await missing(agent.request("session/fork", saved));
  await missing(authenticate(editor, "provider"));
  // What needs no model goes on working.
  assert.deepEqual((await agent.request("session/list", {})).sessions, []);
  assert.deepEqual(await agent.request("session/delete", { sessionId: "nothing" }), {});

  await writeFile(join(place.home, ".env"), "OPENAI_API_KEY=key-of-another-process\n", { mode: 0o600 });
  assert.deepEqual(await authenticate(editor, "provider"), {});
  const sessionId = await editor.session(place.folder);
  assert.equal((await editor.prompt(sessionId, "hello")).stopReason, "end_turn");
  assert.equal(editor.text(), "from the provider");
});

test("an invalid configuration or unknown provider fails session requests until it is corrected, without a restart", async () => {
  await using place = await createAcpPlace();
  await configure(place, "model:\n  default: nobody:model\n");
  const editor = await place.start().client();
  assert.match(await missing(editor.session(place.folder)), /model\.default .*nobody:model/);
  await configure(place, "model: {{\n");
  assert.match(await missing(authenticate(editor, "provider")), /config\.yaml/);
  await configure(place, "model:\n  detect_local: false\n");
  assert.deepEqual(await authenticate(editor, "provider"), {});
  const sessionId = await editor.session(place.folder);
  assert.equal((await editor.prompt(sessionId, "hello")).stopReason, "end_turn");

  // An open session keeps the agent it began with; nothing it has is lost to a look at the configuration.
  await configure(place, "model:\n  detect_local: false\nsessions:\n  max_live: 7\n");
  assert.deepEqual(await authenticate(editor, "provider"), {});
  assert.equal((await editor.prompt(sessionId, "again")).stopReason, "end_turn");
});

test("session/new accepts a key that was saved without authenticate", async () => {
  await using place = await createAcpPlace();
  await configure(place, KEYLESS.replace("URL", "http://127.0.0.1:9"));
  const editor = await place.start({ env: { OPENAI_API_KEY: "" } }).client();
  await missing(editor.session(place.folder));
  await mkdir(place.home, { recursive: true });
  await writeFile(join(place.home, ".env"), "OPENAI_API_KEY=key\n", { mode: 0o600 });
  await editor.session(place.folder);
});

test("sessions can be listed and deleted while the variable of the key is not set, and authenticate names it", async () => {
  await using place = await createAcpPlace({ replies: [saying("from the provider")] });
  const provider = `{ type: openai_compatible, base_url: "${place.models?.baseUrl}", models: [m], api_key: "env:OWN_KEY" }`;
  await configure(place, `model:\n  default: local:m\n  providers:\n    local: ${provider}\n`);
  const editor = await place.start().client();
  const { agent } = editor;
  assert.deepEqual((await agent.request("session/list", {})).sessions, []);
  assert.deepEqual(await agent.request("session/delete", { sessionId: "nothing" }), {});
  assert.match(await missing(editor.session(place.folder)), /the variable OWN_KEY, which is not set/);
  assert.match(await missing(authenticate(editor, "provider")), /OWN_KEY/);
  await writeFile(join(place.home, ".env"), "OWN_KEY=a-key-that-came-later\n", { mode: 0o600 });
  const sessionId = await editor.session(place.folder);
  assert.equal((await editor.prompt(sessionId, "hello")).stopReason, "end_turn");
  assert.equal(place.models?.requests[0]?.headers["authorization"], "Bearer a-key-that-came-later");
});

test("authenticate refuses a key that the provider has rejected, until the key is another one or a turn succeeds", async () => {
  let isRejecting = false;
  await using place = await createAcpPlace({
    replies: () => (isRejecting ? { status: 401, body: "{}" } : saying("well")),
  });
  await configure(place, KEYLESS.replace("URL", place.models?.baseUrl ?? ""));
  await writeFile(join(place.home, ".env"), "OPENAI_API_KEY=first-key\n", { mode: 0o600 });
  const editor = await place.start({ env: { OPENAI_API_KEY: "" } }).client();
  const sessionId = await editor.session(place.folder);
  const reject = async () => {
    isRejecting = true;
    assert.equal((await refusal(editor.prompt(sessionId, "hello"))).code, -32_000);
    assert.match(await missing(authenticate(editor, "provider")), /agentd setup/);
    isRejecting = false;
  };
  await reject();
  assert.equal((await editor.prompt(sessionId, "hello")).stopReason, "end_turn");
  assert.deepEqual(await authenticate(editor, "provider"), {});
  await reject();
  await writeFile(join(place.home, ".env"), "OPENAI_API_KEY=second-key\n", { mode: 0o600 });
  assert.match(await missing(authenticate(editor, "provider")), /Restart the agent/);
  await editor.agent.request("session/close", { sessionId });
  assert.deepEqual(await authenticate(editor, "provider"), {});
});
