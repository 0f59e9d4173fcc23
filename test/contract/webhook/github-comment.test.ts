/** Answers as comments on a code host, over real HTTP and a real program in the place of its client. */
import assert from "node:assert/strict";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { startWebhookService, type WebhookService } from "../../harness/webhook.ts";

interface Cleanup {
  after(run: () => Promise<void>): void;
}

/** A program that notes its arguments and its input, and answers as the client prints a new comment. */
async function openProgram(t: Cleanup) {
  const folder = await mkdtemp(join(tmpdir(), "agentd-gh-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const program = join(folder, "gh");
  const lines = [
    "#!/bin/sh",
    `printf '%s\\n' "$@" > ${folder}/args`,
    `cat > ${folder}/input`,
    `echo run >> ${folder}/runs`,
    "printf 'HTTP/2.0 201 Created\\r\\n\\r\\n{\"id\": 1}'",
  ];
  await writeFile(program, lines.join("\n"));
  await chmod(program, 0o755);
  return { program, noted: (name: string) => readFile(join(folder, name), "utf8") };
}

const start = (program: string, route: object): Promise<WebhookService> =>
  startWebhookService({
    routes: { hook: { prompt: "PR {number}", deliver: "github_comment", ...route } },
    config: { platforms: { github_comment: { program } } },
  });

const from = { repo: "{repo}", pr_number: "{number}" };

test("gh runs with fixed arguments, and an invalid repository or pull request number never starts it", async (t) => {
  const { program, noted } = await openProgram(t);
  await using service = await start(program, { deliver_only: true, deliver_extra: from });
  assert.equal((await service.post("hook", { repo: "octo/hello", number: 7 })).status, 200);
  const args = ["api", "-i", "--method", "POST", "repos/octo/hello/issues/7/comments", "--input", "-"];
  assert.equal(await noted("args"), `${args.join("\n")}\n`);
  const { body } = JSON.parse(await noted("input")) as { readonly body: string };
  assert.match(body, /^PR 7\n\n<!-- agent-delivery:out_\w+ -->$/);
  for (const bad of [
    { repo: "octo/hello", number: 0 },
    { repo: "octo/hello", number: -1 },
    { repo: "octo/hello", number: "1; rm" },
    { repo: "octo/hello", number: "--x" },
    { repo: "a/b/c", number: 7 },
    { repo: "-x/y", number: 7 },
  ]) {
    const answer = await service.post("hook", bad);
    assert.deepEqual([answer.status, answer.body.status], [502, "error"], JSON.stringify(bad));
    const row = (await service.deliveries()).at(-1);
    assert.match(row?.reason ?? "", /deliver_extra\.(repo|pr_number)/);
  }
  assert.equal(await noted("runs"), "run\n", "it was started for the good one only");
});

test("a missing gh leaves the comment in the outbox with an error, and the log still gets the agent's answer", async () => {
  await using service = await start("/nonexistent/gh", {
    deliver: "github_comment,log",
    deliver_extra: { repo: "octo/hello", pr_number: 7 },
  });
  assert.equal((await service.post("hook", { number: 7 })).status, 202);
  const [delivery] = await service.recorded(([row]) => (row?.ended_at ?? null) !== null);
  assert.equal(delivery?.status, "completed");
  const [comment, log] = await tried(service);
  assert.deepEqual([comment?.target, comment?.status], ["github_comment", "due"]);
  assert.match(comment?.last_error ?? "", /^The program gh is not installed\. Install GitHub CLI/);
  assert.equal(log?.status, "delivered");
  assert.equal(service.logged("a response for the log")[0]?.["text"], "hello");
});

test("a route to github_comment without a program gh is logged at the start, and one with it is not", async (t) => {
  const { program } = await openProgram(t);
  const warned = async (path: string) => {
    await using service = await start(path, { deliver_extra: from });
    return service.logged("a webhook route delivers to a platform that is not set up");
  };
  const [warning] = await warned("/nonexistent/gh");
  assert.match(String(warning?.["problems"]), /The program gh is not installed\. Install GitHub CLI/);
  assert.deepEqual(await warned(program), []);
});

/** The outbox once each of its messages was tried, by the names of their targets. */
async function tried({ test: { service } }: WebhookService) {
  const patience = AbortSignal.timeout(60_000);
  for (;;) {
    const rows = await service.store.read.selectFrom("outbox").selectAll().orderBy("target").execute();
    if (rows.every(({ attempts, status }) => attempts > 0 && status !== "leased")) return rows;
    patience.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
