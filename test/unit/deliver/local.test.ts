import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import { createLog, offTracer } from "../../../src/base/observe.ts";
import {
  createLocalTarget,
  createLogTarget,
  type LocalTargetOptions,
} from "../../../src/deliver/targets/local.ts";
import type { Delivery, Target } from "../../../src/deliver/target.ts";

const createdAtMs = Date.UTC(2026, 4, 17, 23, 59, 59);
const dayMs = 86_400_000;

async function openLocal(t: TestContext, more: Partial<LocalTargetOptions> = {}) {
  const home = await realpath(await mkdtemp(join(tmpdir(), "agentd-local-")));
  t.after(() => rm(home, { recursive: true, force: true }));
  const warnings: string[] = [];
  const clock = new FakeClock(createdAtMs);
  const log = { warn: (message: string) => void warnings.push(message) };
  const target = createLocalTarget({ home, clock, log, ...more });
  const day = join(home, "deliveries", "2026-05-17");
  return { home, clock, target, warnings, day };
}

function send(target: Target, delivery: Partial<Delivery> = {}) {
  const whole: Delivery = {
    id: "out_01",
    address: "",
    payload: { text: "# Grüße 👋\n\nall well" },
    ref: "run_1",
    attempt: 1,
    partsSent: 0,
    createdAtMs,
    ...delivery,
  };
  const span = offTracer.start("send", {});
  return target.send(whole, { span, signal: new AbortController().signal, progress: async () => {} });
}

const modeOf = async (path: string) => ((await stat(path)).mode & 0o777).toString(8);
const errorOf = (outcome: object) => ("error" in outcome ? String(outcome.error) : "");

test("the text becomes a private file of the day on which it was enqueued", async (t) => {
  const { target, home, day } = await openLocal(t);
  assert.deepEqual(await send(target), { status: "delivered" });
  assert.equal(await readFile(join(day, "out_01.md"), "utf8"), "# Grüße 👋\n\nall well\n");
  assert.equal(await modeOf(join(day, "out_01.md")), "600");
  assert.deepEqual([await modeOf(join(home, "deliveries")), await modeOf(day)], ["700", "700"]);
});

test("the same message is the same file, whenever it is tried again", async (t) => {
  const { target, clock, home } = await openLocal(t);
  await send(target);
  clock.tick(3 * dayMs);
  await send(target, { attempt: 2, payload: { text: "again" } });
  assert.deepEqual(await readdir(join(home, "deliveries")), ["2026-05-17"]);
  assert.deepEqual(await readdir(join(home, "deliveries", "2026-05-17")), ["out_01.md"]);
  assert.deepEqual([target.supportsIdempotency, target.isOrdered], [true, false]);
});

test("text that is empty, binary or full of control characters is delivered as what can be read of it", async (t) => {
  const { target, day } = await openLocal(t);
  const table = [
    ["", "(The answer was empty.)\n"],
    ["\u0000\u0007\u001b", "(The answer was empty.)\n"],
    ["a\u001b[2Jb\u0000\tc\r\nd\ud800", "a[2Jb\tc\nd\n"],
  ] as const;
  for (const [index, [text, expected]] of table.entries()) {
    assert.equal((await send(target, { id: `out_${index}`, payload: { text } })).status, "delivered");
    assert.equal(await readFile(join(day, `out_${index}.md`), "utf8"), expected);
  }
});

test("a huge text is written whole", async (t) => {
  const { target, day } = await openLocal(t);
  const text = "ä".repeat(5_000_000);
  assert.equal((await send(target, { payload: { text } })).status, "delivered");
  assert.equal((await stat(join(day, "out_01.md"))).size, 10_000_001);
});

test("a payload without text, and an id that leads elsewhere, are given up", async (t) => {
  const { target, home } = await openLocal(t);
  const bad: Partial<Delivery>[] = [
    { payload: null },
    { payload: "text" },
    { payload: { text: 1 } },
    { payload: { text: "a", extra: null } },
    { id: "../../etc/passwd" },
    { id: "a/b" },
    { id: "" },
    { id: "." },
    { id: "x".repeat(129) },
    { id: "a\u0000b" },
  ];
  for (const delivery of bad) assert.equal((await send(target, delivery)).status, "permanent");
  assert.deepEqual(await readdir(home), []);
});

test("links and files in the place of folders are refused, and nothing is written through them", async (t) => {
  const { target, home, day } = await openLocal(t);
  const outside = join(home, "outside");
  await mkdir(outside);
  await symlink(outside, join(home, "deliveries"));
  const first = await send(target);
  assert.equal(first.status, "permanent");
  assert.match(errorOf(first), /deliveries is a link or a file\. Remove it, or replace it with a folder\.$/);
  await rm(join(home, "deliveries"));
  await mkdir(join(home, "deliveries"));
  await symlink(outside, day);
  assert.equal((await send(target)).status, "permanent");
  await rm(day);
  await writeFile(day, "mine");
  assert.equal((await send(target)).status, "permanent");
  await rm(day);
  await mkdir(day);
  await symlink(join(outside, "target.md"), join(day, "out_01.md"));
  assert.equal((await send(target)).status, "permanent");
  assert.deepEqual(await readdir(outside), []);
});

test("a full disk, and what may not be written, are tried again and said clearly", async (t) => {
  const table = {
    ENOSPC: /^Cannot write .+: the disk is full \(ENOSPC\)\. Free some space\.$/,
    EDQUOT: /the disk is full/,
    EACCES: /permission denied \(EACCES\)\. Make the user of the service the owner/,
    EROFS: /permission denied \(EROFS\)/,
    EIO: /^Cannot write .+ \(EIO\)/,
  };
  for (const [code, expected] of Object.entries(table)) {
    const cause = Object.assign(new Error("from the system"), { code });
    const write = () => Promise.reject(new ServiceError("invalid_config", "cannot be written", { cause }));
    const { target } = await openLocal(t, { write });
    const outcome = await send(target);
    assert.equal(outcome.status, "retry");
    assert.match(errorOf(outcome), expected);
  }
});

test("what is older than thirty days goes; the files of others stay", async (t) => {
  const { target, home, day } = await openLocal(t);
  const old = join(home, "deliveries", "2026-04-16");
  const last = join(home, "deliveries", "2026-04-17");
  const shared = join(home, "deliveries", "2026-01-01");
  const outside = join(home, "outside");
  for (const folder of [old, last, shared, outside]) await mkdir(folder, { recursive: true });
  for (const folder of [old, last, shared]) await writeFile(join(folder, "out_a.md"), "a");
  await writeFile(join(old, "out_b.md.1234"), "half");
  await writeFile(join(shared, "notes.txt"), "mine");
  await writeFile(join(outside, "out_c.md"), "elsewhere");
  await symlink(outside, join(home, "deliveries", "2026-01-02"));
  await writeFile(join(home, "deliveries", "README.md"), "mine");
  await send(target);
  await target.close?.();
  const left = await readdir(join(home, "deliveries"));
  assert.deepEqual(left.sort(), ["2026-01-01", "2026-01-02", "2026-04-17", "2026-05-17", "README.md"]);
  assert.deepEqual(await readdir(shared), ["notes.txt"]);
  assert.deepEqual(await readdir(outside), ["out_c.md"]);
  assert.deepEqual(await readdir(day), ["out_01.md"]);
});

test("beyond the limit the oldest files go, those of older days first", async (t) => {
  const { target, home, day } = await openLocal(t, { maxFiles: 5 });
  const before = join(home, "deliveries", "2026-05-16");
  await mkdir(before, { recursive: true });
  for (const id of ["a1", "a2", "a3", "a4"]) await writeFile(join(before, `${id}.md`), id);
  for (let count = 0; count < 7; count++) await send(target, { id: `out_${count}` });
  await target.close?.();
  // Old ones are looked for at the first file and at the seventh.
  assert.deepEqual((await readdir(day)).sort(), ["out_2.md", "out_3.md", "out_4.md", "out_5.md", "out_6.md"]);
  assert.deepEqual(await readdir(join(home, "deliveries")), ["2026-05-17"]);
});

test("a failed sweep is logged once and delays no message", async (t) => {
  const { target, home, warnings } = await openLocal(t, { write: async () => {} });
  assert.equal((await send(target)).status, "delivered");
  await target.close?.();
  assert.deepEqual(warnings, ["cannot remove old files of delivered messages"]);
  assert.deepEqual(await readdir(home), []);
});

test("the log target marks a text that it cuts, and leaves a short one as it is", async () => {
  const lines: Readonly<Record<string, unknown>>[] = [];
  const log = createLog("info", (line) => void lines.push(JSON.parse(line)));
  const target = createLogTarget(log);
  for (const text of ["short", "x".repeat(230)]) {
    assert.deepEqual(await send(target, { payload: { text } }), { status: "delivered" });
  }
  assert.deepEqual(
    lines.map(({ text }) => text),
    ["short", `${"x".repeat(200)}… (30 more characters)`],
  );
});
