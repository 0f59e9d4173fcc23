/** Every command of the installed package runs: what only the packed bundle lacks fails here. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { test } from "node:test";
import { rootCommand } from "../../../src/cli/root.ts";
import { saying, startModelServer } from "../../harness/openai-server.ts";
import { startPlatform } from "../../harness/platforms/fake.ts";
import { startTerminal, terminalIsMissing } from "../../harness/terminal.ts";
import { installPackage } from "./installed.ts";
import { commandsOf, Smoke, type Row } from "./smoke.ts";

test("every command of the installed package runs, prints what it is for, and shows its usage", async (t) => {
  const telegram = await startPlatform(t, [
    { method: "POST", path: /^\/bot[^/]+\/sendMessage$/, answer: () => ({ status: 403, body: REFUSED }) },
  ]);
  await using models = await startModelServer(() => saying("hello"));
  await using installed = await installPackage();
  const commands = await commandsOf(rootCommand);
  const smoke = new Smoke(installed, commands, { isKept: true });
  // In parts, so that the suite shows progress on a slow machine.
  for (const [what, work] of [
    ["webhooks, runs and messages", () => webhooks(smoke, telegram.url)],
    ["scheduled jobs", () => schedule(smoke)],
    ["conversations", () => conversations(smoke)],
    ["providers", () => providers(smoke, models.baseUrl)],
    ["the configuration", () => configuration(smoke)],
  ] as const) {
    await t.test(`the commands that work on ${what} of a home`, () => smoke.all([work]));
  }
  await t.test("the help of every command", () =>
    smoke.help(commands.map(({ names, isGroup }) => [names, usageOf(names, isGroup)])),
  );
  assert.ok(smoke.failures.length === 0, smoke.failures.join("\n"));
  const missing = commands.filter(({ names, isGroup }) => !isGroup && !smoke.ran.has(names.join(" ")));
  assert.deepEqual(
    missing.map(({ names }) => names.join(" ")),
    [],
    "commands without a row in this file",
  );
});

const REFUSED = { ok: false, description: "Forbidden: bot was kicked" };

function usageOf(names: readonly string[], isGroup: boolean): RegExp {
  return new RegExp(`^Usage: ${["agentd", ...names].join(" ")} ${isGroup ? "[<[]command[\\]>]" : ""}`, "m");
}

async function configuration(smoke: Smoke): Promise<void> {
  const home = await smoke.home();
  await smoke.run(
    home,
    [["--help"], usageOf([], true)],
    [["--version"], /^agentd \d+\.\d+\.\d+ \(node /],
    [["help", "config"], usageOf(["config"], true)],
    [["completion", "bash"], /^complete -o default -F _agentd agentd$/m],
    [["version", "--json"], /"version": "\d/],
    [["spec"], /^http\ngateway\n/],
    [["mock", "--example"], /^answers:$/m],
    [
      ["conformance", "--gateway", "no-such-program", "--only", "is gateway.ready"],
      /^0 passed, 1 failed$/m,
      1,
    ],
    [["spec", "gateway"], /"openrpc": ?"1/],
    [["config", "path"], /\/config\.yaml$/m],
    [["config", "set", "log.level", "warn"], /^set log\.level in /],
    [["backup", join(home, "..", `${basename(home)}-backup`)], /^Backed up \S+ to \S+: \d+ files?, /],
    [["restore", join(home, "..", `${basename(home)}-backup`), "--dry-run"], / is intact: \d+ files?, /],
    [["service", "install", "--print", "--manager", "systemd"], /^ExecStart=\/\S+/m],
    [["service", "status", "--manager", "systemd"], /^Not installed: /, 1],
    [["service", "uninstall", "--manager", "systemd"], /^Nothing to remove: /],
    [["config", "get", "log.level"], /^warn$/m],
    [["config", "get"], /^api_server:\n(?: .*\n)* {2}port: 8642$/m],
    [["config", "get", "model.providers", "--json"], /^\{\}$/m],
    [["config", "unset", "log.level", "--json"], /"changed": true/],
    [["config", "check", "--json"], /"valid": true/],
    [["gateway", "setup", "--yes"], /:8644\/webhooks/],
    [["platforms", "list", "--json"], /"name": "telegram"/],
    [["acp", "--bootstrap", "--json"], new RegExp(`"${smoke.installed.program}"`)],
    [["acp", "--check"], /is ready/],
    [["config", "gte"], /did you mean "get"/, 2],
  );
}

async function providers(smoke: Smoke, baseUrl: string): Promise<void> {
  const home = await smoke.home();
  const box = ["--provider", "openai_compatible", "--name", "box", "--base-url", baseUrl];
  await smoke.run(
    home,
    [["setup", ...box, "--model", "small"], /config\.yaml/],
    [["model", "show"], /^box:small$/m],
    [["model", "list"], /^box {2}/m],
    [["model", "set", "box:other"], /box:other/],
    [["model", "test", "--json"], /"ok": true/],
    [["model", "detect", "--json"], /"servers": \[/],
    [["config", "set", "api_server.port", String(await smoke.freePort())], /api_server\.port/],
    [["doctor", "--json"], /"name": "model"/],
  );
}

/** What is said is kept, shown, exported and deleted; then the commands that hold a conversation open. */
async function conversations(smoke: Smoke): Promise<void> {
  const home = await smoke.home();
  await smoke.run(home, [["chat", "run: echo from-the-tool"], /from-the-tool/]);
  const listed = await smoke.run(home, [["sessions", "list", "--json"], /"sessions": \[\n/]);
  const { sessions } = JSON.parse(listed) as { readonly sessions: readonly { readonly id: string }[] };
  const id = sessions[0]?.id ?? "";
  await smoke.run(
    home,
    [["sessions", "show", id], /from-the-tool/],
    [["sessions", "export", id, "--format", "markdown"], /from-the-tool/],
    [["sessions", "delete", id, "--yes"], new RegExp(id)],
    [["sessions", "show", id], new RegExp(id), 1],
  );
  await smoke.serve(
    home,
    ["rpc"],
    [{ jsonrpc: "2.0", id: 1, method: "ping" }, /"gateway\.ready"[\s\S]*"pong":true/],
  );
  const initialize = { jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: 1 } };
  await smoke.serve(home, ["acp"], [initialize, /"protocolVersion":1/]);
  if (terminalIsMissing) return;
  await using terminal = await startTerminal({
    command: [smoke.installed.program, "chat"],
    cwd: smoke.installed.elsewhere,
    env: smoke.installed.environment({ AGENTD_HOME: home }),
  });
  await terminal.shows("demo:demo");
  await terminal.press("C-d");
  assert.equal(await terminal.ended(), 0);
}

async function schedule(smoke: Smoke): Promise<void> {
  const home = await smoke.home();
  const file = join(home, "jobs.json");
  const every = { kind: "interval", minutes: 60, display: "every 60m" };
  await writeFile(file, JSON.stringify([{ id: "0123456789ab", name: "old", prompt: "x", schedule: every }]));
  await smoke.run(
    home,
    [["cron", "create", "0 9 * * *", "Say hello.", "--name", "tea"], /^Created job: [0-9a-f]{12}$/m],
    [["cron", "add", "every 1d", "Say bye.", "--name", "bye", "--json"], /"name": "bye"/],
    [["cron", "import", file], /Imported 1 of 1 job/],
    [["keys", "create", "phone", "--scopes", "read"], /^agk_[\w-]{43}$/m],
    [["keys", "list"], /phone[\s\S]*read/],
    [["keys", "rotate", "phone", "--json"], /"key": "agk_/],
    [["keys", "revoke", "phone"], /revoked phone/],
    [["cron", "list"], /bye[\s\S]*tea/],
    [["cron", "edit", "tea", "--prompt", "Say hi."], /tea/],
    [["cron", "show", "tea"], /Say hi\./],
    [["cron", "pause", "tea"], /Paused job: tea/],
    [["cron", "resume", "tea"], /Next run: +\d{4}-/],
    [["cron", "run", "tea"], /Triggered job: tea/],
    [["cron", "tick"], /Ran 1 job:\n {2}tea .*: ok/],
    [["cron", "runs", "tea", "--json"], /"status": "ok"/],
    [["cron", "history", "tea"], /^occ_\S+ .* ok /m],
    [["cron", "status", "--json"], /"state": "none"/],
    [["outbox", "list", "--json"], /"platform": "cron_output"/],
    [["cron", "remove", "tea", "--yes"], /Removed job: tea/],
    [["cron", "rm", "bye", "--yes"], /Removed job: bye/],
    [["cron", "delete", "0123456789ab", "--yes"], /Removed job: old/],
  );
}

/** A gateway takes a webhook in, and owes a message that the platform refuses. */
async function webhooks(smoke: Smoke, telegramUrl: string): Promise<void> {
  const home = await smoke.home();
  const extra = { host: "127.0.0.1", port: await smoke.freePort() };
  const platforms = {
    webhook: { enabled: true, extra },
    telegram: { token: "1:abc", base_url: telegramUrl },
  };
  await writeFile(join(home, "config.yaml"), JSON.stringify({ platforms }), { mode: 0o600 });
  await using gateway = await smoke.gateway(home);
  assert.equal((await fetch(`${gateway.url}/health`)).status, 200);
  const target = ["--deliver", "telegram", "--deliver-chat-id=-42", "--deliver-only"];
  await smoke.run(
    home,
    [["webhook", "subscribe", "ci", "--prompt", "hello {n}", ...target], /\/webhooks\/ci/],
    [["webhook", "add", "plain", "--prompt", "hello", "--json"], /"secret": "/],
    [["webhook", "list"], /ci[\s\S]*plain/],
    [["webhook", "ls", "--json"], /"name": "ci"/],
    [["webhook", "test", "plain", "--payload", '{"n":1}'], /Response \(202\)/],
    [["webhook", "listen", "plain", "--event", "push", "--once"], /\] completed/],
    [["platforms", "test", "telegram", "--chat-id=-42"], /bot was kicked/, 1],
    [["webhook", "test", "ci", "--payload", '{"n":1}'], /Response \(\d+\)/, 1],
  );
  await hookRecords(smoke, home);
  await runs(smoke, home, gateway.url);
  await outbox(smoke, home);
  await smoke.run(
    home,
    [["webhook", "remove", "ci"], /ci/],
    [["webhook", "rm", "plain", "--json"], /"plain"/],
  );
  assert.equal(await gateway.stop(), 0);
}

async function hookRecords(smoke: Smoke, home: string): Promise<void> {
  const row: Row = [["webhook", "deliveries", "list", "--route", "plain", "--json"], /"id": "dlv_/];
  const id = /"id": "(dlv_\w+)"/.exec(await smoke.run(home, row))?.[1] ?? "";
  await smoke.run(
    home,
    [["webhook", "deliveries", "show", id], /plain/],
    [["webhook", "deliveries", "replay", id, "--dry-run"], /render +pass/],
  );
}

/** The run of the webhook. */
async function runs(smoke: Smoke, home: string, url: string): Promise<void> {
  const port = ["--port", new URL(url).port];
  const row: Row = [["runs", "list", "--json"], /"run_id": "run_/];
  const id = /"run_id": "(run_\w+)"/.exec(await smoke.run(home, row))?.[1] ?? "";
  await smoke.run(
    home,
    [["status", ...port], /^Gateway +http:\/\/\S+, agentd \d/],
    [["logs", "-n", "5"], /INFO {2}listening {2}url=/],
    [["usage", "--by", "model"], /^demo:demo +\d/m],
    [["open", "--print", ...port], /^http:\/\/127\.0\.0\.1:\d+\/login#c=[\w-]{43}$/m],
    [["runs", "follow", id], /hello/],
    [["runs", "show", id], /^status +completed$/m],
    [["runs", "approve", id], /^[^\n]+\n$/, 1],
    [["runs", "deny", id], /^[^\n]+\n$/, 1],
    [["runs", "stop", id], / is completed\.$/m],
    [["questions", "list", "--json"], /"questions": \[\]/],
    [["questions", "show", "ask_x"], /ask_x/, 1],
    [["questions", "answer", "ask_x", "once"], /ask_x/, 1],
    [["grants", "list", "--json"], /"grants": \[\]/],
    [["grants", "revoke", "x", "--yes"], /does not exist/, 1],
    [["events", "--limit", "2"], /service\.started/],
    [["skills", "list"], /NAME|no skills/],
    [["skills", "show", "no-such"], /Unknown skill/, 1],
    [["tools", "list"], /terminal/],
    [["mcp", "list", "--json", ...port], /"servers": \[\]/],
    [["mcp", "reload", ...port], /Reloaded/],
    [["context", "add", "here", "--url", url], /here/],
    [["context", "list"], /here[\s\S]*127\.0\.0\.1/],
    [["context", "use", "local"], /this machine/],
    [["context", "remove", "here"], /here/],
  );
}

async function outbox(smoke: Smoke, home: string): Promise<void> {
  const row: Row = [["outbox", "list", "--target", "telegram", "--json"], /"status": "dead"/];
  const id = /"id": "(out_\w+)"/.exec(await smoke.run(home, row))?.[1] ?? "";
  await smoke.run(
    home,
    [["outbox", "show", id, "--text"], /hello 1/],
    [["outbox", "drop", id, "--yes"], new RegExp(`dropped ${id}`)],
    [["outbox", "retry", id], new RegExp(id), 1],
  );
}
