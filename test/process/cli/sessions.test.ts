import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, stat, watch, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { insertMessages } from "../../../src/agent/session/transcript.ts";
import type { Message } from "../../../src/agent/engine.ts";
import { openStore } from "../../../src/store/open.ts";
import type { Store } from "../../../src/store/store.ts";
import type { SessionRow } from "../../../src/store/schema/tables.ts";
import { createGatewayPlace } from "../../harness/gateway.ts";
import { createHome, modeOf } from "../../unit/config/home-folder.ts";
import { sessionRow } from "../../unit/store/rows.ts";
import { agentd, type Outcome } from "../../harness/agentd.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { agentdCommand, programEnvironment } from "../../harness/program.ts";

const talk: readonly Message[] = [
  { role: "user", text: "What is in the folder?" },
  {
    role: "assistant",
    parts: [
      { type: "text", text: "Let me look." },
      { type: "tool_call", callId: "call_1", tool: "terminal", input: { command: "ls" } },
    ],
  },
  { role: "tool", callId: "call_1", tool: "terminal", status: "ok", text: "```\na.txt\n```" },
  { role: "assistant", parts: [{ type: "text", text: "A file a.txt." }] },
];

interface Place extends AsyncDisposable {
  readonly home: string;
  readonly store: Store;
  sessions(...words: string[]): Promise<Outcome>;
  add(set: Partial<SessionRow>, messages?: readonly Message[]): Promise<string>;
}

/** A home with a database that this process keeps open, as the service would. */
async function createPlace(): Promise<Place> {
  const made = await createHome();
  const store = await openStore({ url: join(made.home, "state.db") });
  return {
    home: made.home,
    store,
    sessions: (...words) => keptAgentd(["sessions", ...words], { AGENTD_HOME: made.home }),
    add: async (set, messages = []) => {
      const row = sessionRow({ owner: "default", last_message: messages.length, ...set });
      await store.write(async (tx) => {
        await tx.insert("sessions", [row]);
        await insertMessages(tx, { sessionId: row.id, runId: "run_1" }, { messages, after: 0 });
      });
      return row.id;
    },
    async [Symbol.asyncDispose]() {
      await store.close();
      await made[Symbol.asyncDispose]();
    },
  };
}

function numbered(count: number): readonly Message[] {
  return Array.from({ length: count }, (_, n) => ({ role: "user" as const, text: `prompt ${n + 1}` }));
}

describe("agentd sessions", () => {
  it("prints the usage of each command with --help", async () => {
    for (const [name, ...texts] of [
      ["list", "--owner <name>", "--limit <number>", "--cursor", "--json"],
      ["show", "<session>", "--all", "--json"],
      ["export", "--format <format>", "one of json, jsonl, markdown", "--output <file>", "--force"],
      ["delete", "-y, --yes"],
    ] as const) {
      const { code, stdout } = await keptAgentd(["sessions", name, "--help"]);
      assert.equal(code, 0);
      for (const text of texts) assert.ok(stdout.includes(text), `${name}: ${text} in ${stdout}`);
    }
  });

  it("says that the database does not exist yet, and creates neither it nor a home", async () => {
    await using made = await createHome();
    const home = join(made.home, "none");
    const env = { AGENTD_HOME: home };
    const list = await agentd(["sessions", "list", "--json"], env);
    assert.equal(list.code, 0);
    assert.deepEqual(JSON.parse(list.stdout), { sessions: [], next_cursor: null });
    assert.match(
      list.stderr,
      /^The database does not exist yet \([^\n]*state\.db\)[^\n]*\n"default" has no sessions\.\n$/,
    );
    for (const words of [
      ["show", "x"],
      ["export", "x"],
      ["delete", "x", "--yes"],
    ]) {
      const { code, stdout, stderr } = await agentd(["sessions", ...words], env);
      assert.deepEqual([code, stdout], [1, ""]);
      assert.match(stderr, /^The database does not exist yet[^\n]*\nSession "x" does not exist\./);
    }
    assert.deepEqual(await readdir(made.home), []);
  });

  it("lists an owner's sessions newest first, a page at a time", async () => {
    await using place = await createPlace();
    await place.add({ id: "old", title: "Old one", updated_at: 1000 });
    await place.add({ id: "new", updated_at: 3000 }, talk);
    await place.add({ id: "mid", title: "Mid\u001b[31m", updated_at: 2000, source: "rpc" });
    await place.add({ id: "other", owner: "phone" });
    assert.equal((await place.sessions("list", "-q")).stdout, "new\nmid\nold\n");
    const { code, stdout, stderr } = await place.sessions("list", "--limit", "2");
    assert.equal(code, 0);
    assert.deepEqual(
      stdout.split("\n").map((line) => line.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/, "AGE").split(/ {2,}/)),
      [
        ["ID", "UPDATED", "MESSAGES", "SOURCE", "TITLE"],
        ["new", "AGE", "4", "embed", "What is in the folder?"],
        ["mid", "AGE", "0", "rpc", "Mid\uFFFD[31m"],
        [""],
      ],
    );
    const cursor = /--cursor (\S+)/.exec(stderr)?.[1] ?? "";
    const next = await place.sessions("list", "--limit", "2", "--json", "--cursor", cursor);
    const page = JSON.parse(next.stdout) as { sessions: { id: string }[]; next_cursor: string | null };
    assert.deepEqual([page.sessions.map(({ id }) => id), page.next_cursor], [["old"], null]);
    assert.match((await place.sessions("list", "--owner", "phone")).stdout, /^other /m);
    const nobody = await place.sessions("list", "--owner", "nobody");
    assert.deepEqual([nobody.code, nobody.stdout], [0, ""]);
    assert.match(nobody.stderr, /"nobody" has no sessions\. Other owners with sessions: default, phone\./);
  });

  it("lists with --all what the list leaves out: other owners, single requests and sub-agents", async () => {
    await using place = await createPlace();
    await place.add({ id: "mine", updated_at: 4000 });
    await place.add({ id: "once", transient: 1, updated_at: 3000 });
    await place.add({ id: "sub", source: "subagent", updated_at: 2000 });
    await place.add({ id: "other", owner: "phone", updated_at: 1000 });
    const idsOf = ({ stdout }: Outcome) =>
      (JSON.parse(stdout) as { readonly sessions: readonly { readonly id: string }[] }).sessions.map(
        ({ id }) => id,
      );
    assert.deepEqual(idsOf(await place.sessions("list", "--json")), ["mine"]);
    assert.deepEqual(idsOf(await place.sessions("list", "--all", "--json")), [
      "mine",
      "once",
      "sub",
      "other",
    ]);
    const { stdout } = await place.sessions("list", "--all");
    assert.match(stdout, /^ID +UPDATED +MESSAGES +OWNER +SOURCE +TITLE\n/);
    assert.match(stdout, /^other +\d{4}-\S+Z +0 +phone +/m);
  });

  it("rejects an invalid limit and an invalid cursor", async () => {
    await using place = await createPlace();
    for (const limit of ["0", "201", "ten", "-1", "1.5"]) {
      const { code, stderr } = await place.sessions("list", `--limit=${limit}`);
      assert.equal(code, 2);
      assert.match(stderr, /^--limit must be a number from 1 to 200/);
    }
    const { code, stderr } = await place.sessions("list", "--cursor", "nonsense");
    assert.equal(code, 1);
    assert.match(stderr, /^The cursor is not from a list of sessions[^\n]*\n$/);
  });

  it("shows a session with its last 20 messages, or all", async () => {
    await using place = await createPlace();
    await place.add({ id: "long", title: "A long talk", model: "demo:demo" }, numbered(50));
    const last = await place.sessions("show", "A long talk");
    assert.equal(last.code, 0);
    assert.match(last.stdout, /^id +long\ntitle +A long talk\nowner +default\n/);
    const told = (text: string) => Array.from(text.matchAll(/^prompt (\d+)$/gm), ([, n]) => Number(n));
    assert.deepEqual(
      told(last.stdout),
      Array.from({ length: 20 }, (_, n) => n + 31),
    );
    assert.match(last.stderr, /last 20 messages\. Pass --all/);
    const all = await place.sessions("show", "long", "--all");
    assert.deepEqual(
      told(all.stdout),
      Array.from({ length: 50 }, (_, n) => n + 1),
    );
    const json = await place.sessions("show", "long", "--json");
    const { session, messages } = JSON.parse(json.stdout) as { session: { id: string }; messages: unknown[] };
    assert.deepEqual([session.id, messages.length], ["long", 20]);
  });

  it("escapes control characters of a message, and cuts a long one", async () => {
    await using place = await createPlace();
    await place.add({ id: "evil" }, [
      { role: "user", text: "\u001b]0;title\u0007\u009b2J\u202e" },
      { role: "tool", callId: "c", tool: "terminal", status: "ok", text: "x".repeat(50_000) },
    ]);
    const { stdout } = await place.sessions("show", "evil");
    // oxlint-disable-next-line no-control-regex -- control characters are what it looks for
    assert.doesNotMatch(stdout, /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202e]/);
    assert.match(stdout, /46000 more characters/);
  });

  it("reports an unknown session, and one of another owner, as missing", async () => {
    await using place = await createPlace();
    await place.add({ id: "theirs", owner: "phone", title: "Theirs" });
    for (const words of [["show"], ["export"], ["delete", "--yes"]]) {
      for (const name of ["Theirs", "nothing"]) {
        const { code, stdout, stderr } = await place.sessions(...words, name);
        assert.deepEqual([code, stdout], [1, ""]);
        assert.match(stderr, /^Session "[^\n]*" does not exist\. [^\n]*sessions list`\.\n$/);
      }
    }
    assert.equal((await place.sessions("show", "theirs", "--owner", "phone")).code, 0);
  });
});

describe("agentd sessions export", () => {
  it("writes every message with its tool calls as JSON, without undone ones", async () => {
    await using place = await createPlace();
    const messages = [...talk, ...numbered(60)];
    await place.add({ id: "s", title: "T" }, messages);
    await place.store.write((tx) =>
      tx.db
        .deleteFrom("messages")
        .where("session_id", "=", "s")
        .where("seq", ">", 10)
        .where("seq", "<", 50)
        .execute(),
    );
    const { code, stdout } = await place.sessions("export", "s");
    assert.equal(code, 0);
    const file = JSON.parse(stdout) as {
      readonly session: { readonly id: string };
      readonly messages: readonly { readonly sequence: number; readonly tool_calls: readonly unknown[] }[];
    };
    assert.equal(file.session.id, "s");
    const numbers = messages.map((_, n) => n + 1).filter((n) => n <= 10 || n >= 50);
    assert.deepEqual(
      file.messages.map(({ sequence }) => sequence),
      numbers,
    );
    const call = { id: "call_1", name: "terminal", arguments: '{"command":"ls"}' };
    assert.deepEqual(file.messages[1]?.tool_calls, [call]);
    const whole = await place.sessions("show", "s", "--all", "--json");
    assert.equal(whole.stdout, stdout);
  });

  it("writes Markdown", async () => {
    await using place = await createPlace();
    await place.add({ id: "s", title: "A folder" }, talk);
    const { stdout } = await place.sessions("export", "s", "--format", "markdown");
    assert.match(stdout, /^# A folder\n\n- session: s\n[^]*\n## Assistant\n\nA file a\.txt\.\n$/);
    assert.equal((await place.sessions("export", "s", "--format", "pdf")).code, 2);
  });

  it("writes a private file atomically, and replaces one only with --force", async () => {
    await using place = await createPlace();
    await place.add({ id: "s" }, talk);
    const file = join(place.home, "out.json");
    const first = await place.sessions("export", "s", "--output", file);
    assert.deepEqual([first.code, first.stdout], [0, ""]);
    assert.equal(await modeOf(file), "600");
    await writeFile(file, "mine");
    const second = await place.sessions("export", "s", "--output", file);
    assert.equal(second.code, 1);
    assert.match(second.stderr, /out\.json already exists\. [^\n]*--force[^\n]*\n$/);
    assert.equal(await readFile(file, "utf8"), "mine");
    assert.equal((await place.sessions("export", "s", "--output", file, "--force")).code, 0);
    assert.equal((JSON.parse(await readFile(file, "utf8")) as { messages: unknown[] }).messages.length, 4);
    const nowhere = await place.sessions("export", "s", "--output", join(place.home, "no/such/file"));
    assert.equal(nowhere.code, 1);
    assert.match(nowhere.stderr, /^Cannot write \S+ \(ENOENT\)[^\n]*\n$/);
    assert.equal((await place.sessions("export", "s", "--force")).code, 2);
    assert.deepEqual(
      (await readdir(place.home)).filter((name) => name.includes("out")),
      ["out.json"],
    );
  });

  it("ends silently when its reader closes the pipe", async () => {
    await using place = await createPlace();
    await place.add(
      { id: "big" },
      Array.from({ length: 100 }, () => ({ role: "user" as const, text: "x".repeat(100_000) })),
    );
    const [file, ...words] = agentdCommand("sessions", "export", "big");
    const child = spawn(file, words, {
      env: programEnvironment({ AGENTD_HOME: place.home }),
      stdio: ["ignore", "pipe", "pipe"],
    });
    const ended = once(child, "exit");
    let stderr = "";
    child.stderr.on("data", (bytes: Uint8Array) => (stderr += bytes.toString()));
    await once(child.stdout, "data");
    child.stdout.destroy();
    const [code] = await ended;
    assert.deepEqual([code, stderr], [0, ""]);
  });
});

describe("agentd sessions export of a long session", () => {
  // More than the heap that the program is given.
  const messages = Array.from({ length: 1200 }, () => ({ role: "user" as const, text: "x".repeat(100_000) }));

  it("needs no more memory than a short session", async () => {
    await using place = await createPlace();
    await place.add({ id: "big" }, messages);
    const file = join(place.home, "big.json");
    // Bounds young objects too: else they fill the rest, and the program does nothing but look for garbage.
    const flags = ["--max-old-space-size=80", "--max-semi-space-size=16"];
    const own = { NODE_OPTIONS: flags.join(" "), DENO_V8_FLAGS: flags.join(",") };
    const env = { AGENTD_HOME: place.home, ...own };
    const { code, stderr } = await agentd(["sessions", "export", "big", "--output", file], env);
    assert.equal(code, 0, stderr);
    assert.ok((await stat(file)).size > 120_000_000);
  });

  it("leaves no partial file when it is interrupted", async () => {
    await using place = await createPlace();
    await place.add({ id: "big" }, messages);
    const output = join(place.home, "big.json");
    const env = programEnvironment({ AGENTD_HOME: place.home });
    const changes = watch(place.home, { signal: AbortSignal.timeout(60_000) });
    const [file, ...words] = agentdCommand("sessions", "export", "big", "--output", output);
    const child = spawn(file, words, { env, stdio: "ignore" });
    const ended = once(child, "exit");
    for await (const { filename } of changes) if (filename?.endsWith(".tmp")) break;
    process.kill(child.pid!, "SIGINT");
    const [code] = await ended;
    const left = (await readdir(place.home)).filter((name) => name.includes("big"));
    // On a fast machine it may have been done before the signal came.
    assert.deepEqual([code, left], code === 0 ? [0, ["big.json"]] : [1, []]);
  });
});

describe("agentd sessions delete", () => {
  it("deletes with --yes, and without a terminal fails as a usage error", async () => {
    await using place = await createPlace();
    await place.add({ id: "s", title: "Gone soon" }, talk);
    const asked = await place.sessions("delete", "s");
    assert.deepEqual([asked.code, asked.stdout], [2, ""]);
    assert.match(asked.stderr, /^Cannot ask for confirmation without a terminal\. Pass --yes/);
    const done = await place.sessions("delete", "Gone soon", "--yes");
    assert.deepEqual([done.code, done.stdout], [0, "Deleted s.\n"]);
    const left = await place.store.read.selectFrom("messages").selectAll().execute();
    assert.deepEqual(left, []);
    assert.equal((await place.sessions("delete", "s", "--yes")).code, 1);
  });

  it("rejects a busy session, and says what to do", async () => {
    await using place = await createPlace();
    await place.add({ id: "busy", lease_owner: place.store.owner, lease_until: Date.now() + 60_000 });
    const busy = await place.sessions("delete", "busy", "--yes");
    assert.deepEqual([busy.code, busy.stdout], [1, ""]);
    assert.match(busy.stderr, /^Session busy is busy: [^\n]*--force[^\n]*`agentd gateway` once[^\n]*\n$/);
    assert.equal((await place.store.read.selectFrom("sessions").selectAll().execute()).length, 1);
  });
});

it("agentd sessions sees what the running service saved with its first key, and after it stopped, too", async () => {
  await using place = await createGatewayPlace();
  const gateway = await place.start();
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${await place.key()}`,
      "content-type": "application/json",
      "x-agent-session-id": "from-http",
    },
    body: JSON.stringify({ messages: [{ role: "user", content: "hello there" }] }),
  });
  await response.text();
  const id = response.headers.get("x-agent-session-id");
  const env = { AGENTD_HOME: place.home, AGENTD_DATABASE_URL: place.database };
  const running = await keptAgentd(["sessions", "list"], env);
  assert.ok(id !== null && running.stdout.includes(id), `${String(id)}: ${running.stdout} ${running.stderr}`);
  await gateway.kill("SIGTERM");
  const show = await keptAgentd(["sessions", "show", id], env);
  assert.match(show.stdout, /hello there/);
  const gone = await keptAgentd(["sessions", "delete", id, "--yes"], env);
  assert.deepEqual([gone.code, (await stat(place.home)).isDirectory()], [0, true]);
});
