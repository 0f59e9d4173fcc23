import { deliveryRow } from "../../unit/store/rows.ts";
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { describe, it, type TestContext } from "node:test";
import { dropMessage, findMessage, type MessageStatus } from "../../../src/store/outbox/messages.ts";
import type { Store } from "../../../src/store/store.ts";
import type { AttemptRecord } from "../../../src/store/outbox/outbox.ts";
import { openTestStore } from "../../harness/store.ts";
import { startTerminal, terminalIsMissing } from "../../harness/terminal.ts";
import { createHome } from "../../unit/config/home-folder.ts";
import { agentd, type Outcome } from "../../harness/agentd.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { agentdCommand } from "../../harness/program.ts";

const SECRET = "canary-of-the-tests";

interface OutboxHome {
  readonly store: Store;
  readonly env: Readonly<Record<string, string>>;
  outbox(...words: string[]): Promise<Outcome>;
  /** The same in a process of its own, which knows no secrets yet. */
  inNewProcess(...words: string[]): Promise<Outcome>;
  /** Adds a message with that status. */
  add(
    status: MessageStatus,
    set?: { target?: string; text?: string; error?: string; ref?: string },
  ): Promise<string>;
  statusOf(id: string): Promise<MessageStatus | undefined>;
}

/** A database that this process keeps open, as a running gateway would. */
async function openOutbox(t: TestContext): Promise<OutboxHome> {
  const made = await createHome({ ".env": `TELEGRAM_BOT_TOKEN=${SECRET}\n` });
  t.after(() => made[Symbol.asyncDispose]());
  const { store, url } = await openTestStore(t);
  const env = { AGENTD_HOME: made.home, AGENTD_DATABASE_URL: url };
  return {
    store,
    env,
    outbox: (...words) => keptAgentd(["outbox", ...words], env),
    inNewProcess: (...words) => agentd(["outbox", ...words], env),
    add: (status, set) => add(store, status, set),
    statusOf: async (id) => (await findMessage(store, id))?.status,
  };
}

async function add(
  store: Store,
  status: MessageStatus,
  { target = "telegram:-1001", text = "Hello", error = "It said no.", ref = "run_1" } = {},
): Promise<string> {
  const { outbox } = store;
  const message = { owner: "default", target, payload: { text, extra: {} }, ref, orderingKey: null };
  const id = await store.write((tx) => outbox.enqueue(tx, message));
  if (status === "dropped") await dropMessage(store, id);
  if (status === "due" || status === "dropped") return id;
  await store.write((tx) => outbox.claim(tx, { limit: 1, leaseMs: 600_000, ids: [id] }));
  await store.write(async (tx) => {
    if (status === "delivered") await outbox.delivered(tx, id);
    if (status === "dead") await outbox.dead(tx, id, error);
    if (status === "unknown") await outbox.unknown(tx, id, error);
  });
  return id;
}

interface Entry {
  readonly id: string;
  readonly target: string;
  readonly status: string;
  readonly last_error: string | null;
  readonly attempts: number;
}

function entriesOf({ stdout, stderr }: Outcome): readonly Entry[] {
  return (JSON.parse(stdout || assert.fail(stderr)) as { readonly messages: readonly Entry[] }).messages;
}

describe("agentd outbox list", () => {
  it("lists each message with its status, newest first, with shortened addresses and masked secrets", async (t) => {
    const home = await openOutbox(t);
    const due = await home.add("due", { target: "telegram:-1001234567890:17" });
    const dead = await home.add("dead", { target: "slack:C1", error: `403 for ${SECRET}\u001b[2J` });
    const sending = await home.add("leased", { target: "email:someone.private@example.org" });
    const { code, stdout, stderr } = await home.inNewProcess("list");
    assert.equal(code, 0, stderr);
    const lines = stdout.trimEnd().split("\n");
    assert.match(lines[0] ?? "", /^ID +CREATED +TARGET +ATTEMPTS +STATUS +NEXT ATTEMPT +LAST ERROR$/);
    assert.match(lines[1] ?? "", new RegExp(`^${sending} .* email:someone\\.pri… +1 +sending +sending$`));
    assert.match(lines[2] ?? "", new RegExp(`^${dead} .* slack:C1 +1 +dead +- +403 for \\[redacted\\]`));
    assert.match(lines[3] ?? "", new RegExp(`^${due} .* telegram:-1001234567… +0 +due +now$`));
    assert.ok(!stdout.includes("\u001b") && !stdout.includes("private@"));
  });

  it("filters by --status, --target and --ref, and pages by --limit and --before", async (t) => {
    const home = await openOutbox(t);
    const ids = new Map<string, string>();
    for (const status of ["due", "leased", "delivered", "dead", "unknown", "dropped"] as const) {
      ids.set(status, await home.add(status, { ref: `run_${status}` }));
    }
    const other = await home.add("dead", { target: "slack:C1" });
    const list = async (...words: string[]) =>
      entriesOf(await home.outbox("list", "--json", ...words)).map(({ id }) => id);
    const wanted: readonly (readonly [readonly string[], readonly (string | undefined)[]])[] = [
      [["--status", "sending"], [ids.get("leased")]],
      [["--status", "unknown"], [ids.get("unknown")]],
      [
        ["--status", "dead"],
        [other, ids.get("dead")],
      ],
      [["--target", "slack"], [other]],
      [["--ref", "run_dropped"], [ids.get("dropped")]],
    ];
    const found = await Promise.all(wanted.map(([words]) => list(...words)));
    assert.deepEqual(
      found,
      wanted.map(([, expected]) => expected),
    );
    const first = await home.outbox("list", "--limit", "2");
    assert.match(first.stderr, new RegExp(`^More messages: --before ${ids.get("dropped")}\n$`));
    assert.equal((await list("--before", ids.get("dropped") ?? "")).length, 5);
    const none = await home.outbox("list", "--target", "sms");
    assert.deepEqual([none.code, none.stdout, none.stderr], [0, "", "No messages match.\n"]);
  });

  it("refuses invalid options with exit code 2, and prints an empty list without a database", async () => {
    await using made = await createHome();
    for (const [words, text] of [
      [["--status", "leased"], /--status must be one of due, sending, delivered, dead, unknown, dropped/],
      [["--target", "telegran"], /is not a platform; did you mean "telegram"/],
      [["--target", "telegram:-1"], /give the platform only/],
      [["--limit", "0"], /--limit must be a number from 1 to 500/],
    ] as const) {
      const refused = await keptAgentd(["outbox", "list", ...words], { AGENTD_HOME: made.home });
      assert.equal(refused.code, 2);
      assert.match(refused.stderr, text);
    }
    const empty = await keptAgentd(["outbox", "list", "--json"], { AGENTD_HOME: made.home });
    assert.deepEqual([empty.code, JSON.parse(empty.stdout)], [0, { messages: [], next_before: null }]);
    assert.deepEqual(await readdir(made.home), []);
  });
});

it("`agentd deliveries` is an alias of `agentd outbox`", async () => {
  await using made = await createHome();
  const { code, stdout } = await keptAgentd(["deliveries", "list", "--json"], { AGENTD_HOME: made.home });
  assert.deepEqual([code, JSON.parse(stdout)], [0, { messages: [], next_before: null }]);
});

describe("agentd outbox show", () => {
  it("shows the status and what to do next, and the text only with --text", async (t) => {
    const home = await openOutbox(t);
    const dead = await home.add("dead", { text: `Secret plan ${SECRET}`, ref: "dlv_1" });
    const { code, stdout } = await home.outbox("show", dead);
    assert.equal(code, 0);
    for (const line of [
      "target      telegram:-1001",
      "status      dead",
      "attempts    1",
      "last error  It said no.",
    ]) {
      assert.ok(stdout.split("\n").includes(line), `${line} in ${stdout}`);
    }
    assert.match(stdout, new RegExp(`Fix what the error names, then run \`agentd outbox retry ${dead}\``));
    assert.match(stdout, /`agentd webhook deliveries show dlv_1`/);
    assert.ok(!stdout.includes("Secret plan"));
    const whole = await home.inNewProcess("show", dead, "--text");
    assert.match(whole.stdout, /Text:\n {2}Secret plan \[redacted\]$/m);
    const shown = JSON.parse((await home.inNewProcess("show", dead, "--text", "--json")).stdout) as {
      readonly text: string;
    };
    assert.equal(shown.text, "Secret plan [redacted]");
  });

  it("shows for each attempt when it was made, its outcome and its error", async (t) => {
    const home = await openOutbox(t);
    const id = await home.add("dead");
    const ends: readonly AttemptRecord[] = [
      { atMs: Date.UTC(2026, 0, 1), outcome: "lost" },
      { atMs: Date.UTC(2026, 0, 2), tookMs: 1_500, outcome: "retry", error: `It answered ${SECRET}.` },
    ];
    await home.store.write((tx) => tx.update("outbox", { id }, { attempt_log: JSON.stringify(ends) }));
    const { stdout } = await home.inNewProcess("show", id);
    assert.match(stdout, /^ {2}2026-01-01T00:00:00\.000Z lost: its process ended first$/m);
    assert.match(
      stdout,
      /^ {2}2026-01-02T00:00:00\.000Z failed, will be retried after 1\.5 s: It answered \[redacted\]\.$/m,
    );
    const shown = JSON.parse((await home.inNewProcess("show", id, "--json")).stdout) as {
      readonly attempt_log: readonly object[];
    };
    assert.deepEqual(shown.attempt_log, [
      { started_at: Date.UTC(2026, 0, 1) / 1000, ended_at: null, outcome: "lost", error: null },
      {
        started_at: Date.UTC(2026, 0, 2) / 1000,
        ended_at: Date.UTC(2026, 0, 2) / 1000 + 1.5,
        outcome: "retry",
        error: "It answered [redacted].",
      },
    ]);
  });

  it("says for each status what comes next", async (t) => {
    const home = await openOutbox(t);
    for (const [status, text] of [
      ["due", /A running `agentd gateway` sends it/],
      ["leased", /A process is sending it/],
      ["unknown", /It may have arrived\. Check the chat/],
      ["delivered", /^status +delivered$/m],
      ["dropped", /^status +dropped$/m],
    ] as const) {
      assert.match((await home.outbox("show", await home.add(status))).stdout, text);
    }
  });

  it("reports an unknown id", async (t) => {
    const home = await openOutbox(t);
    const { code, stderr } = await home.outbox("show", "out_1'; drop table outbox");
    assert.equal(code, 1);
    assert.match(stderr, /^No message has the id .*`agentd outbox list` lists the messages/);
  });
});

describe("agentd outbox retry", () => {
  it("makes messages due again, and reports each that cannot be retried with exit code 1", async (t) => {
    const home = await openOutbox(t);
    const [dead, unknown, delivered, sending] = [
      await home.add("dead"),
      await home.add("unknown"),
      await home.add("delivered"),
      await home.add("leased"),
    ];
    const good = await home.outbox("retry", dead, unknown);
    assert.deepEqual([good.code, good.stdout], [0, `retried ${dead}\nretried ${unknown}\n`]);
    assert.deepEqual([await home.statusOf(dead), await home.statusOf(unknown)], ["due", "due"]);
    const mixed = await home.outbox("retry", delivered, sending, dead, "out_none");
    assert.deepEqual([mixed.code, mixed.stdout], [1, `retried ${dead}\n`]);
    assert.match(mixed.stderr, new RegExp(`"${delivered}": it is already delivered or dropped`));
    assert.match(mixed.stderr, new RegExp(`"${sending}": it is being sent now`));
    assert.match(mixed.stderr, /"out_none": no message has this id/);
  });

  it("--all-dead retries every dead message and no other, with --target those of one platform", async (t) => {
    const home = await openOutbox(t);
    const [one, two] = [await home.add("dead"), await home.add("dead", { target: "slack:C1" })];
    const unknown = await home.add("unknown");
    const some = await home.outbox("retry", "--all-dead", "--target", "slack", "--json");
    assert.deepEqual(JSON.parse(some.stdout), { messages: [{ id: two, outcome: "retried" }] });
    assert.equal((await home.outbox("retry", "--all-dead")).stdout, `retried ${one}\n`);
    assert.equal(await home.statusOf(unknown), "unknown");
    const none = await home.outbox("retry", "--all-dead");
    assert.deepEqual([none.code, none.stderr], [0, "No dead messages: nothing to do.\n"]);
  });

  it("refuses a call with neither ids nor --all-dead, with both, and --target alone, with exit code 2", async () => {
    await using made = await createHome();
    for (const words of [[], ["out_1", "--all-dead"], ["out_1", "--target", "slack"]]) {
      const refused = await keptAgentd(["outbox", "retry", ...words], { AGENTD_HOME: made.home });
      assert.equal(refused.code, 2, words.join(" "));
      assert.match(refused.stderr, /Usage: agentd outbox retry \[message\.\.\.\]/);
    }
  });
});

describe("agentd outbox drop", () => {
  it("asks for confirmation, and without a terminal drops only with --yes", async (t) => {
    const home = await openOutbox(t);
    const due = await home.add("due");
    const refused = await home.outbox("drop", due);
    assert.deepEqual([refused.code, await home.statusOf(due)], [2, "due"]);
    assert.match(refused.stderr, /Pass --yes to drop the messages/);
    const dropped = await home.outbox("drop", due, "--yes");
    assert.deepEqual(
      [dropped.code, dropped.stdout, await home.statusOf(due)],
      [0, `dropped ${due}\n`, "dropped"],
    );
    assert.equal((await home.outbox("drop", due, "--yes")).code, 1, "it is dropped already");
  });

  it("closes the record of a webhook delivery that has no other pending message", async (t) => {
    const home = await openOutbox(t);
    const { store } = home;
    const ref = "dlv_01jd0a1b2c3d4e5f6g7h8j9kmn";
    await store.write((tx) => tx.insert("deliveries", [deliveryRow({ id: ref, route: "direct" })]));
    const first = await home.add("due", { ref });
    const second = await home.add("dead", { ref, target: "slack:C1", error: "It said no." });
    assert.equal((await home.outbox("drop", first, "--yes")).code, 0);
    const closed = await store.find("deliveries", { id: ref });
    assert.deepEqual([closed?.status, closed?.ended_at !== null], ["failed", true]);
    assert.equal(closed?.reason, "telegram:-1001: It was dropped. slack:C1: It said no.");
    assert.equal((await home.outbox("drop", second, "--yes")).code, 0);
    assert.deepEqual(await store.find("deliveries", { id: ref }), closed);
  });

  it("drops at a terminal after a yes, and nothing after a no", async (t) => {
    if (terminalIsMissing) return t.skip(terminalIsMissing);
    const home = await openOutbox(t);
    const dead = await home.add("dead");
    for (const [key, code, status] of [
      ["n", 1, "dead"],
      ["y", 0, "dropped"],
    ] as const) {
      const command = agentdCommand("outbox", "drop", "--all-dead");
      await using terminal = await startTerminal({ command, env: home.env, columns: 100 });
      await terminal.shows("Drop 1 message? It will never be sent.");
      await terminal.type(key);
      assert.equal(await terminal.ended(), code);
      assert.equal(await home.statusOf(dead), status);
    }
  });
});
