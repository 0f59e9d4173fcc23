import assert from "node:assert/strict";
import { chmod, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { createHome, modeOf } from "../../unit/config/home-folder.ts";
import { openStore } from "../../../src/store/open.ts";
import { agentd, type Outcome } from "../../harness/agentd.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { commandEnvironment } from "../../../src/exec/process-group.ts";

const CONFIG = `version: 1
platforms:
  webhook:
    enabled: true
    extra:
      port: 18644
      routes:
        fixed: { secret: of-the-configuration }
`;

interface Place extends AsyncDisposable {
  readonly home: string;
  readonly file: string;
  webhook(...words: string[]): Promise<Outcome>;
  subscriptions(): Promise<Record<string, Record<string, unknown>>>;
}

async function createPlace(config: string = CONFIG): Promise<Place> {
  const made = await createHome({ "config.yaml": config });
  const file = join(made.home, "webhook_subscriptions.json");
  return {
    home: made.home,
    file,
    webhook: (...words) => keptAgentd(["webhook", ...words], { AGENTD_HOME: made.home }),
    subscriptions: async () => JSON.parse(await readFile(file, "utf8")),
    [Symbol.asyncDispose]: () => made[Symbol.asyncDispose](),
  };
}

function secretIn({ stdout }: Outcome): string {
  return /Secret:\s+(\S+)/.exec(stdout)?.[1] ?? assert.fail(stdout);
}

test("subscribe creates a subscription with a generated or given secret, keeps it on update and refuses bad names", async () => {
  await using place = await createPlace();
  const first = await place.webhook(
    "subscribe",
    " My Hook ",
    "--events",
    "push, ping",
    "--prompt",
    "see {a}",
  );
  assert.equal(first.code, 0, first.stderr);
  for (const line of [
    "  Created webhook subscription: my-hook",
    "  URL:     http://localhost:18644/webhooks/my-hook",
    "  Events:  push, ping",
    "  Deliver: log",
    "  Prompt:  see {a}",
  ]) {
    assert.ok(first.stdout.split("\n").includes(line), `${line} in ${first.stdout}`);
  }
  const secret = secretIn(first);
  assert.match(secret, /^[\w-]{43}$/);

  const again = await place.webhook("add", "my-hook", "--skill", "one", "--skills", "two,three");
  assert.ok(again.stdout.includes("Updated webhook subscription: my-hook"));
  assert.match(again.stdout, /^ {2}Secret: {2}\(as before\)$/m);
  const { "my-hook": kept } = await place.subscriptions();
  assert.equal(kept?.["secret"], secret);
  assert.deepEqual(kept?.["skills"], ["one", "two", "three"]);
  assert.deepEqual(kept?.["events"], []);
  assert.equal(kept?.["prompt"], undefined);

  const custom = await place.webhook("subscribe", "my-hook", "--secret", "of-my-own", "--json");
  const told = JSON.parse(custom.stdout);
  assert.equal(told.secret, "of-my-own");
  assert.equal(told.created, false);

  for (const name of ["a/b", "-a", "é", " "]) {
    const bad = await place.webhook("subscribe", "--", name);
    assert.equal(bad.code, 2, name);
    assert.match(bad.stderr, /Invalid name .*Use lowercase alphanumeric with hyphens\/underscores\./);
  }
  const taken = await place.webhook("subscribe", "fixed");
  assert.equal(taken.code, 1);
  assert.match(taken.stderr, /The configured route fixed would override it/);
});

test("subscribe refuses invalid options and combinations and then writes nothing", async () => {
  await using place = await createPlace();
  for (const [words, code, text] of [
    [["--deliver-only"], 2, /--deliver-only needs a real target/],
    [["--deliver-only", "--deliver", "log:x"], 1, /deliver_only needs a real target/],
    [["--retry-on-script-failure"], 2, /--retry-on-script-failure requires --script/],
    [["--deliver", "telegran"], 1, /deliver: "telegran" is not a target; did you mean "telegram"/],
    [["--secret", ""], 2, /--secret is empty/],
    [["--secret", "env:NOBODY_SET_THIS"], 1, /NOBODY_SET_THIS, its secret, is not set/],
    [["--secret", "INSECURE_NO_AUTH"], 1, /for loopback addresses only/],
    [["--evnts", "a"], 2, /Unknown option --evnts; did you mean --events\?/],
  ] as const) {
    const refused = await place.webhook("subscribe", "ci", ...words);
    assert.equal(refused.code, code, words.join(" "));
    assert.match(refused.stderr, text);
  }
  await assert.rejects(stat(place.file), "nothing was written");
  const words = "subscribe ci --deliver webhook --deliver-only --deliver-chat-id 7".split(" ");
  const more = [
    "--script",
    "x.sh",
    "--retry-on-script-failure",
    "--prompt",
    "p".repeat(100),
    "--description",
    "d",
  ];
  const direct = await place.webhook(...words, ...more);
  assert.equal(direct.code, 0, direct.stderr);
  assert.match(direct.stdout, /Mode: {4}direct delivery \(no agent, zero LLM cost\)/);
  assert.match(direct.stdout, /Message: p{79}…/);
  const { ci } = await place.subscriptions();
  assert.equal(ci?.["deliver_only"], true);
  assert.equal(ci?.["retry_on_script_failure"], true);
  assert.deepEqual(ci?.["deliver_extra"], { chat_id: "7" });
});

test("a subscription accepts several targets and says how to set up missing ones", async () => {
  await using place = await createPlace();
  const to = "telegram:-100:17, sms:+15550100,local";
  const made = await place.webhook("subscribe", "ci", "--deliver", to, "--deliver-only");
  assert.equal(made.code, 0, made.stderr);
  assert.match(made.stdout, /Deliver: telegram:-100:17, sms:\+15550100,local/);
  assert.match(
    made.stderr,
    /Telegram is not configured: .*TELEGRAM_BOT_TOKEN.* or run `agentd gateway setup`\./,
  );
  assert.equal((await place.subscriptions())["ci"]?.["deliver"], to);
  const many = Array.from({ length: 17 }, (_, n) => `slack:C${n}`).join();
  const refused = await place.webhook("subscribe", "ci", "--deliver", many);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /deliver: it names 17 targets; the maximum is 16/);
});

test("the subscriptions file always gets mode 0600, and a corrupt file is set aside", async () => {
  await using place = await createPlace();
  await place.webhook("subscribe", "a");
  assert.equal(await modeOf(place.file), "600");
  await chmod(place.file, 0o644);
  await place.webhook("subscribe", "b");
  assert.equal(await modeOf(place.file), "600");
  assert.deepEqual(Object.keys(await place.subscriptions()), ["a", "b"]);

  await writeFile(place.file, '{"a": {');
  const listed = await place.webhook("list");
  assert.match(listed.stderr, /webhook_subscriptions\.json cannot be used: it is not JSON/);
  assert.equal(listed.code, 1);
  const next = await place.webhook("subscribe", "c");
  assert.equal(next.code, 0);
  assert.match(next.stderr, /Renamed it to .*\.broken-\d+ and started a new file/);
  assert.deepEqual(Object.keys(await place.subscriptions()), ["c"]);
  const aside = (await readdir(place.home)).find((name) => name.includes(".broken-")) ?? "";
  assert.equal(await readFile(join(place.home, aside), "utf8"), '{"a": {');
});

test("subscriptions made concurrently are all kept", async () => {
  await using place = await createPlace();
  const names = ["a", "b", "c", "d"];
  const made = await Promise.all(
    names.map((name) => agentd(["webhook", "subscribe", name], { AGENTD_HOME: place.home })),
  );
  assert.deepEqual(
    made.map(({ code }) => code),
    [0, 0, 0, 0],
  );
  assert.deepEqual(Object.keys(await place.subscriptions()).toSorted(), names);
});

test("list hides secrets, remove deletes one subscription, and unknown names get a hint", async () => {
  await using place = await createPlace();
  const empty = await place.webhook("ls");
  assert.match(empty.stdout, /No dynamic webhook subscriptions\. .*agentd webhook subscribe/);
  const secret = secretIn(
    await place.webhook("subscribe", "a", "--description", "of a\u001b[31m", "--script", "s.py"),
  );
  await place.webhook("subscribe", "b", "--events", "x");

  const inOwnProcess = (...words: string[]) => agentd(["webhook", ...words], { AGENTD_HOME: place.home });
  const listed = await inOwnProcess("list");
  assert.match(listed.stdout, /^NAME +STATUS +EVENTS +DELIVER +SENDER +URL +DESCRIPTION$/m);
  assert.match(
    listed.stdout,
    /^a +ready +\(all\) +log +signature +http:\/\/localhost:18644\/webhooks\/a +of a\uFFFD\[31m$/m,
  );
  assert.match(listed.stdout, /Configured routes: fixed/);
  const inJson = await inOwnProcess("list", "--json");
  for (const { stdout, stderr } of [listed, inJson]) assert.ok(!(stdout + stderr).includes(secret));
  assert.deepEqual(
    JSON.parse(inJson.stdout).subscriptions.map(({ name, issues }: Record<string, unknown>) => [
      name,
      issues,
    ]),
    [
      ["a", []],
      ["b", []],
    ],
  );

  const removed = await place.webhook("rm", "A");
  assert.equal(removed.stdout, "  Removed webhook subscription: a\n");
  assert.deepEqual(Object.keys(await place.subscriptions()), ["b"]);
  for (const [name, hint] of [
    ["a", /No subscription named 'a'.*\n {2}This command cannot remove configured routes\./],
    ["fixed", /No subscription named 'fixed'.*\n {2}It is a configured route/],
  ] as const) {
    const unknown = await place.webhook("remove", name);
    assert.equal(unknown.code, 1);
    assert.match(unknown.stderr, hint);
  }

  // Nobody listens on the port.
  const tested = await place.webhook("test", "b", "--receiver", "http://127.0.0.1:9");
  assert.equal(tested.code, 1);
  assert.match(tested.stdout, /Sending test POST to http:\/\/127\.0\.0\.1:9\/webhooks\/b\n {2}Error: /);
  assert.match(tested.stdout, /Is the gateway running\?/);
  const missing = await place.webhook("test", "bb");
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /Unknown route "bb"; did you mean "b"\?/);
});

test("`test --dry-run` prints each stage and the rendered prompt without a gateway", async () => {
  await using place = await createPlace();
  await place.webhook("subscribe", "ci", "--events", "push", "--prompt", "by {user.name} on {event_type}");
  const words = ["test", "ci", "--dry-run", "--payload", '{"user": {"name": "ada"}}'];
  const passed = await place.webhook(...words, "--event", "push");
  assert.equal(passed.code, 0, passed.stderr);
  assert.match(passed.stdout, /events +pass {2}push[\s\S]*render +pass[\s\S]*by ada on push/);
  const accepted = await place.webhook(...words, "--json");
  assert.equal(JSON.parse(accepted.stdout).event, "push", "the first event that the route accepts");
  const ignored = await place.webhook(...words, "--event", "other", "--json");
  const { http_status: status, body, stages, rendered, targets } = JSON.parse(ignored.stdout);
  assert.deepEqual([status, body], [200, { status: "ignored", event: "other" }]);
  assert.equal(stages.at(-1).result, "stop");
  assert.deepEqual([rendered, targets], [null, []]);
  const own = await place.webhook(...words, "--header", "X-Gitlab-Event: push");
  assert.match(own.stdout, /by ada on push/);
  for (const [more, text] of [
    [["--payload", "{"], /--payload must be JSON/],
    [["--payload", "{}", "--file", "x"], /--payload and --file cannot be combined/],
    [["--header", "nothing"], /--header must be 'name: value'/],
  ] as const) {
    const refused = await place.webhook("test", "ci", ...more);
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, text);
  }
});

test("webhook commands print a hint while the platform is off, and an environment variable can enable it", async () => {
  await using place = await createPlace("version: 1\n");
  for (const words of [["list"], ["subscribe", "a"], ["remove", "a"], ["test", "a"]]) {
    const off = await place.webhook(...words);
    assert.equal(off.code, 1, words.join(" "));
    assert.match(off.stderr, /Webhooks are not enabled\.[\s\S]*`agentd gateway setup`/);
  }
  const env = { AGENTD_HOME: place.home, WEBHOOK_ENABLED: "true", WEBHOOK_PORT: "18645" };
  const on = await keptAgentd(["webhook", "subscribe", "a"], env);
  assert.equal(on.code, 0, on.stderr);
  assert.match(on.stdout, /http:\/\/localhost:18645\/webhooks\/a/);
});

test("a command of the agent sees the receiver that only the gateway's environment enables, and not its secret", async () => {
  await using place = await createPlace("version: 1\n");
  const gateway = { WEBHOOK_ENABLED: "true", WEBHOOK_PORT: "18647", WEBHOOK_SECRET: "of-the-gateway" };
  const env = commandEnvironment([], {}, { AGENTD_HOME: place.home, ...gateway });
  assert.ok(!JSON.stringify(env).includes("of-the-gateway"));
  const listed = await keptAgentd(["webhook", "list"], env);
  assert.equal(listed.code, 0, listed.stderr);
  const made = await keptAgentd(["webhook", "subscribe", "ci", "--json"], env);
  assert.equal(JSON.parse(made.stdout).url, "http://localhost:18647/webhooks/ci");
});

test("subscribe and remove are in the feed of events, under the owner of the route", async () => {
  await using place = await createPlace();
  const store = await openStore({ url: join(place.home, "state.db") });
  try {
    assert.equal((await place.webhook("subscribe", "mine", "--prompt", "before")).code, 0);
    const made = (await place.subscriptions())["mine"];
    const added = { toolsets: ["web"], deliver_extra: { chat_id: "1", thread_id: "2" }, custom: 1 };
    const mine = { ...made, ...added, owner: "ann" };
    await writeFile(place.file, JSON.stringify({ mine }));
    assert.equal((await place.webhook("subscribe", "mine", "--events", "push")).code, 0);
    const changed = (await place.subscriptions())["mine"];
    assert.deepEqual(
      [changed?.["toolsets"], changed?.["deliver_extra"], changed?.["custom"], changed?.["prompt"]],
      [["web"], { thread_id: "2" }, 1, undefined],
      "what was added by hand stays",
    );
    assert.deepEqual(
      [changed?.["secret"], changed?.["created_at"]],
      [made?.["secret"], made?.["created_at"]],
    );
    assert.equal((await place.webhook("remove", "mine")).code, 0);
    const rows = await store.feed.read({ after: { tx: 0, id: 0 }, limit: 10 });
    assert.deepEqual(
      rows.map(({ type, ref, owner, actor, data }) => [type, ref, owner, actor, data]),
      [
        ["route.created", "mine", "default", "cli", { enabled: true }],
        ["route.updated", "mine", "ann", "cli", { enabled: true }],
        ["route.deleted", "mine", "ann", "cli", {}],
      ],
    );
  } finally {
    await store.close();
  }
});
