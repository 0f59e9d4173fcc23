/** The log file of a gateway, written and read as a gateway and `agentd logs` do. */
import assert from "node:assert/strict";
import { chmod, mkdtemp, readFile, rename, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { LogFile, logPath, olderLogPath } from "../../../src/cli/service/log-file.ts";
import { LogReader } from "../../../src/cli/service/log-reader.ts";

async function createPlace(maxBytes: number) {
  const home = await mkdtemp(join(tmpdir(), "agentd-log-"));
  const path = logPath(home);
  const problems: string[] = [];
  const create = () =>
    new LogFile({
      path,
      maxBytes,
      onProblem: (reason) => void problems.push(reason),
      onRecovery: (lost) => void problems.push(`recovered, ${lost} lost`),
    });
  return {
    path,
    problems,
    create,
    text: (file = path) => readFile(file, "utf8"),
    [Symbol.asyncDispose]: () => rm(home, { recursive: true, force: true }),
  };
}

test("a full file becomes the older one, and both together stay within twice the limit", async () => {
  await using place = await createPlace(100);
  const file = place.create();
  for (let at = 0; at < 50; at += 1) {
    file.write(`line ${at} ${"x".repeat(at % 20)}\n`);
    for (const each of [place.path, olderLogPath(place.path)]) {
      const found = await stat(each).catch(() => undefined);
      if (found) assert.deepEqual([found.size <= 100, found.mode & 0o777], [true, 0o600]);
    }
  }
  file.close();
  const kept = ((await place.text(olderLogPath(place.path))) + (await place.text())).trim().split("\n");
  const numbers = kept.map((line) => Number(line.split(" ")[1]));
  assert.deepEqual(
    numbers,
    numbers.map((_, index) => 50 - numbers.length + index),
    "the newest lines, in order",
  );
  assert.equal((await stat(dirname(place.path))).mode & 0o777, 0o700);
  assert.deepEqual(place.problems, []);
});

test("two gateways that write to one file lose no line when one of them rotates it", async () => {
  await using place = await createPlace(60);
  const [one, two] = [place.create(), place.create()];
  const seen: string[] = [];
  const reader = new LogReader(place.path, (line) => void seen.push(line));
  const sent: string[] = [];
  for (let at = 0; at < 40; at += 1) {
    sent.push(`${at} from ${at % 2}`);
    (at % 2 === 0 ? one : two).write(`${sent.at(-1)}\n`);
    await reader.read();
  }
  await reader.close();
  assert.deepEqual(seen, sent);
  one.close();
  two.close();
});

test("a file that was moved away or deleted is created again at the next line", async () => {
  await using place = await createPlace(1000);
  const file = place.create();
  file.write("first\n");
  await rename(place.path, `${place.path}.moved`);
  file.write("second\n");
  assert.equal(await place.text(), "second\n");
  await rm(dirname(place.path), { recursive: true });
  file.write("third\n");
  assert.equal(await place.text(), "third\n");
  file.close();
});

test("a file that others could read becomes private, and continues after an interrupted line", async () => {
  await using place = await createPlace(1000);
  place.create().write("whole\n");
  await writeFile(place.path, "whole\ntorn", { mode: 0o644 });
  await chmod(place.path, 0o644);
  const file = place.create();
  file.write("next\n");
  file.close();
  assert.equal(await place.text(), "whole\ntorn\nnext\n");
  assert.equal((await stat(place.path)).mode & 0o777, 0o600);
});

test(
  "a full disk is reported once, and again when lines can be written",
  { skip: process.platform !== "linux" && "only Linux has /dev/full" },
  async () => {
    await using place = await createPlace(1000);
    place.create().write("x\n");
    await rm(place.path);
    await symlink("/dev/full", place.path);
    const file = place.create();
    for (const line of ["a\n", "b\n", "c\n"]) file.write(line);
    assert.deepEqual(place.problems, ["ENOSPC"]);
    await rm(place.path);
    file.write("d\n");
    assert.deepEqual(place.problems, ["ENOSPC", "recovered, 3 lost"]);
    assert.equal(await place.text(), "d\n");
    file.close();
    const { mode } = await stat("/dev/full");
    assert.equal(mode & 0o022, 0o022, "a device keeps its mode");
  },
);

test("a line that exceeds the limit of the file is left out", async () => {
  await using place = await createPlace(50);
  const file = place.create();
  file.write(`${"x".repeat(60)}\n`);
  file.write("short\n");
  file.close();
  assert.equal(await place.text(), "short\n");
  assert.deepEqual(place.problems, ["a line of 61 bytes exceeds the limit", "recovered, 1 lost"]);
});

test("a reader sees every line once, whichever way the file is rotated between its reads", async () => {
  await using place = await createPlace(40);
  for (const rotations of [0, 1, 2]) {
    await rm(dirname(place.path), { recursive: true, force: true });
    const seen: string[] = [];
    const reader = new LogReader(place.path, (line) => void seen.push(line));
    assert.equal(await reader.read(), false);
    const file = place.create();
    file.write("start 1\nstart ");
    await reader.read();
    assert.deepEqual(seen, ["start 1"], "a line that is not complete waits");
    file.write("2\n");
    const sent = ["start 1", "start 2"];
    for (let at = 0; at < 3 * rotations; at += 1) {
      sent.push(`line of rotation ${at}`);
      file.write(`${sent.at(-1)}\n`);
      if (at % 3 === 2) await reader.read();
    }
    await reader.read();
    await reader.close();
    file.close();
    assert.deepEqual(seen, sent, `${rotations} rotations`);
  }
});
