import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { test, type TestContext } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import type { SendOutcome } from "../../../src/deliver/target.ts";
import { githubComment } from "../../../src/deliver/targets/github-comment/github-comment.ts";
import type { Fault, Reply } from "../../harness/platforms/fake.ts";
import { openFolder, startGithub, TOKEN } from "../../harness/platforms/github.ts";
import { platformParts, sendThrough, type SendRequest } from "../../harness/platforms/send.ts";
import { openDispatch, enqueue, reached } from "./dispatching.ts";

const path = process.env["PATH"] ?? "";
const isThere = spawnSync("gh", ["--version"]).status === 0;
const withGh = { skip: isThere ? false : "gh is not installed here: apt-get install gh" };
const repo = "octo/hello.world";
const here = { repo, pr_number: 1 };
const errorOf = (outcome: SendOutcome) => ("error" in outcome ? outcome.error : "");

/** The real gh, and GitHub as a proxy of its own. */
async function openGithub(t: TestContext) {
  const home = await openFolder(t);
  const clock = new FakeClock(Date.UTC(2026, 4, 17));
  const github = await startGithub(t, () => clock.now());
  const env = {
    PATH: path,
    HOME: home,
    GH_CONFIG_DIR: home,
    GH_TOKEN: TOKEN,
    HTTP_PROXY: github.url,
  };
  const send = (request: SendRequest = {}, more: Record<string, string> = {}) =>
    sendThrough(
      githubComment,
      { host: "github.localhost" },
      { createdAtMs: clock.now(), extra: here, ...request },
      { clock, env: { ...env, ...more } },
    );
  return { github, clock, send };
}

/** Time passes whenever somebody waits for it. */
class HastyClock extends FakeClock {
  override sleep(ms: number): Promise<void> {
    this.tick(ms);
    return Promise.resolve();
  }
}

test("real gh: a comment on a pull request, and on an issue where the number is none", withGh, async (t) => {
  const { github, send } = await openGithub(t);
  const text = "# Grüße 👋\n\n`code` $(id) --body <b>&amp;</b>\n\n- [ ] one";
  assert.deepEqual((await send({ text })).outcome, { status: "delivered" });
  assert.deepEqual((await send({ text, extra: { repo, pr_number: "2" } })).outcome, { status: "delivered" });
  const expected = `${text}\n\n<!-- agent-delivery:out_01 -->`;
  assert.deepEqual([...github.comments(1), ...github.comments(2)], [expected, expected]);
  assert.deepEqual(github.violations, []);
});

test("real gh: what GitHub answers has its outcome", withGh, async (t) => {
  const { github, clock, send } = await openGithub(t);
  const said = (status: number, message: string, headers: Reply["headers"] = {}): Reply => ({
    status,
    headers,
    body: { message },
  });
  const resetSeconds = clock.now() / 1000 + 90;
  const limited = { "x-ratelimit-remaining": "0", "x-ratelimit-reset": String(resetSeconds) };
  const table: readonly [Reply | Fault, Partial<SendOutcome>, RegExp][] = [
    [
      said(401, "Bad credentials"),
      { status: "permanent" },
      /token is missing or invalid: run `gh auth login`/,
    ],
    [said(403, "Resource not accessible"), { status: "permanent" }, /may comment there/],
    [
      said(403, "slow", { "retry-after": "7" }),
      { status: "retry", isThrottled: true, afterMs: 7_000 },
      /403/,
    ],
    [
      said(403, "API rate limit exceeded", limited),
      { status: "retry", isThrottled: true, afterMs: 90_000 },
      /403/,
    ],
    [
      said(429, "API rate limit exceeded", limited),
      { status: "retry", isThrottled: true, afterMs: 90_000 },
      /429/,
    ],
    [
      said(403, "You have exceeded a secondary rate limit."),
      { isThrottled: true, afterMs: 60_000 },
      /secondary/,
    ],
    [said(429, "Too Many Requests"), { status: "retry", isThrottled: true, afterMs: 60_000 }, /429/],
    [said(404, "Not Found"), { status: "permanent" }, /Check that the number exists/],
    [said(410, "Issues are disabled for this repo"), { status: "permanent" }, /disabled there/],
    [said(422, "Validation Failed"), { status: "permanent" }, /does not accept this text/],
    [said(400, "Problems parsing JSON"), { status: "permanent" }, /400/],
    [said(500, "Server Error"), { status: "retry" }, /500/],
    [said(503, "\u001b[31mno\u0000 server"), { status: "retry" }, /503: [ -~]*no[ -~]* server\.$/],
    [
      { status: 502, headers: { "content-type": "text/html" }, body: "<html>Bad gateway" },
      { status: "retry" },
      /502/,
    ],
    [
      { status: 307, headers: { location: "/repositories/1" }, body: "" },
      { status: "permanent" },
      /new name/,
    ],
    [
      { status: 200, headers: { "content-type": "application/json" }, body: "[]" },
      { status: "permanent" },
      /No comment was created/,
    ],
    ["html", { status: "retry" }, /200 with a web page/],
    ["close", { status: "unknown" }, /EOF.+may have arrived/],
    ["truncate", { status: "permanent" }, /200/],
  ];
  for (const [reply, expected, error] of table) {
    github.next(reply);
    const { outcome } = await send();
    for (const [key, value] of Object.entries(expected)) {
      assert.equal(Object(outcome)[key], value, JSON.stringify([reply, outcome]));
    }
    assert.match(errorOf(outcome), error);
  }
  assert.deepEqual(github.comments(1), []);
});

test("real gh: unknown number, locked thread, wrong token, no token, no server", withGh, async (t) => {
  const { github, send } = await openGithub(t);
  assert.match(
    errorOf((await send({ extra: { repo, pr_number: 99 } })).outcome),
    /^GitHub answered 404: Not Found\./,
  );
  assert.match(errorOf((await send({ extra: { repo: "octo/other", pr_number: 1 } })).outcome), /404/);
  assert.match(
    errorOf((await send({ extra: { repo, pr_number: 3 } })).outcome),
    /403: Unable to create comment because issue is locked\. .+not locked\.$/,
  );
  const wrong = (await send({}, { GH_TOKEN: "wrong-token-value" })).outcome;
  assert.equal(wrong.status, "permanent");
  assert.doesNotMatch(errorOf(wrong), /wrong-token-value/);
  const none = (await send({}, { GH_TOKEN: "" })).outcome;
  assert.match(errorOf(none), /^GitHub answered 401.+token is missing/);
  const request = { createdAtMs: Date.now(), extra: here };
  const env = { PATH: path, GH_CONFIG_DIR: await openFolder(t) };
  const { outcome: nobody } = await sendThrough(githubComment, {}, request, { env });
  assert.equal(nobody.status, "retry");
  assert.match(errorOf(nobody), /not signed in: run `gh auth login`/);
  const alone = (await send({}, { HTTP_PROXY: "http://127.0.0.1:9" })).outcome;
  assert.equal(alone.status, "retry");
  assert.match(errorOf(alone), /^gh could not reach GitHub: .+connection refused/);
  assert.deepEqual(github.comments(1), []);
});

test(
  "real gh: empty, binary and control characters arrive as what can be read of them",
  withGh,
  async (t) => {
    const { github, send } = await openGithub(t);
    for (const text of ["", "\u0000\u0001", "a\u001b[2J\u0000b\r\nc\ud800"]) {
      assert.deepEqual((await send({ text })).outcome, { status: "delivered" });
    }
    const mark = "\n\n<!-- agent-delivery:out_01 -->";
    const empty = `(The answer was empty.)${mark}`;
    assert.deepEqual(github.comments(1), [empty, empty, `a[2Jb\nc${mark}`]);
  },
);

test(
  "real gh: a long text becomes several comments, each within GitHub's limit and with a mark of its own",
  withGh,
  async (t) => {
    const home = await openFolder(t);
    const clock = new HastyClock(Date.UTC(2026, 4, 17));
    const github = await startGithub(t, () => clock.now());
    const env = { PATH: path, HOME: home, GH_CONFIG_DIR: home, GH_TOKEN: TOKEN, HTTP_PROXY: github.url };
    const text = "All is well. ".repeat(11_000);
    const createdAtMs = clock.now();
    const long = { text, extra: here, createdAtMs };
    const { outcome, progress } = await sendThrough(githubComment, { host: "github.localhost" }, long, {
      clock,
      env,
    });
    assert.deepEqual(outcome, { status: "delivered" });
    const bodies = github.comments(1);
    assert.deepEqual(
      progress,
      Array.from({ length: bodies.length - 1 }, (_, index) => index + 1),
    );
    assert.ok(bodies.length >= 3);
    assert.deepEqual(github.violations, []);
    for (const [index, body] of bodies.entries()) {
      assert.ok(body.endsWith(`\n\n<!-- agent-delivery:out_01#${index + 1} -->`));
      assert.ok(body.length <= 65_536);
    }
    assert.equal(clock.now() - createdAtMs, (bodies.length - 1) * 1_000);
    // The second attempt after a crash: what is noted is skipped, what is there is found, the rest is sent.
    github.next({
      status: 200,
      headers: { "content-type": "application/json" },
      body: JSON.stringify([{ body: bodies[1] }]),
    });
    const again = { ...long, attempt: 2, partsSent: 1 };
    await sendThrough(githubComment, { host: "github.localhost" }, again, { clock, env });
    assert.deepEqual(github.comments(1).slice(bodies.length), bodies.slice(2));
  },
);

test(
  "real gh: after an answer that got lost the comment is found, and not written again",
  withGh,
  async (t) => {
    const { github, clock, send } = await openGithub(t);
    const createdAtMs = clock.now();
    await send();
    clock.tick(60_000);
    assert.deepEqual((await send({ attempt: 2, createdAtMs })).outcome, { status: "delivered" });
    assert.equal(github.comments(1).length, 1);
    const look = github.asked.at(-1)!;
    assert.deepEqual([look.method, look.query.get("per_page")], ["GET", "100"]);
    assert.ok(Date.parse(look.query.get("since")!) <= createdAtMs);
    // A service that was stopped gives the attempt back: age tells as well.
    assert.deepEqual((await send({ attempt: 1, createdAtMs })).outcome, { status: "delivered" });
    assert.equal(github.comments(1).length, 1);
  },
);

test("real gh: the mark is found among hundreds, and marks of others do not count", withGh, async (t) => {
  const { github, send } = await openGithub(t);
  for (const mark of ["out_011", "out_02", "out_01#2", "xout_01", "out_01 "]) {
    github.write(1, `a <!-- agent-delivery:${mark} -->`);
  }
  await send({ attempt: 2 });
  assert.equal(github.comments(1).length, 6);
  for (let count = 0; count < 250; count++)
    github.write(2, count === 240 ? "x\n\n<!-- agent-delivery:out_01 -->" : "y");
  await send({ attempt: 2, extra: { repo, pr_number: 2 } });
  assert.equal(github.comments(2).length, 250);
});

test("real gh: when the look fails nothing is written", withGh, async (t) => {
  const { github, send } = await openGithub(t);
  const table: readonly [Reply | Fault, SendOutcome["status"]][] = [
    [{ status: 500, body: { message: "no" } }, "retry"],
    [{ status: 404, body: { message: "Not Found" } }, "permanent"],
    [{ status: 403, headers: { "retry-after": "3" }, body: { message: "no" } }, "retry"],
    ["close", "retry"],
  ];
  for (const [reply, expected] of table) {
    github.next(reply);
    assert.equal((await send({ attempt: 2 })).outcome.status, expected);
  }
  assert.deepEqual(github.comments(1), []);
});

test(
  "real gh: the outbox sends again what got no answer, and the comment appears once",
  withGh,
  async (t) => {
    const { dispatch, store, clock, logged } = await openDispatch(t);
    const home = await openFolder(t);
    const github = await startGithub(t, () => clock.now());
    const env = { PATH: path, HOME: home, GH_CONFIG_DIR: home, GH_TOKEN: TOKEN, HTTP_PROXY: github.url };
    const target = githubComment.create({ host: "github.localhost" }, platformParts({ clock, env }));
    github.next("close");
    const id = await enqueue(store, { target: "github_comment", payload: { text: "found it", extra: here } });
    await dispatch([target]).start();
    await logged("cannot deliver a message yet");
    // GitHub had taken it.
    github.write(1, String(github.asked[0]?.body?.["body"]));
    clock.tick(2_000);
    await reached(store, id, "delivered");
    assert.deepEqual(github.comments(1), [`found it\n\n<!-- agent-delivery:${id} -->`]);
    assert.deepEqual(
      github.asked.map(({ method }) => method),
      ["POST", "GET"],
    );
  },
);
