import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test, type TestContext } from "node:test";
import { registerSecret } from "../../../src/base/observe.ts";
import { endingOfScript, runJobScript, type ScriptOutcome } from "../../../src/cron/run/fire.ts";
import { createTestCron, type TestCron } from "../../harness/cron.ts";

const HOUR_MS = 3_600_000;
/** Enough for a script to begin in, also where much else is at work. */
const SHORT_MS = 3_000;
/** Longer than any test lasts. */
const LONG_MS = 120_000;

async function openFolder(
  t: TestContext,
  scripts: Readonly<Record<string, string | Uint8Array>>,
  { timeoutMs = LONG_MS }: { readonly timeoutMs?: number } = {},
) {
  const home = await mkdtemp(join(tmpdir(), "agentd-cron-scripts-"));
  t.after(() => rm(home, { recursive: true, force: true }));
  const folder = join(home, "scripts");
  await mkdir(folder);
  for (const [name, text] of Object.entries(scripts)) await writeFile(join(folder, name), text);
  const deps = {
    scriptsFolder: folder,
    envPassthrough: ["AGENTD_TEST_SHARED"],
    settings: { scriptTimeoutMs: timeoutMs },
  };
  return { home, folder, run: (name: string, cwd?: string) => runJobScript(deps, name, cwd) };
}

/** Opens jobs whose script is `text`; an agent that is asked is counted. */
async function openJob(text: string, parts: Parameters<TestCron["create"]>[0] = {}) {
  let asked = 0;
  const cron = await createTestCron({
    script: () => {
      asked++;
      return { text: "the agent's answer" };
    },
    cron: { scriptTimeoutMs: 20_000 },
  });
  await cron.write("scripts/job.sh", text);
  const { id } = await cron.create({ script: "job.sh", ...parts });
  await cron.advance(HOUR_MS);
  const [occurrence] = await cron.occurrences();
  assert.ok(occurrence);
  return { cron, id, occurrence, asked: () => asked };
}

const said = (text: string): ScriptOutcome => ({ status: "printed", text });
const failed = (reason: string): ScriptOutcome => ({ status: "failed", reason });
const ABSENT = failed("there is no such file in the folder of scripts");

async function eventually<T>(look: () => Promise<T | undefined>): Promise<T> {
  const patience = AbortSignal.timeout(60_000);
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    patience.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const isGone = (pid: number) =>
  eventually(async () => {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => ") Z ");
    return /\) [ZX] /.test(stat) ? true : undefined;
  });

test("a script can skip the agent, stay silent, deliver its output or fail, and a script outside its folder does not run", async () => {
  {
    const asleep = await openJob(`echo checked; echo '{"wakeAgent": false}'; echo`);
    await using cron = asleep.cron;
    assert.equal(asleep.asked(), 0);
    assert.equal(asleep.occurrence.status, "ok");
    assert.equal(asleep.occurrence.delivery_status, "silent");
    assert.deepEqual(cron.sent, []);
    assert.equal((await cron.job(asleep.id)).lastStatus, "ok");
  }
  {
    const empty = await openJob("printf ' \\n\\t\\n'", { isScriptOnly: true });
    await using cron = empty.cron;
    assert.equal(empty.occurrence.status, "ok");
    assert.deepEqual(cron.sent, []);
    assert.equal(Object.keys(await cron.outputs(empty.id)).length, 1);
  }
  {
    const loud = await openJob("echo 'disk is full'", { isScriptOnly: true });
    await using cron = loud.cron;
    assert.equal(loud.asked(), 0);
    assert.match(cron.sent[0]?.text ?? "", /disk is full/);
  }
  {
    const broken = await openJob("echo partly; echo 'no disk' >&2; exit 7", {
      isScriptOnly: true,
      failureDeliver: "test",
    });
    await using cron = broken.cron;
    assert.equal(broken.occurrence.status, "failed");
    assert.match(cron.sent[0]?.text ?? "", /The script failed: it ended with code 7: no disk/);
    assert.doesNotMatch(cron.sent[0]?.text ?? "", /partly/);
    assert.equal((await cron.job(broken.id)).lastStatus, "error");
  }
  for (const script of ["../outside.sh", "link.sh", "<home>/outside.sh"]) {
    await using cron = await createTestCron();
    const outside = await cron.write("outside.sh", "echo never");
    await cron.write("scripts/inside.sh", "echo never");
    await symlink(outside, join(cron.home, "scripts", "link.sh"));
    await cron.create({ script, isScriptOnly: true });
    await cron.advance(HOUR_MS);
    const [occurrence] = await cron.occurrences();
    assert.equal(occurrence?.status, "failed");
    assert.match(occurrence.reason ?? "", /file .* does not exist in the folder of scripts/);
    assert.equal(cron.sent.length, 1);
  }
});

test("the agent gets the output of the script, and the occurrence is running meanwhile", async () => {
  const job = await openJob("echo 'seven mails'");
  await using cron = job.cron;
  assert.equal(job.asked(), 1);
  assert.equal(job.occurrence.status, "ok");
  assert.ok(job.occurrence.started_at !== null);
  const run = await cron.agent.run(job.occurrence.run_id ?? "");
  assert.match(run.input, /seven mails/);
  assert.match(cron.sent[0]?.text ?? "", /the agent's answer/);
});

test("only an object with `wakeAgent: false` on the last non-empty line skips the agent", async (t) => {
  const asleep: ScriptOutcome = { status: "asleep" };
  const cases: Readonly<Record<string, ScriptOutcome>> = {
    '{"wakeAgent": false}': asleep,
    'x\n{"wakeAgent":false,"why":"none"}\n\n': asleep,
    '{"wakeAgent": false}\nmore': said('{"wakeAgent": false}\nmore'),
    '{"wakeAgent": true}': said('{"wakeAgent": true}'),
    '{"wakeAgent": "false"}': said('{"wakeAgent": "false"}'),
    '{"wakeAgent": 0}': said('{"wakeAgent": 0}'),
    '[{"wakeAgent": false}]': said('[{"wakeAgent": false}]'),
    '{"wakeAgent": false': said('{"wakeAgent": false'),
    '{"a": {"wakeAgent": false}}': said('{"a": {"wakeAgent": false}}'),
  };
  const { folder, run } = await openFolder(t, { "say.sh": 'cat "$(dirname "$0")/text"' });
  for (const [text, expected] of Object.entries(cases)) {
    await writeFile(join(folder, "text"), text);
    assert.deepEqual(await run("say.sh"), expected, text);
  }
});

test("a script that reports nothing to do is quiet with and without an agent", () => {
  for (const isScriptOnly of [true, false]) {
    const ending = endingOfScript(isScriptOnly, { status: "asleep" });
    assert.equal(ending?.status, "ok");
    assert.equal(ending.isQuiet, true);
  }
  assert.equal(endingOfScript(false, failed("x")), undefined);
  assert.equal(endingOfScript(false, said("")), undefined);
});

test("a script that hangs is killed after its timeout with all its child processes", async (t) => {
  const hang = [
    "trap '' TERM",
    "sleep 600 & echo $! > one.pid",
    "(trap '' TERM; sleep 600 & echo $! > two.pid; wait) &",
    "echo $$ > own.pid",
    "while :; do sleep 1; done",
  ].join("\n");
  // With longer and longer limits, until it could start all of them.
  for (const seconds of [1, 10, 60]) {
    const { folder, run } = await openFolder(t, { "hang.sh": hang }, { timeoutMs: seconds * 1_000 });
    assert.deepEqual(await run("hang.sh"), failed(`it took longer than ${seconds} seconds`));
    const files = ["own.pid", "one.pid", "two.pid"].map((name) => readFile(join(folder, name), "utf8"));
    const pids = (await Promise.all(files.map((text) => text.catch(() => "")))).map(Number);
    for (const pid of pids.filter((each) => each > 0)) assert.ok(await isGone(pid), String(pid));
    if (pids.every((pid) => pid > 0)) return;
  }
  assert.fail("the script did not begin");
});

test("a script that hangs is a reported failure, and the job continues", async () => {
  await using cron = await createTestCron({ cron: { scriptTimeoutMs: SHORT_MS } });
  await cron.write("scripts/hang.sh", "sleep 600");
  const { id } = await cron.create({ script: "hang.sh", isScriptOnly: true, failureDeliver: "test" });
  await cron.advance(HOUR_MS);
  assert.match(cron.sent[0]?.text ?? "", /it took longer than 3 seconds/);
  await cron.write("scripts/hang.sh", "echo better");
  await cron.advance(HOUR_MS);
  assert.match(cron.sent[1]?.text ?? "", /better/);
  assert.equal((await cron.job(id)).lastStatus, "ok");
});

test("processes that a script leaves behind are killed", async (t) => {
  const script = "sleep 600 & echo $! > child.pid; echo done";
  const { folder, run } = await openFolder(t, { "leave.sh": script });
  assert.deepEqual(await run("leave.sh"), said("done"));
  assert.ok(await isGone(Number(await readFile(join(folder, "child.pid"), "utf8"))));
});

test("a script that floods stdout or stderr is killed", async (t) => {
  const { run } = await openFolder(t, {
    "out.sh": "yes flood",
    "error.sh": "head -c 20000000 /dev/zero >&2; echo the end >&2; exit 1",
    "most.sh": "head -c 1048576 /dev/zero | tr '\\0' x",
  });
  assert.deepEqual(await run("out.sh"), failed("it printed more than 1048576 bytes"));
  const error = await run("error.sh");
  assert.equal(error.status, "failed");
  assert.ok("reason" in error && error.reason.endsWith("the end"));
  assert.ok(error.reason.length < 600 && !error.reason.includes("\u0000"));
  const most = await run("most.sh");
  assert.equal(most.status === "printed" && most.text.length, 1_048_576);
});

test("binary output becomes readable text", async (t) => {
  const colours = "printf '\\033[1;31mred\\033[0m \\033]0;title\\007plain'";
  const { run } = await openFolder(t, {
    "binary.sh": "printf 'a\\000b\\377\\376c\\001\\033'",
    "zero.sh": "printf '\\000\\000'",
    "colours.sh": colours,
  });
  assert.deepEqual(await run("binary.sh"), said("abc"));
  assert.deepEqual(await run("zero.sh"), said(""));
  assert.deepEqual(await run("colours.sh"), said("red plain"));
});

test("binary output of a script without an agent is delivered, kept and recorded", async () => {
  for (const script of ["printf 'a\\000\\377b'", "printf 'a\\000\\377b' >&2; exit 1"]) {
    const job = await openJob(script, { isScriptOnly: true });
    await using cron = job.cron;
    assert.equal(cron.sent.length, 1);
    assert.notEqual(job.occurrence.ended_at, null);
  }
});

test("a script may read its empty standard input", async (t) => {
  const { run } = await openFolder(t, { "read.sh": "cat; echo read", "closed.sh": "exec 0<&-; echo closed" });
  assert.deepEqual(await run("read.sh"), said("read"));
  assert.deepEqual(await run("closed.sh"), said("closed"));
});

test("a script gets no secrets of the service, and known secrets in its output are redacted", async (t) => {
  registerSecret("cron-script-secret-1");
  const { run } = await openFolder(t, {
    "env.sh": "env",
    "say.sh": "echo key cron-script-secret-1 and sk-ant-0123456789abcdef0123",
    "fail.sh": "echo key cron-script-secret-1 >&2; exit 1",
  });
  const outcome = await run("env.sh");
  assert.ok(outcome.status === "printed");
  const names = outcome.text.split("\n").map((line) => line.split("=")[0] ?? "");
  const allowed =
    /^(PATH|HOME|LANG|TMPDIR|USER|SHELL|TZ|TERM|AGENTD_HOME|AGENTD_PROFILE|AGENTD_TEST_SHARED|LC_\w+|PWD|SHLVL|_)$/;
  assert.deepEqual(
    names.filter((name) => !allowed.test(name)),
    [],
  );
  assert.deepEqual(await run("say.sh"), said("key [redacted] and [redacted]"));
  assert.deepEqual(await run("fail.sh"), failed("it ended with code 1: key [redacted]"));
});

test("a script runs in its own folder, or in the working directory of its job", async (t) => {
  const { home, run } = await openFolder(t, { "where.sh": "pwd -P" });
  const place = async (outcome: Promise<ScriptOutcome>) => {
    const ended = await outcome;
    return ended.status === "printed" ? ended.text : ended;
  };
  assert.match(String(await place(run("where.sh"))), /\/scripts$/);
  assert.doesNotMatch(String(await place(run("where.sh", home))), /\/scripts$/);
});

test("a missing file, a folder and a file outside the scripts folder are not run, even through links", async (t) => {
  const { home, folder, run } = await openFolder(t, { "own.sh": "echo own" });
  await writeFile(join(home, "outside.sh"), "echo never");
  await mkdir(join(folder, "sub"));
  await mkdir(join(folder, "dir.sh"));
  await symlink(join(home, "outside.sh"), join(folder, "link.sh"));
  await symlink(home, join(folder, "up"));
  await symlink("own.sh", join(folder, "alias.sh"));
  await symlink("loop.sh", join(folder, "loop.sh"));
  const refused = [
    "missing.sh",
    "../outside.sh",
    "sub/../../outside.sh",
    join(home, "outside.sh"),
    "link.sh",
    "up/outside.sh",
    "dir.sh",
    "loop.sh",
    "",
    ".",
    "/dev/zero",
    "a\u0000b",
    "x".repeat(10_000),
    "<home>/outside.sh",
    "<home>/../etc/passwd",
  ];
  for (const name of refused) assert.deepEqual(await run(name), ABSENT, name.slice(0, 50));
  assert.deepEqual(await run("alias.sh"), said("own"));
  assert.deepEqual(await run("<home>/scripts/own.sh"), said("own"));
  assert.deepEqual(await run(join(folder, "own.sh")), said("own"));
});

test("a script need not be executable, but must be readable", async (t) => {
  const { folder, run } = await openFolder(t, { "plain.sh": "echo runs", "sealed.sh": "echo sealed" });
  await chmod(join(folder, "plain.sh"), 0o600);
  assert.deepEqual(await run("plain.sh"), said("runs"));
  await chmod(join(folder, "sealed.sh"), 0o000);
  const outcome = await run("sealed.sh");
  // Nothing is sealed to the superuser.
  if (process.getuid?.() === 0) assert.deepEqual(outcome, said("sealed"));
  else assert.ok(outcome.status === "failed" && /code/.test(outcome.reason));
});

test("the file extension selects the interpreter, by default Python", async (t) => {
  const { run } = await openFolder(t, {
    "a.sh": "echo $((1 + 1)) ${BASH_VERSION:+bash}",
    "b.BASH": "echo bash",
    "c.mjs": "console.log(1 + 1, 'js')",
    "d.ts": "const two: number = 2; console.log(two, 'ts')",
    "e.py": "print(1 + 1, 'py')",
    "f.xyz": "print('unknown')",
    noextension: "print('none')",
    "shell.txt": "echo no python; exit 0",
  });
  const texts = ["2 bash", "bash", "2 js", "2 ts"];
  const shells = await Promise.all(["a.sh", "b.BASH", "c.mjs", "d.ts"].map((name) => run(name)));
  assert.deepEqual(shells, texts.map(said));
  if (!(await hasPython())) {
    assert.deepEqual(await run("e.py"), failed("the program that runs it is not installed"));
    return;
  }
  assert.deepEqual(await Promise.all(["e.py", "f.xyz", "noextension"].map((name) => run(name))), [
    said("2 py"),
    said("unknown"),
    said("none"),
  ]);
  const wrong = await run("shell.txt");
  assert.ok(wrong.status === "failed" && /SyntaxError/.test(wrong.reason));
});

const hasPython = (): Promise<boolean> =>
  new Promise((resolve) => {
    const child = spawn("python3", ["--version"], { stdio: "ignore" });
    child.once("error", () => resolve(false));
    child.once("exit", (code) => resolve(code === 0));
  });
