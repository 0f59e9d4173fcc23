import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createReadStream } from "node:fs";
import { chmod, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { test, type TestContext } from "node:test";
import { systemClock } from "../../../src/base/time.ts";
import { FakeClock } from "../../harness/fake-clock.ts";
import { offTracer } from "../../../src/base/observe.ts";
import type { SendOutcome } from "../../../src/deliver/target.ts";
import { githubComment } from "../../../src/deliver/targets/github-comment/github-comment.ts";
import { openFolder } from "../../harness/platforms/github.ts";
import { platformParts, sendThrough, type SendRequest } from "../../harness/platforms/send.ts";
import { openDispatch, enqueue, reached } from "./dispatching.ts";

const path = process.env["PATH"] ?? "";
const repo = "octo/hello.world";
const here = { repo, pr_number: 1 };
const errorOf = (outcome: SendOutcome) => ("error" in outcome ? outcome.error : "");

/** A program in gh's place: it notes what it was given, and then does what `behaviour`, a shell script, says. */
async function openProgram(t: TestContext, behaviour = "printf 'HTTP/2.0 201 Created\\r\\n\\r\\n{}'") {
  const folder = await openFolder(t);
  const program = join(folder, "gh");
  const notes = `cd ${folder}; printf '%s\\n' "$@" >args; env >env; cat >input`;
  await writeFile(program, `#!/bin/sh\n${notes}\n${behaviour}\n`);
  await chmod(program, 0o755);
  const send = (request: SendRequest = {}, env: Record<string, string> = {}, clock = systemClock) =>
    sendThrough(
      githubComment,
      { program },
      { createdAtMs: clock.now(), extra: here, ...request },
      { clock, env: { PATH: path, ...env } },
    );
  return { folder, send, noted: (name: string) => readFile(join(folder, name), "utf8") };
}

test("gh runs with fixed arguments and gets the comment on standard input", async (t) => {
  const { send, noted } = await openProgram(t);
  const text = "--body `id` $(id) \"quoted\" 'single'\n\nsecond paragraph; rm -rf / 👋";
  assert.deepEqual((await send({ text })).outcome, { status: "delivered" });
  const args = ["api", "-i", "--method", "POST", `repos/${repo}/issues/1/comments`, "--input", "-"];
  assert.equal(await noted("args"), `${args.join("\n")}\n`);
  assert.deepEqual(JSON.parse(await noted("input")), { body: `${text}\n\n<!-- agent-delivery:out_01 -->` });
});

test("a pull request number that is not a positive whole number never starts gh", async (t) => {
  const { send, noted } = await openProgram(t);
  const bad = [
    0,
    -1,
    "1; rm",
    "--x",
    "0",
    "-1",
    "",
    " ",
    "1.5",
    1.5,
    "01",
    "1e3",
    "٣",
    Number.NaN,
    1e21,
    null,
    [],
    {},
  ];
  for (const number of bad) {
    const { outcome } = await send({ extra: { repo, pr_number: number } });
    assert.deepEqual(outcome, {
      status: "permanent",
      error: "deliver_extra.pr_number must be a positive integer.",
    });
  }
  await assert.rejects(noted("args"));
  for (const number of [7, "7", " 7\n"]) {
    assert.deepEqual((await send({ extra: { repo, pr_number: number } })).outcome, { status: "delivered" });
    assert.match(await noted("args"), /\/issues\/7\/comments\n/);
  }
});

test("a repository that is not owner/name never starts gh", async (t) => {
  const { send, noted } = await openProgram(t);
  const bad = [
    "a/b/c",
    "-x/y",
    "x/-y",
    "a",
    "",
    "/",
    "a/",
    "/b",
    "./b",
    "a/..",
    "a/b/c/d",
    "a b/c",
    "a/b;id",
    "a/b\u0000",
  ];
  const worse = [
    "a/b?x=y",
    "a/b#c",
    "a/{owner}",
    "a/b%2f",
    "//a/b",
    7,
    null,
    ["a", "b"],
    `a/${"b".repeat(101)}`,
  ];
  for (const name of [...bad, ...worse]) {
    const { outcome } = await send({ extra: { repo: name, pr_number: 1 } });
    assert.equal(outcome.status, "permanent", String(name));
    assert.match(
      errorOf(outcome),
      /^(deliver_extra\.repo is not a repository: use owner\/name|The host in deliver_extra\.repo is not configured)/,
    );
  }
  const { outcome } = await send({ extra: {} });
  assert.match(errorOf(outcome), /^The message has no pull request: set deliver_extra\.repo/);
  await assert.rejects(noted("args"));
});

test("an event cannot choose the host that gets the token", async (t) => {
  const { send, noted, folder } = await openProgram(t);
  for (const host of ["evil.example", "github.com.evil.example", "127.0.0.1", "-h", ""]) {
    const { outcome } = await send({ extra: { repo: `${host}/${repo}`, pr_number: 1 } });
    assert.equal(outcome.status, "permanent", host);
  }
  await assert.rejects(noted("args"));
  const through = async (host: string, name: string) => {
    const settings = { program: join(folder, "gh"), host };
    const request = { createdAtMs: Date.now(), extra: { repo: name, pr_number: 1 } };
    const { outcome } = await sendThrough(githubComment, settings, request, { env: { PATH: path } });
    return outcome.status === "delivered" ? /^GH_HOST=(.*)$/m.exec(await noted("env"))?.[1] : outcome.status;
  };
  assert.equal(await through("git.example.com", repo), "git.example.com");
  assert.equal(await through("git.example.com", `GIT.example.com/${repo}`), "git.example.com");
  assert.equal(await through("git.example.com", `github.com/${repo}`), "github.com");
  assert.equal(await through("git.example.com", `other.example.com/${repo}`), "permanent");
});

test("gh gets what it signs in and finds its way by, and nothing else of the environment", async (t) => {
  const { send, noted } = await openProgram(t);
  await send(
    {},
    { HOME: "/home/example", GH_TOKEN: "t", https_proxy: "http://p", OPENAI_API_KEY: "k", GH_DEBUG: "api" },
  );
  const names = (await noted("env")).split("\n").map((line) => line.split("=", 1)[0]);
  const own = ["GH_NO_UPDATE_NOTIFIER", "GH_PROMPT_DISABLED", "NO_COLOR"];
  const ofShell = new Set(["", "PWD", "OLDPWD", "SHLVL", "_"]);
  assert.deepEqual(
    names.filter((name) => !ofShell.has(name!)).sort(),
    ["GH_TOKEN", "HOME", "PATH", "https_proxy", ...own].sort(),
  );
});

test("a missing gh fails the message with an installation hint and keeps its payload", async (t) => {
  const { dispatch, store } = await openDispatch(t);
  const target = githubComment.create({ program: "/nonexistent/gh" }, platformParts({ env: { PATH: path } }));
  const payload = { text: "what the agent found", extra: here };
  const id = await enqueue(store, { target: "github_comment", payload, maxAttempts: 1 });
  const dispatcher = dispatch([target]);
  await dispatcher.start();
  const letter = await reached(store, id, "dead");
  assert.match(
    letter.last_error ?? "",
    /^The program gh is not installed\. Install GitHub CLI .+ or set platforms\.github_comment\.program\.$/,
  );
  assert.deepEqual(JSON.parse(letter.payload), payload);
});

test("a program without permission to run is reported differently from a missing one", async (t) => {
  const folder = await openFolder(t);
  await writeFile(join(folder, "gh"), "no program");
  const request = { createdAtMs: Date.now(), extra: here };
  const { outcome } = await sendThrough(githubComment, { program: join(folder, "gh") }, request, {
    env: { PATH: path },
  });
  assert.equal(outcome.status, "retry");
  assert.match(errorOf(outcome), /Cannot start the program gh \(EACCES\)/);
});

test("exit codes and complaints of gh have their outcomes", async (t) => {
  const table: readonly [string, SendOutcome["status"], RegExp][] = [
    ["exit 4", "retry", /not signed in: run `gh auth login` .+ or set GH_TOKEN\.$/],
    ["echo 'dial tcp: lookup api.github.com: no such host' >&2; exit 1", "retry", /could not reach GitHub/],
    ["echo 'Post: EOF' >&2; exit 1", "unknown", /may have arrived/],
    ["exit 1", "unknown", /exit code 1/],
    ["exit 0", "unknown", /exit code 0/],
    ["kill -9 $$", "unknown", /may have arrived/],
    ["head -c 3000000 /dev/urandom", "unknown", /may have arrived/],
    ["head -c 300000 /dev/zero >&2; exit 1", "unknown", /exit code 1/],
    ["printf 'HTTP/1.1 201 Created\\n\\n{\"id\": 1'; exit 1", "delivered", /^$/],
    ["printf 'HTTP/2.0 200 OK\\r\\n\\r\\n[]'", "permanent", /No comment was created/],
    ["printf 'HTTP/1.1 999'; exit 1", "retry", /999/],
  ];
  for (const [behaviour, expected, error] of table) {
    const { send } = await openProgram(t, behaviour);
    const { outcome } = await send();
    assert.equal(outcome.status, expected, behaviour);
    assert.match(errorOf(outcome), error);
  }
});

test("gh that hangs is killed after 30 s, with all that it started", async (t) => {
  const clock = new FakeClock();
  // Whoever of the group lives holds the pipe open.
  const { send, folder } = await openProgram(t, "exec 3>alive; echo begun >&3; sleep 1000 & sleep 1000");
  execFileSync("mkfifo", [join(folder, "alive")]);
  const alive = createReadStream(join(folder, "alive"));
  const ended = new Promise<void>((resolve) => alive.once("end", () => resolve()));
  const begun = new Promise<void>((resolve) => alive.once("data", () => resolve()));
  const sending = send({}, {}, clock);
  await begun;
  clock.tick(30_000);
  const { outcome } = await sending;
  assert.deepEqual(outcome, {
    status: "unknown",
    error: "gh did not end in time. The comment may have arrived; the next attempt searches for it first.",
  });
  await ended;
});

test("an attempt that is over kills gh", async (t) => {
  const { send, folder } = await openProgram(t, "exec 3>alive; echo begun >&3; trap '' TERM; sleep 1000");
  execFileSync("mkfifo", [join(folder, "alive")]);
  const alive = createReadStream(join(folder, "alive"));
  const ended = new Promise<void>((resolve) => alive.once("end", () => resolve()));
  const begun = new Promise<void>((resolve) => alive.once("data", () => resolve()));
  const abort = new AbortController();
  const sending = send({ signal: abort.signal });
  await begun;
  abort.abort(new Error("The attempt is over."));
  assert.notEqual((await sending).outcome.status, "delivered");
  await ended;
});

test("a limit keeps everybody waiting until it is over", async (t) => {
  const { folder } = await openProgram(
    t,
    "printf 'HTTP/2.0 403 Forbidden\\r\\nRetry-After: 7\\r\\n\\r\\n{}'; exit 1",
  );
  const clock = new FakeClock();
  const target = githubComment.create(
    { program: join(folder, "gh") },
    platformParts({ clock, env: { PATH: path } }),
  );
  assert.equal(target.isReady?.(), true);
  const payload = { text: "a", extra: here };
  const delivery = {
    id: "out_1",
    address: "",
    payload,
    ref: undefined,
    attempt: 1,
    partsSent: 0,
    createdAtMs: clock.now(),
  };
  const span = offTracer.start("send", {});
  await target.send(delivery, { span, signal: new AbortController().signal, progress: async () => {} });
  clock.tick(6_999);
  assert.equal(target.isReady?.(), false);
  clock.tick(1);
  assert.equal(target.isReady?.(), true);
});

test("where the system has no files left gh is not started, and the service continues", async () => {
  const module = (path: string) => JSON.stringify(new URL(`../../../src/${path}`, import.meta.url).href);
  const script = `
    import { openSync } from "node:fs";
    import process from "node:process";
    import { createRunGh } from ${module("deliver/targets/github-comment/gh.ts")};
    import { systemClock } from ${module("base/time.ts")};
    const gh = createRunGh({ program: "true", env: { PATH: process.env.PATH }, clock: systemClock });
    const call = { args: [], input: "x", host: undefined, signal: new AbortController().signal };
    try { for (;;) openSync("/dev/null", "r"); } catch {}
    const end = await gh(call);
    await new Promise((resolve) => setImmediate(resolve));
    console.log(JSON.stringify(end));
  `;
  const eval_ = "Deno" in globalThis ? ["eval", "--no-check", script] : ["--input-type=module", "-e", script];
  const words = ["-c", 'ulimit -n 64; exec "$0" "$@"', process.execPath, ...eval_];
  const said = execFileSync("sh", words, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  assert.deepEqual(JSON.parse(said), { kind: "absent", code: "EMFILE" });
});
