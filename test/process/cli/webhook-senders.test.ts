/** How `agentd webhook` sets up the services that people connect, and what a dry run says of a route. */
import assert from "node:assert/strict";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { Outcome } from "../../harness/agentd.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { createHome } from "../../unit/config/home-folder.ts";

const CONFIG = `version: 1
platforms:
  telegram: { token: "12345:x", home_channel: "42", home_thread: "7" }
  webhook:
    enabled: true
    extra: { port: 18646 }
`;

interface Place extends AsyncDisposable {
  readonly home: string;
  webhook(...words: string[]): Promise<Outcome>;
  subscription(name: string): Promise<Record<string, unknown>>;
}

async function createPlace(): Promise<Place> {
  const made = await createHome({ "config.yaml": CONFIG });
  return {
    home: made.home,
    webhook: (...words) => keptAgentd(["webhook", ...words], { AGENTD_HOME: made.home }),
    subscription: async (name) =>
      JSON.parse(await readFile(join(made.home, "webhook_subscriptions.json"), "utf8"))[name],
    [Symbol.asyncDispose]: () => made[Symbol.asyncDispose](),
  };
}

test("subscribe takes a preset, says whose secret it is, and keeps both when it changes something else", async () => {
  await using place = await createPlace();
  const made = await place.webhook("subscribe", "pay", "--scheme", "stripe");
  assert.equal(made.code, 0, made.stderr);
  assert.match(made.stdout, /Requests must have the signature of stripe in the header stripe-signature\./);
  assert.match(
    made.stderr,
    /stripe makes the secret itself\. Pass it with `agentd webhook subscribe pay --secret-stdin`, or with --secret env:NAME/,
  );
  const changed = await place.webhook(
    "subscribe",
    "pay",
    "--secret",
    "whsec_of-stripe",
    "--prompt",
    "paid {id}",
  );
  assert.doesNotMatch(changed.stderr, /makes the secret itself/);
  const { scheme, secret, prompt } = await place.subscription("pay");
  assert.deepEqual([scheme, secret, prompt], ["stripe", "whsec_of-stripe", "paid {id}"]);
  const notion = await place.webhook("subscribe", "pages", "--scheme", "notion");
  assert.match(notion.stderr, /keeps it in <home>\/webhook_verification\/pages\.txt/);
  const meta = await place.webhook("subscribe", "feed", "--scheme", "meta");
  assert.match(meta.stderr, /pass --verify-token/);
  const sha1 = await place.webhook("subscribe", "calls", "--scheme", "vercel", "--secret", "of-vercel");
  assert.match(sha1.stderr, /SHA-1/);
});

test("subscribe takes a signature of its own, and refuses one that cannot work", async () => {
  await using place = await createPlace();
  const made = await place.webhook(
    "subscribe",
    "acme",
    "--scheme",
    "custom",
    "--signature",
    "header=X-Acme-Sign",
    "--signature",
    "prefix=t=",
    "--signature",
    "timestamp_header=X-Acme-Time",
  );
  assert.equal(made.code, 0, made.stderr);
  assert.deepEqual((await place.subscription("acme"))["signature"], {
    header: "X-Acme-Sign",
    prefix: "t=",
    timestamp_header: "X-Acme-Time",
  });
  for (const [options, code, text] of [
    [["--scheme", "custom"], 1, /scheme custom needs signature\.header/],
    [["--scheme", "nobody"], 2, /--scheme/],
    [["--signature", "header=X-A"], 1, /signature needs a scheme/],
    [["--scheme", "custom", "--signature", "header"], 2, /--signature must be name=value/],
    [
      ["--scheme", "custom", "--signature", "header=X-A", "--signature", "heading=x"],
      1,
      /signature\.heading is not known here; valid names: header, prefix/,
    ],
    [["--scheme", "custom", "--signature", "header=X-A", "--signature", "algorithm=sha1"], 1, /algorithm/],
    [
      ["--scheme", "custom", "--signature", "header=X-A", "--signature", "signed={id}.{body}"],
      1,
      /unknown field \{id\}/,
    ],
    [
      ["--scheme", "custom", "--signature", "header=X-A", "--signature", "signed={timestamp}{body}"],
      1,
      /timestamp_header or timestamp_prefix/,
    ],
    [["--scheme", "twilio"], 1, /signature\.url is missing/],
    [["--scheme", "stripe", "--auth", "bearer"], 1, /auth bearer does not go with the scheme stripe/],
  ] as const) {
    const refused = await place.webhook("subscribe", "other", ...options);
    assert.equal(refused.code, code, `${options.join(" ")}: ${refused.stderr}`);
    assert.match(refused.stderr, text);
  }
});

test("subscribe sets up services that sign nothing: bearer, basic, and the secret in the URL", async () => {
  await using place = await createPlace();
  for (const [auth, text] of [
    ["bearer", /must send the secret as a bearer token/],
    ["basic", /must send the secret as the password of basic authentication/],
  ] as const) {
    const made = await place.webhook("subscribe", auth, "--auth", auth);
    assert.match(made.stdout, text);
    assert.equal((await place.subscription(auth))["auth"], auth);
  }
  await place.webhook("subscribe", "pager", "--scheme", "pagerduty", "--secret", "s");
  const listed = await place.webhook("list");
  assert.match(listed.stdout, /^bearer .* bearer .*\n[\s\S]*^pager .* pagerduty /m);
  const made = await place.webhook(
    "subscribe",
    "images",
    "--auth",
    "path",
    "--secret",
    "of the/path",
    "--json",
  );
  assert.equal(JSON.parse(made.stdout).url, "http://localhost:18646/webhooks/images/of%20the%2Fpath");
  const meta = await place.webhook(
    "subscribe",
    "pages",
    "--scheme",
    "meta",
    "--secret",
    "s",
    "--verify-token",
    "mine",
    "--json",
  );
  assert.equal(meta.code, 0, meta.stderr);
  assert.equal((await place.subscription("pages"))["verify_token"], "mine");
  assert.equal(JSON.parse(meta.stdout).verify_token, undefined, "it is not printed");
  const unset = await place.webhook("subscribe", "pages", "--verify-token", "env:NOT_SET_ANYWHERE");
  assert.match(unset.stderr, /verify_token is empty, or names a variable that is not set/);
});

test("a dry run names the targets, what is not set up, and the fields that the payload does not have", async () => {
  await using place = await createPlace();
  const deliver = "telegram, slack, github_comment";
  await place.webhook("subscribe", "ci", "--deliver", deliver, "--prompt", "{a.b} and {missing.one}");
  const dryRun = ["test", "ci", "--dry-run", "--payload", '{"a": {"b": 1}}'];
  const shown = await place.webhook(...dryRun);
  assert.equal(shown.code, 0, shown.stderr);
  assert.match(shown.stdout, /The agent's answer would go to telegram:42:7, slack, github_comment\n/);
  assert.match(shown.stdout, /Problem: Slack is not configured: .*SLACK_BOT_TOKEN/);
  assert.match(shown.stdout, /Problem: github_comment needs repo and pr_number in deliver_extra\./);
  assert.match(shown.stdout, /The payload has no \{missing\.one\}: the text stays as it is written\./);
  const result = JSON.parse((await place.webhook(...dryRun, "--json")).stdout);
  assert.deepEqual(result.targets, ["telegram:42:7", "slack", "github_comment"]);
  assert.deepEqual([result.http_status, result.missing_fields], [202, ["{missing.one}"]]);
});

test("a dry run shows what a failing script printed to standard error, and which filter stopped the event", async () => {
  await using place = await createPlace();
  await mkdir(join(place.home, "scripts"));
  const script = join(place.home, "scripts", "fail.sh");
  await writeFile(script, "echo 'no module named json' >&2\nexit 1\n");
  await chmod(script, 0o700);
  await place.webhook("subscribe", "scripted", "--script", "fail.sh");
  const failed = await place.webhook("test", "scripted", "--dry-run");
  assert.match(failed.stdout, /script +stop {2}it ended with code 1: no module named json/);

  const file = join(place.home, "webhook_subscriptions.json");
  const filters = [{ field: "action", equals: "opened" }];
  await writeFile(file, JSON.stringify({ filtered: { secret: "s", filters } }));
  const stopped = await place.webhook("test", "filtered", "--dry-run", "--payload", '{"action":"closed"}');
  assert.match(stopped.stdout, /filters +stop {2}filters\[0\]: action equals "opened", but it is "closed"/);
});
