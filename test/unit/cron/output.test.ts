import assert from "node:assert/strict";
import { mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { isOutputFileName, outputFileName } from "../../../src/cron/run/result.ts";
import {
  createOutputTarget,
  type OutputTargetOptions,
  listOutputs,
  pruneOutputs,
  readOutput,
  removeOutputs,
} from "../../../src/cron/run/end.ts";
import { writePrivateFile } from "../../../src/config/home.ts";
import type { SendOptions } from "../../../src/deliver/target.ts";
import { createTestCron, type TestCron } from "../../harness/cron.ts";

const HOUR_MS = 3_600_000;
const ID = "0123456789ab";

/** One attempt at keeping `payload` below the home of `cron`. */
function send(cron: TestCron, payload: unknown, options: Partial<OutputTargetOptions> = {}) {
  const { outputFolder: folder } = cron.deps;
  const target = createOutputTarget({ folder, keep: 3, hasJob: async () => true, ...options });
  const delivery = {
    id: "out_1",
    address: "",
    payload,
    ref: undefined,
    attempt: 1,
    partsSent: 0,
    createdAtMs: 0,
  };
  return target.send(delivery, {} as SendOptions);
}

const output = (parts: Readonly<Record<string, unknown>> = {}) => ({
  jobId: ID,
  file: "2026-01-05_13-00-00.md",
  text: "tea\n",
  ...parts,
});

test("outputs are pruned to the newest N, unsafe ids are refused, and removing a job deletes its outputs", async () => {
  await using cron = await createTestCron({ script: () => ({ text: "tea" }), cron: { keepOutputs: 3 } });
  const { id } = await cron.create();
  const { id: other } = await cron.create({ name: "other", schedule: { kind: "interval", minutes: 6000 } });
  await cron.write(`cron/output/${id}/notes.txt`, "mine");
  await cron.write(`cron/output/${other}/2026-01-01_00-00-00.md`, "another job's");
  await cron.write(`cron/output/${id}/2026-01-05_13-00-00.md.123456`, "left by a crash");
  for (let run = 0; run < 5; run++) await cron.advance(HOUR_MS);
  assert.deepEqual(Object.keys(await cron.outputs(id)), [
    "2026-01-05_15-00-00.md",
    "2026-01-05_16-00-00.md",
    "2026-01-05_17-00-00.md",
    "notes.txt",
  ]);
  for (const jobId of ["..", ".", "", "a/b", "../../etc", "a\\b", "a\u0000b", "x".repeat(65), "ä", "-rf"]) {
    const outcome = await send(cron, output({ jobId }));
    assert.equal(outcome.status, "permanent", JSON.stringify(jobId));
    assert.equal(await readOutput(cron.deps.outputFolder, { jobId, file: "x.md" }), undefined);
    await removeOutputs(cron.deps.outputFolder, jobId);
  }
  for (const file of [
    "../x.md",
    "x",
    ".md",
    "a/b.md",
    "..md",
    "x.md\n",
    "x.txt",
    ".x.md",
    `${"x".repeat(101)}.md`,
  ]) {
    const outcome = await send(cron, output({ file }));
    assert.equal(outcome.status, "permanent", JSON.stringify(file));
  }
  assert.deepEqual((await readdir(cron.deps.outputFolder)).toSorted(), [id, other].toSorted());
  await removeOutputs(cron.deps.outputFolder, id);
  assert.deepEqual(await readdir(cron.deps.outputFolder), [other]);
  await removeOutputs(cron.deps.outputFolder, id);
});

test("an invalid output payload is a permanent failure", async () => {
  await using cron = await createTestCron();
  for (const payload of [undefined, null, "x", [], {}, output({ text: 1 }), output({ file: undefined })]) {
    assert.equal((await send(cron, payload)).status, "permanent", JSON.stringify(payload));
  }
});

test("an output file is private, written atomically, and the same after each attempt", async () => {
  await using cron = await createTestCron();
  assert.deepEqual(await send(cron, output()), { status: "delivered" });
  assert.deepEqual(await send(cron, output()), { status: "delivered" });
  const folder = join(cron.deps.outputFolder, ID);
  assert.deepEqual(await readdir(folder), ["2026-01-05_13-00-00.md"]);
  assert.equal((await stat(folder)).mode & 0o777, 0o700);
  assert.equal((await stat(join(folder, "2026-01-05_13-00-00.md"))).mode & 0o777, 0o600);
});

test("links are not followed", async () => {
  await using cron = await createTestCron();
  const root = cron.deps.outputFolder;
  const outside = join(cron.home, "outside");
  await mkdir(outside);
  await mkdir(root, { recursive: true });
  await writeFile(join(outside, "x.md"), "not ours");
  await symlink(outside, join(root, ID));
  assert.equal((await send(cron, output())).status, "permanent");
  assert.equal(await readOutput(root, { jobId: ID, file: "x.md" }), undefined);
  await removeOutputs(root, ID);
  assert.deepEqual(await readdir(outside), ["x.md"], "the link went, what it leads to stays");
  await mkdir(join(root, ID));
  await symlink(join(outside, "x.md"), join(root, ID, "2026-01-05_13-00-00.md"));
  assert.equal((await send(cron, output())).status, "permanent");
  assert.equal(await readOutput(root, { jobId: ID, file: "2026-01-05_13-00-00.md" }), undefined);
  assert.equal(await readFile(join(outside, "x.md"), "utf8"), "not ours");
  await removeOutputs(root, ID);
  assert.deepEqual(await readdir(outside), ["x.md"]);
});

test("no output file is written for a deleted job, or left when the job is deleted meanwhile", async () => {
  await using cron = await createTestCron();
  const root = cron.deps.outputFolder;
  assert.deepEqual(await send(cron, output(), { hasJob: async () => false }), { status: "delivered" });
  assert.deepEqual(await readdir(root).catch(() => []), []);
  const answers = [true, false];
  const hasJob = async () => answers.shift() ?? false;
  assert.deepEqual(await send(cron, output(), { hasJob }), { status: "delivered" });
  assert.deepEqual(await readdir(root), []);
});

test("a job removed during its run still sends its message and leaves no output folder", async () => {
  const begun = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  await using cron = await createTestCron({
    script: async () => {
      begun.resolve();
      await go.promise;
      return { text: "tea" };
    },
  });
  const { id } = await cron.create();
  const advanced = cron.advance(HOUR_MS);
  await begun.promise;
  await cron.store.write((tx) => tx.db.deleteFrom("cron_jobs").where("id", "=", id).execute());
  go.resolve();
  await advanced;
  assert.equal(cron.sent.length, 1, "the message is sent all the same");
  assert.deepEqual(await cron.outputs(id), {});
});

test("an output that the disk refuses is retried with the reason", async () => {
  await using cron = await createTestCron();
  const refusing = (code: string) => async () => {
    throw Object.assign(new Error("secret path"), { code });
  };
  for (const [code, why] of [
    ["ENOSPC", /the disk is full \(ENOSPC\)/],
    ["EACCES", /permission denied \(EACCES\)/],
    ["EIO", /Cannot write .* \(EIO\)/],
  ] as const) {
    const outcome = await send(cron, output(), { write: refusing(code) });
    assert.equal(outcome.status, "retry");
    assert.match("error" in outcome ? outcome.error : "", why);
  }
});

test("pruning keeps the newest written file even when its name sorts first", async () => {
  await using cron = await createTestCron();
  const root = cron.deps.outputFolder;
  const folder = join(root, ID);
  for (const hour of [20, 21, 22]) await writePrivateFile(join(folder, `2026-01-05_${hour}-00-00.md`), "x");
  await send(cron, output());
  assert.deepEqual(await listOutputs(root, ID), [
    "2026-01-05_22-00-00.md",
    "2026-01-05_21-00-00.md",
    "2026-01-05_13-00-00.md",
  ]);
  await pruneOutputs(folder, { keep: 1, besides: "2026-01-05_13-00-00.md" });
  assert.deepEqual(await listOutputs(root, ID), ["2026-01-05_13-00-00.md"]);
  assert.deepEqual(await listOutputs(root, "nobody"), []);
});

test("each run of a job has its own file name, also when clocks go back", () => {
  const name = (iso: string, zone: string, cause: "schedule" | "manual" | "retry" = "schedule") =>
    outputFileName({ atMs: Date.parse(iso), zone, cause });
  assert.equal(name("2026-01-05T12:00:00.250Z", "Europe/Berlin"), "2026-01-05_13-00-00.md");
  assert.equal(name("2026-01-05T12:00:00.250Z", "UTC", "manual"), "2026-01-05_12-00-00_manual-250.md");
  const toronto = ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", "2026-11-01T07:30:00Z"];
  assert.deepEqual(
    toronto.map((iso) => name(iso, "America/Toronto")),
    ["2026-11-01_01-30-00.md", "2026-11-01_01-30-00_second.md", "2026-11-01_02-30-00.md"],
  );
  assert.equal(name("2026-04-04T15:15:00Z", "Australia/Lord_Howe"), "2026-04-05_01-45-00_second.md");
  for (const iso of toronto) assert.ok(isOutputFileName(name(iso, "America/Toronto", "retry")));
});
