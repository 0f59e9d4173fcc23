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
import { agentdCommand } from "../../harness/program.ts";

const SECRET = "canary-of-the-tests";

interface Place {
  readonly store: Store;
  readonly env: Readonly<Record<string, string>>;
  deliveries(...words: string[]): Promise<Outcome>;
  /** A message that stands so. */
  add(
    status: MessageStatus,
    set?: { target?: string; text?: string; error?: string; ref?: string },
  ): Promise<string>;
  statusOf(id: string): Promise<MessageStatus | undefined>;
}

/** A database that this process keeps open, as a running gateway would. */
async function openPlace(t: TestContext): Promise<Place> {
  const made = await createHome({ ".env": `TELEGRAM_BOT_TOKEN=${SECRET}\n` });
  t.after(() => made[Symbol.asyncDispose]());
  const { store, url } = await openTestStore(t);
  const env = { AGENTD_HOME: made.home, AGENTD_DATABASE_URL: url };
  return {
    store,
    env,
    deliveries: (...words) => agentd(["deliveries", ...words], env),
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
  const message = { target, payload: { text, extra: {} }, ref, orderingKey: null };
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
  return (JSON.parse(stdout || assert.fail(stderr)) as { readonly deliveries: readonly Entry[] }).deliveries;
}

describe("agentd deliveries list", () => {
  it("shows each message with its state, newest first; addresses and secrets only in part", async (t) => {
    const place = await openPlace(t);
    const due = await place.add("due", { target: "telegram:-1001234567890:17" });
    const dead = await place.add("dead", { target: "slack:C1", error: `403 for ${SECRET}\u001b[2J` });
    const sending = await place.add("leased", { target: "email:someone.private@example.org" });
    const { code, stdout, stderr } = await place.deliveries("list");
    assert.equal(code, 0, stderr);
    const lines = stdout.trimEnd().split("\n");
    assert.match(lines[0] ?? "", /^ID +OWED +TARGET +ATTEMPTS +STATUS +NEXT ATTEMPT +LAST ERROR$/);
    assert.match(lines[1] ?? "", new RegExp(`^${sending} .* email:someone\\.priv… +1 +sending +under way$`));
    assert.match(lines[2] ?? "", new RegExp(`^${dead} .* slack:C1 +1 +dead +- +403 for \\[redacted\\]`));
    assert.match(lines[3] ?? "", new RegExp(`^${due} .* telegram:-10012345678… +0 +due +now$`));
    assert.ok(!stdout.includes("\u001b") && !stdout.includes("private@"));
  });

  it("--status, --target and --ref choose; --limit and --before turn pages", async (t) => {
    const place = await openPlace(t);
    const ids = new Map<string, string>();
    for (const status of ["due", "leased", "delivered", "dead", "unknown", "dropped"] as const) {
      ids.set(status, await place.add(status, { ref: `run_${status}` }));
    }
    const other = await place.add("dead", { target: "slack:C1" });
    const list = async (...words: string[]) =>
      entriesOf(await place.deliveries("list", "--json", ...words)).map(({ id }) => id);
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
    const first = await place.deliveries("list", "--limit", "2");
    assert.match(first.stderr, new RegExp(`^There are more: --before ${ids.get("dropped")}\n$`));
    assert.equal((await list("--before", ids.get("dropped") ?? "")).length, 5);
    const none = await place.deliveries("list", "--target", "sms");
    assert.deepEqual([none.code, none.stdout, none.stderr], [0, "", "There are no such messages.\n"]);
  });

  it("refuses what cannot be with exit code 2, and works where there is no database", async () => {
    await using made = await createHome();
    for (const [words, text] of [
      [["--status", "leased"], /--status must be one of due, sending, delivered, dead, unknown, dropped/],
      [["--target", "telegran"], /is no platform; did you mean "telegram"/],
      [["--target", "telegram:-1"], /name the platform alone/],
      [["--limit", "0"], /--limit must be a number from 1 to 500/],
    ] as const) {
      const refused = await agentd(["deliveries", "list", ...words], { AGENTD_HOME: made.home });
      assert.equal(refused.code, 2);
      assert.match(refused.stderr, text);
    }
    const empty = await agentd(["deliveries", "list", "--json"], { AGENTD_HOME: made.home });
    assert.deepEqual([empty.code, JSON.parse(empty.stdout)], [0, { deliveries: [], next_before: null }]);
    assert.deepEqual(await readdir(made.home), []);
  });
});

describe("agentd deliveries show", () => {
  it("tells how a message went and what to do; what it says only with --text", async (t) => {
    const place = await openPlace(t);
    const dead = await place.add("dead", { text: `Secret plan ${SECRET}`, ref: "dlv_1" });
    const { code, stdout } = await place.deliveries("show", dead);
    assert.equal(code, 0);
    for (const line of [
      "target      telegram:-1001",
      "status      dead",
      "attempts    1",
      "last error  It said no.",
    ]) {
      assert.ok(stdout.split("\n").includes(line), `${line} in ${stdout}`);
    }
    assert.match(
      stdout,
      new RegExp(`Once what the error names is mended, \`agentd deliveries retry ${dead}\` sends it`),
    );
    assert.match(stdout, /`agentd webhook deliveries show dlv_1`/);
    assert.ok(!stdout.includes("Secret plan"));
    const whole = await place.deliveries("show", dead, "--text");
    assert.match(whole.stdout, /Text:\n {2}Secret plan \[redacted\]$/m);
    const told = JSON.parse((await place.deliveries("show", dead, "--text", "--json")).stdout) as {
      readonly text: string;
    };
    assert.equal(told.text, "Secret plan [redacted]");
  });

  it("tells of each attempt when it was, how it ended, and why", async (t) => {
    const place = await openPlace(t);
    const id = await place.add("dead");
    const ends: readonly AttemptRecord[] = [
      { atMs: Date.UTC(2026, 0, 1), outcome: "lost" },
      { atMs: Date.UTC(2026, 0, 2), tookMs: 1_500, outcome: "retry", error: `It answered ${SECRET}.` },
    ];
    await place.store.write((tx) => tx.update("outbox", { id }, { attempt_log: JSON.stringify(ends) }));
    const { stdout } = await place.deliveries("show", id);
    assert.match(stdout, /^ {2}2026-01-01T00:00:00\.000Z its process was gone before it ended$/m);
    assert.match(
      stdout,
      /^ {2}2026-01-02T00:00:00\.000Z not taken yet after 1\.5 s: It answered \[redacted\]\.$/m,
    );
    const told = JSON.parse((await place.deliveries("show", id, "--json")).stdout) as {
      readonly tries: readonly object[];
    };
    assert.deepEqual(told.tries, [
      { at: "2026-01-01T00:00:00.000Z", seconds: null, outcome: "lost", error: null },
      { at: "2026-01-02T00:00:00.000Z", seconds: 1.5, outcome: "retry", error: "It answered [redacted]." },
    ]);
  });

  it("says of each state what comes next", async (t) => {
    const place = await openPlace(t);
    for (const [status, text] of [
      ["due", /A running `agentd gateway` sends it/],
      ["leased", /A process is sending it/],
      ["unknown", /It may have arrived\. Look in the chat/],
      ["delivered", /^status +delivered$/m],
      ["dropped", /^status +dropped$/m],
    ] as const) {
      assert.match((await place.deliveries("show", await place.add(status))).stdout, text);
    }
  });

  it("knows no message that is not there", async (t) => {
    const place = await openPlace(t);
    const { code, stderr } = await place.deliveries("show", "out_1'; drop table outbox");
    assert.equal(code, 1);
    assert.match(stderr, /^There is no message .*`agentd deliveries list` lists what there is/);
  });
});

describe("agentd deliveries retry", () => {
  it("makes messages due again, and tells of each that could not be; then the exit code is 1", async (t) => {
    const place = await openPlace(t);
    const [dead, unknown, delivered, sending] = [
      await place.add("dead"),
      await place.add("unknown"),
      await place.add("delivered"),
      await place.add("leased"),
    ];
    const good = await place.deliveries("retry", dead, unknown);
    assert.deepEqual([good.code, good.stdout], [0, `retried ${dead}\nretried ${unknown}\n`]);
    assert.deepEqual([await place.statusOf(dead), await place.statusOf(unknown)], ["due", "due"]);
    const mixed = await place.deliveries("retry", delivered, sending, dead, "out_none");
    assert.deepEqual([mixed.code, mixed.stdout], [1, `retried ${dead}\n`]);
    assert.match(mixed.stderr, new RegExp(`"${delivered}": it was delivered or dropped already`));
    assert.match(mixed.stderr, new RegExp(`"${sending}": it is being sent right now`));
    assert.match(mixed.stderr, /"out_none": there is no such message/);
  });

  it("--all-dead takes all that were given up, of one platform with --target, and nothing else", async (t) => {
    const place = await openPlace(t);
    const [one, two] = [await place.add("dead"), await place.add("dead", { target: "slack:C1" })];
    const unknown = await place.add("unknown");
    const some = await place.deliveries("retry", "--all-dead", "--target", "slack", "--json");
    assert.deepEqual(JSON.parse(some.stdout), { messages: [{ id: two, outcome: "retried" }] });
    assert.equal((await place.deliveries("retry", "--all-dead")).stdout, `retried ${one}\n`);
    assert.equal(await place.statusOf(unknown), "unknown");
    const none = await place.deliveries("retry", "--all-dead");
    assert.deepEqual([none.code, none.stderr], [1, "There are no such messages.\n"]);
  });

  it("refuses neither ids nor --all-dead, both, and --target alone, with exit code 2", async () => {
    await using made = await createHome();
    for (const words of [[], ["out_1", "--all-dead"], ["out_1", "--target", "slack"]]) {
      const refused = await agentd(["deliveries", "retry", ...words], { AGENTD_HOME: made.home });
      assert.equal(refused.code, 2, words.join(" "));
      assert.match(refused.stderr, /Usage: agentd deliveries retry \[message\.\.\.\]/);
    }
  });
});

describe("agentd deliveries drop", () => {
  it("asks first: without a terminal only --yes drops", async (t) => {
    const place = await openPlace(t);
    const due = await place.add("due");
    const refused = await place.deliveries("drop", due);
    assert.deepEqual([refused.code, await place.statusOf(due)], [2, "due"]);
    assert.match(refused.stderr, /Give --yes to drop the messages/);
    const dropped = await place.deliveries("drop", due, "--yes");
    assert.deepEqual(
      [dropped.code, dropped.stdout, await place.statusOf(due)],
      [0, `dropped ${due}\n`, "dropped"],
    );
    assert.equal((await place.deliveries("drop", due, "--yes")).code, 1, "it is dropped already");
  });

  it("closes the record of the delivery that nothing else is owed for", async (t) => {
    const place = await openPlace(t);
    const { store } = place;
    const ref = "dlv_01jd0a1b2c3d4e5f6g7h8j9kmn";
    const row = {
      id: ref,
      route: "direct",
      delivery_id: "d-1",
      event: "push",
      status: "accepted",
      reason: null,
      stages: "[]",
      headers: "{}",
      run_id: null,
      outbox_id: null,
      replay_of: null,
      created_at: 1,
      ended_at: null,
    };
    await store.write((tx) => tx.insert("deliveries", [row]));
    const first = await place.add("due", { ref });
    const second = await place.add("dead", { ref, target: "slack:C1", error: "It said no." });
    assert.equal((await place.deliveries("drop", first, "--yes")).code, 0);
    const closed = await store.find("deliveries", { id: ref });
    assert.deepEqual([closed?.status, closed?.ended_at !== null], ["failed", true]);
    assert.equal(closed?.reason, "telegram:-1001: It was dropped. slack:C1: It said no.");
    assert.equal((await place.deliveries("drop", second, "--yes")).code, 0);
    assert.deepEqual(await store.find("deliveries", { id: ref }), closed);
  });

  it("drops at a terminal after a yes, and nothing after a no", async (t) => {
    if (terminalIsMissing) return t.skip(terminalIsMissing);
    const place = await openPlace(t);
    const dead = await place.add("dead");
    for (const [key, code, status] of [
      ["n", 1, "dead"],
      ["y", 0, "dropped"],
    ] as const) {
      const command = agentdCommand("deliveries", "drop", "--all-dead");
      await using terminal = await startTerminal({ command, env: place.env, columns: 100 });
      await terminal.shows("Drop 1 message? Nothing is sent again.");
      await terminal.type(key);
      assert.equal(await terminal.ended(), code);
      assert.equal(await place.statusOf(dead), status);
    }
  });
});
