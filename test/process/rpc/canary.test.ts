/** Passwords and secrets that are sent through the gateway of a real process, and everything there is searched for them. */
import assert from "node:assert/strict";
import { chmod, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { openStore } from "../../../src/store/open.ts";
import { createGatewayPlace, type GatewayPlace } from "../../harness/gateway.ts";
import { calling, saying, startModelServer, type ModelServer } from "../../harness/openai-server.ts";
import { connectSocket, startRpcProcess, type Json, type RpcHost } from "../../harness/rpc.ts";
import { testDialect } from "../../harness/store.ts";

/** By how they are sent: as answers to events, and as results of requests. Kept in `.env`: the stored ones alone. */
const PASSWORDS = { event: "canary-password-51d2", request: "canary-password-8e07" };
const SECRETS = { event: "canary-secret-3b9f", request: "canary-secret-c44a" };
/** In calls that are refused. */
const REFUSED = "canary-refused-7d10";
const ALL = [...Object.values(PASSWORDS), ...Object.values(SECRETS), REFUSED];

const SKILL = `---
name: keyed
description: Needs two variables.
required_variables:
  - { name: CANARY_ONE, prompt: The first one }
  - { name: CANARY_TWO, prompt: The second one }
---
Use them.
`;
/** Takes any password and, as careless programs do, repeats it. */
const SUDO =
  '#!/bin/sh\n[ "$1" = -n ] && exit 1\n[ "$1" = -A ] && shift\necho "got $($SUDO_ASKPASS | head -n 1)"\nexec "$@"\n';

const CALLS = [
  { name: "skill", json: { action: "view", name: "keyed" } },
  { name: "terminal", json: { command: "sudo sh -c 'echo first'" } },
  { name: "terminal", json: { command: "sudo sh -c 'echo second'" } },
  { name: "terminal", json: { command: 'echo "$CANARY_ONE $CANARY_TWO"; env' } },
];

/** The model calls one after the other, then says what the last one answered. */
function startModel(): Promise<ModelServer> {
  return startModelServer(({ body }) => {
    const answers = body.messages.filter(({ role }) => role === "tool");
    const next = CALLS[answers.length];
    if (!next) return saying(`I saw ${String(answers.at(-1)?.["content"])}`);
    return calling({ id: `call_${answers.length}`, name: next.name, json: JSON.stringify(next.json) });
  });
}

async function furnish(place: GatewayPlace, model: ModelServer): Promise<Record<string, string>> {
  const bin = join(place.home, "bin");
  const skill = join(place.home, "skills", "keyed");
  await Promise.all([mkdir(bin), mkdir(skill, { recursive: true })]);
  await writeFile(join(bin, "sudo"), SUDO);
  await chmod(join(bin, "sudo"), 0o755);
  await writeFile(join(skill, "SKILL.md"), SKILL);
  const config = {
    log: { level: "debug" },
    approvals: { mode: "yolo" },
    model: {
      default: "local:test-model",
      providers: { local: { type: "openai_compatible", base_url: model.baseUrl } },
    },
  };
  await writeFile(join(place.home, "config.yaml"), JSON.stringify(config));
  return { PATH: `${bin}:${process.env["PATH"] ?? ""}` };
}

type Style = "event" | "request";

/** A host, and how it is asked. */
interface Asked {
  readonly host: RpcHost;
  readonly style: Style;
}

/** One turn, in which two secrets and two passwords are asked for; the hosts take turns in answering. */
async function converse(all: readonly [Asked, ...Asked[]]): Promise<string> {
  const [{ host: first }] = all;
  const { session_id: id } = await first.result("session.create");
  for (const { host, style } of all) {
    if (style === "request") await host.result("client.capabilities", { server_requests: true });
    await host.result("session.activate", { session_id: id });
  }
  await first.result("prompt.submit", { session_id: id, text: "go" });
  const answered = new Set<string>();
  for (const [kind, field, sent] of [
    ["secret", "value", SECRETS],
    ["sudo", "password", PASSWORDS],
  ] as const) {
    for (const [at, value] of Object.values(sent).entries()) {
      const asked = all[at % all.length] ?? all[0];
      const request = await nextQuestion(asked, kind, answered);
      await answer(asked, { kind, field, request, session: id }, value);
      answered.add(request);
    }
  }
  await Promise.all(all.map(({ host }) => host.event("message.complete")));
  return id;
}

async function nextQuestion({ host, style }: Asked, kind: string, but: ReadonlySet<string>): Promise<string> {
  if (style === "request") {
    return (await host.frame(({ method, id }) => method === kind && !but.has(id))).id;
  }
  const isNew = ({ payload }: Json) => !but.has(payload.request_id);
  return (await host.event(`${kind}.request`, isNew)).payload.request_id;
}

/** Answers rightly once, and wrongly in every way before and after. */
async function answer(
  { host, style }: Asked,
  about: {
    readonly kind: string;
    readonly field: string;
    readonly request: string;
    readonly session: string;
  },
  value: string,
): Promise<void> {
  const { kind, field, request, session } = about;
  const method = `${kind}.respond`;
  const params = { request_id: request, session_id: session };
  await host.error(method, { ...params, [field]: `${REFUSED}\n` }, -32602);
  await host.error(method, { ...params, [field]: { [REFUSED]: REFUSED } }, -32602);
  await host.error(method, { request_id: `ask_${REFUSED.slice(0, 6)}`, [field]: REFUSED }, 4009);
  const from = host.frames.length;
  host.wire.send(`{"jsonrpc":"2.0","id":99,"method":"${method}","params":{"${field}":"${REFUSED}"`);
  await host.frame((frame) => frame.error?.code === -32700, from);
  if (style === "request") host.send({ jsonrpc: "2.0", id: request, result: { value } });
  else await host.result(method, { ...params, [field]: value });
  await host.event("request.cancel", ({ payload }) => payload.id === request);
  await host.error(method, { ...params, [field]: REFUSED }, 4009);
  host.send({ jsonrpc: "2.0", id: request, result: { value: REFUSED } });
  host.send({ jsonrpc: "2.0", id: request, result: { other: REFUSED } });
}

/** Everything that a host can get to know of the session, at once and later. */
async function askEverything(host: RpcHost, id: string, epoch: string): Promise<void> {
  await host.result("session.resume", { session_id: id, cursor: { epoch, last_seen: 0 } });
  await host.event("message.complete");
  await host.result("session.events.since", { session_id: id, last_seen: 0 });
  await host.result("session.history", { session_id: id });
  for (const key of ["full", "config"]) await host.call("config.get", { key, session_id: id });
  await host.result("session.status", { session_id: id });
  await host.call("slash.exec", { session_id: id, command: "history" });
  await host.call("session.branch", { session_id: id });
}

/** Files below a folder as they are, byte for byte, by their path. */
async function filesIn(folder: string): Promise<[string, string][]> {
  const found: [string, string][] = [];
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    found.push([path, (await readFile(path).catch(() => Buffer.alloc(0))).toString("latin1")]);
  }
  return found;
}

async function databaseOf(place: GatewayPlace): Promise<[string, string][]> {
  if (testDialect === "sqlite") return filesIn(dirname(place.database));
  const store = await openStore({ url: place.database });
  try {
    const tables = [
      "sessions",
      "runs",
      "messages",
      "events",
      "questions",
      "grants",
      "ledger",
      "outbox",
    ] as const;
    const dumps = tables.map(async (table): Promise<[string, string]> => {
      return [table, JSON.stringify(await store.read.selectFrom(table).selectAll().execute())];
    });
    return await Promise.all(dumps);
  } finally {
    await store.close();
  }
}

function assertNowhere(places: readonly (readonly [string, string])[], dotEnv: string): void {
  const kept: readonly string[] = Object.values(SECRETS);
  for (const [where, text] of places) {
    for (const canary of ALL) {
      if (where === dotEnv && kept.includes(canary)) continue;
      for (const form of [canary, Buffer.from(canary).toString("base64").replace(/=+$/, "")]) {
        const at = text.indexOf(form);
        assert.ok(at < 0, `${canary} stands in ${where}: ${text.slice(Math.max(0, at - 200), at + 60)}`);
      }
    }
  }
}

const framesOf = (hosts: readonly RpcHost[]) =>
  hosts.map((host, at): [string, string] => [`frames of host ${at}`, JSON.stringify(host.frames)]);

async function look(
  place: GatewayPlace,
  from: { readonly hosts: readonly RpcHost[]; readonly model: ModelServer; readonly log: () => string },
): Promise<void> {
  const dotEnv = join(place.home, ".env");
  const places: [string, string][] = [
    ...framesOf(from.hosts),
    ["log", from.log()],
    [
      "what the model got",
      JSON.stringify(from.model.requests.map(({ body, headers }) => ({ body, headers }))),
    ],
    ...(await databaseOf(place)),
    ...(await filesIn(place.home)),
  ];
  assertNowhere(places, dotEnv);
  const found = new Map(places);
  for (const secret of Object.values(SECRETS))
    assert.ok(found.get(dotEnv)?.includes(secret), "it is kept in .env");
  assert.match(found.get("what the model got") ?? "", /CANARY_ONE is stored/);
  assert.match(found.get("what the model got") ?? "", /got \[redacted\]/);
  assert.match(found.get("log") ?? "", /"debug"/);
}

for (const style of ["event", "request"] as const) {
  test(`over stdio, answers by ${style}: passwords and secrets are stored only in .env`, async () => {
    await using model = await startModel();
    await using place = await createGatewayPlace();
    const env = { ...(await furnish(place, model)), AGENTD_DATABASE_URL: place.database };
    await using host = await startRpcProcess(place.home, env);
    const id = await converse([{ host, style }]);
    const { payload } = await host.event("gateway.ready");
    await askEverything(host, id, payload.replay_epoch);
    const from = { hosts: [host], model, log: host.stderr };
    await look(place, from);
    host.wire.close();
    await host.wire.closed;
    await look(place, from);
  });
}

test("over WebSockets, two hosts of both styles: passwords and secrets are stored only in .env", async () => {
  await using model = await startModel();
  const env: Record<string, string> = {};
  await using place = await createGatewayPlace(env);
  Object.assign(env, await furnish(place, model));
  const gateway = await place.start();
  const path = `/api/ws?token=${await place.key()}`;
  await using first = await connectSocket(gateway, path);
  await using second = await connectSocket(gateway, path);
  const id = await converse([
    { host: first, style: "event" },
    { host: second, style: "request" },
  ]);
  await using third = await connectSocket(gateway, path);
  const { payload } = await third.event("gateway.ready");
  await askEverything(third, id, payload.replay_epoch);
  const from = { hosts: [first, second, third], model, log: gateway.stderr };
  await look(place, from);
  await gateway.kill("SIGKILL");
  await look(place, from);
});
