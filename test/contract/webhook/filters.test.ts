/** Which events go on, over real HTTP. The operators by themselves are in test/unit/webhook/filter.test.ts. */
import assert from "node:assert/strict";
import { rm, writeFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { WebhookRouteConfig } from "../../../generated/config/types.gen.ts";
import { bytesOf, startWebhookService, type WebhookService } from "../../harness/webhook.ts";

type Filters = NonNullable<WebhookRouteConfig["filters"]>;

interface Event {
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Filters, an event, and whether it passes. */
type Case = readonly [filters: Filters, event: Event | object, passes: boolean];

/** Registers a test of cases: one service, a route for each list of filters. */
function filtering(title: string, cases: readonly Case[]): void {
  test(title, async () => {
    const routes = Object.fromEntries(cases.map(([filters], index) => [`case-${index}`, { filters }]));
    await using service = await startWebhookService({ routes });
    for (const [index, [filters, event, passes]] of cases.entries()) {
      const label = `${JSON.stringify(filters)} for ${JSON.stringify(event)}`;
      assert.equal(await pass(service, `case-${index}`, event), passes, label);
    }
  });
}

async function pass(service: WebhookService, route: string, event: unknown): Promise<boolean> {
  const { body, headers } = isEvent(event) ? event : { body: event, headers: {} };
  const answer = await service.post(route, body, headers ? { headers } : {});
  if (answer.status === 202) return true;
  assert.deepEqual([answer.status, answer.body], [200, { status: "ignored", reason: "filter", route }]);
  return false;
}

const isEvent = (event: unknown): event is Event =>
  typeof event === "object" && event !== null && "body" in event;

const opened = { field: "action", equals: "opened" };
const draft = { field: "pull_request.draft", equals: true };
const pull = (action: string, isDraft: boolean) => ({ action, pull_request: { draft: isDraft } });

filtering("a list of filters passes only when every filter passes", [
  [[], { any: "thing" }, true],
  [[opened, draft], pull("opened", true), true],
  [[opened, draft], pull("opened", false), false],
  [[opened, draft], pull("closed", true), false],
]);

filtering("`any`, `all` and `not` nest, an empty `all` passes, and an empty `any` fails", [
  [[{ all: [] }], {}, true],
  [[{ any: [] }], {}, false],
  [[{ not: { any: [] } }], {}, true],
  [[{ any: [opened, { not: { all: [draft, { not: opened }] } }] }], pull("closed", false), true],
  [[{ any: [opened, { not: { all: [draft, { not: opened }] } }] }], pull("closed", true), false],
  [[{ not: opened }, { any: [draft, { field: "force", exists: true }] }], pull("closed", true), true],
]);

filtering("`payload.*` reads a top-level `payload` key when the body has one, and the whole body otherwise", [
  [[{ field: "payload.a", equals: 1 }], { a: 1 }, true],
  [[{ field: "payload.a", equals: 1 }], { payload: { a: 1 }, a: 2 }, true],
  [[{ field: "payload.a", exists: true }], { payload: "text", a: 1 }, false],
  [[{ field: "a", equals: 2 }], { payload: { a: 1 }, a: 2 }, true],
  [[{ field: "payload.items.1.id", equals: 7 }], { items: [{ id: 6 }, { id: 7 }] }, true],
  [
    [{ field: "event", equals: "push" }],
    { body: { event: "no" }, headers: { "x-github-event": "push" } },
    true,
  ],
  [
    [{ field: "payload.event", equals: "own" }],
    { body: { event: "own" }, headers: { "x-github-event": "push" } },
    true,
  ],
  [[{ field: "constructor", exists: true }], {}, false],
  [[{ field: "__proto__.polluted", equals: true }], { body: '{"__proto__":{"polluted":true}}' }, true],
]);

filtering("`headers.*` reads request headers in any case, and nothing of the body", [
  [[{ field: "headers.X-Tenant", equals: "acme" }], { body: {}, headers: { "x-tenant": "acme" } }, true],
  [[{ field: "headers.x-tenant", equals: "acme" }], { body: {}, headers: { "X-TENANT": "acme" } }, true],
  [[{ field: "headers.X-Tenant", exists: false }], { body: { "x-tenant": "acme" } }, true],
  [[{ field: "headers", exists: false }], { body: { headers: 1 } }, true],
  [[{ field: "headers.no name", exists: false }], {}, true],
]);

filtering("`equals` compares value and type, and a missing field fails `equals` and passes `not_equals`", [
  [[{ field: "a", equals: false }], { a: false }, true],
  [[{ field: "a", equals: false }], { a: 0 }, false],
  [[{ field: "a", equals: 1 }], { a: "1" }, false],
  [[{ field: "a", equals: 1 }], { a: true }, false],
  [[{ field: "a", equals: 1 }], { body: '{"a":1.0}' }, true],
  [[{ field: "a", equals: null }], {}, false],
  [[{ field: "a", equals: null }], { a: null }, true],
  [[{ field: "a", equals: { b: [1, { c: 2 }] } }], { a: { b: [1, { c: 2 }] } }, true],
  [[{ field: "a", equals: [] }], { a: {} }, false],
  [[{ field: "a", not_equals: 1 }], {}, true],
  [[{ field: "a", not_equals: 1 }], { a: 1 }, false],
]);

filtering("`exists` and `missing` treat null as present", [
  [[{ field: "a", exists: true }], { a: null }, true],
  [[{ field: "a", exists: true }], {}, false],
  [[{ field: "a", exists: false }], {}, true],
  [[{ field: "a", exists: false }], { a: null }, false],
  [[{ field: "a.b.c", missing: true }], { a: { b: 1 } }, true],
  [[{ field: "a", missing: true }], { a: null }, false],
]);

filtering(
  "`contains` searches lists, object keys, strings and numbers as text, and fails for a missing field",
  [
    [[{ field: "labels", contains: "bug" }], { labels: ["bug", "ui"] }, true],
    [[{ field: "labels", contains: { id: 1 } }], { labels: [{ id: 1 }] }, true],
    [[{ field: "labels", contains: "bu" }], { labels: ["bug"] }, false],
    [[{ field: "o", contains: "key" }], { o: { key: 0 } }, true],
    [[{ field: "o", contains: "toString" }], { o: { key: 0 } }, false],
    [[{ field: "s", contains: "ell" }], { s: "hello" }, true],
    [[{ field: "n", contains: "23" }], { n: 1234 }, true],
    [[{ field: "n", contains: 23 }], { n: 1234 }, true],
    [[{ field: "gone", contains: "" }], {}, false],
  ],
);

filtering("`in` passes for a listed value of the same type", [
  [[{ field: "ref", in: ["refs/heads/main", 7, null] }], { ref: "refs/heads/main" }, true],
  [[{ field: "ref", in: ["refs/heads/main", 7, null] }], { ref: 7 }, true],
  [[{ field: "ref", in: ["refs/heads/main", 7, null] }], { ref: "7" }, false],
  [[{ field: "ref", in: [null] }], {}, false],
]);

test("`in_file` reads JSON lists, object keys and lines, sees edits at the next request, and lists nothing when absent", async () => {
  const byFile = (path: string): Partial<WebhookRouteConfig> => ({
    filters: [{ field: "user", in_file: path }],
  });
  await using service = await startWebhookService({
    routes: {
      list: byFile("allowed.json"),
      home: byFile("<home>/allowed.json"),
      variable: byFile("${LISTS}/allowed.json"),
      lines: byFile("lists/lines.txt"),
      keys: byFile("keys.json"),
      unlisted: { filters: [{ not: { field: "user", in_file: "absent.json" } }] },
    },
    env: { LISTS: "lists/.." },
  });
  const home = join(service.test.home, "agentd");
  await mkdir(join(home, "lists"), { recursive: true });
  const user = (name: unknown, route = "list") => pass(service, route, { user: name });
  assert.equal(await user("ada"), false, "without the file nothing passes");
  assert.equal(await user("ada", "unlisted"), true, "nor is anybody listed in it");
  assert.ok(service.logged("a filter is invalid").length >= 1, "the absent file is warned of");

  await writeFile(join(home, "allowed.json"), '["ada", 7]');
  for (const route of ["list", "home", "variable"]) assert.equal(await user("ada", route), true, route);
  assert.equal(await user(7), true);
  assert.equal(await user("7"), false);

  // Of the same length, within the same moment: nothing but the content tells.
  await writeFile(join(home, "allowed.json"), '["bob", 7]');
  assert.equal(await user("ada"), false);
  assert.equal(await user("bob"), true);

  await writeFile(join(home, "keys.json"), '\uFEFF{"ada": {"since": 2020}}');
  assert.equal(await user("ada", "keys"), true);
  await writeFile(join(home, "lists/lines.txt"), "\r\n  ada \r\n\r\nbob\r\n");
  assert.equal(await user("ada", "lines"), true);
  assert.equal(await user("", "lines"), false);

  await rm(join(home, "allowed.json"));
  assert.equal(await user("bob"), false);
});

filtering("`regex` searches the value as text and matches anywhere unless it is anchored", [
  [[{ field: "ref", regex: "release/" }], { ref: "refs/heads/release/1.2" }, true],
  [[{ field: "ref", regex: "^release/" }], { ref: "refs/heads/release/1.2" }, false],
  [[{ field: "ref", regex: "(?i)RELEASE/(?P<v>\\d+)" }], { ref: "refs/heads/release/1.2" }, true],
  [[{ field: "n", regex: "^12$" }], { n: 12 }, true],
  [[{ field: "o", regex: '^\\{"a":1,"b":\\[true,null\\]\\}$' }], { o: { b: [true, null], a: 1 } }, true],
  [[{ field: "gone", regex: ".*" }], {}, false],
]);

const unusable: readonly (readonly [entry: Record<string, unknown>, problem: RegExp])[] = [
  [{ field: "a", regex: "(" }, /filters\[0\]\.regex is not a valid pattern/],
  [{ field: "a", regex: "(?<=x)y" }, /is not a valid pattern/],
  [{ field: "a", regex: "(a)\\1" }, /is not a valid pattern/],
  [{ field: "a", regex: "(?:[ab]?){900}[ab]{900}" }, /is not a valid pattern .* too large/],
  [{ field: "a", regex: 7 }, /is not a valid pattern/],
  [{ field: "a", exists: "yes" }, /exists must be true or false/],
  [{ field: "a", missing: false }, /missing must be true; for its opposite use exists/],
  [{ field: "a", in: "main" }, /in must be a list/],
  [{ field: "a", in_file: "" }, /in_file must be the path of a file/],
  [{ field: "", equals: 1 }, /equals needs a field/],
  [{ equals: 1 }, /equals needs a field/],
  [{ all: {} }, /all must be a list/],
  [{ not: [] }, /not must be one entry/],
  [{ not: { any: [{ field: "a", regex: "(" }] } }, /filters\[0\]\.not\.any\[0\]\.regex/],
];
const unknown: typeof unusable = [
  [
    { field: "a", matches: "x" },
    /filters\[0\] has the unknown operator "matches"; the operators are: exists, /,
  ],
  [{ field: "a" }, /filters\[0\] has no operator/],
  [{ field: "a", equals: 1, contains: 1 }, /more than one operator: equals, contains/],
];

for (const [title, cases] of [
  ["an invalid pattern or operand in a static route is refused at load", unusable],
  ["an unknown operator in a static route is refused at load", unknown],
] as const) {
  test(title, async () => {
    for (const [entry, problem] of cases) {
      const start = startWebhookService({ routes: { hook: { filters: [entry] } } });
      const refused = await start.then(
        () => assert.fail(`started with ${JSON.stringify(entry)}`),
        (error: unknown) => error as Error & { code: string },
      );
      assert.equal(refused.code, "invalid_config");
      assert.match(refused.message, /hook: /);
      assert.match(refused.message, problem);
    }
  });
}

for (const [title, entries] of [
  ["a subscription's filter with an invalid pattern or operand matches nothing, even inside `not`", unusable],
  [
    "a subscription's filter with an unknown operator matches nothing, even inside `not`",
    unknown.slice(0, 2),
  ],
] as const) {
  test(title, async () => {
    await using service = await startWebhookService({ routes: {} });
    const subscriptions = Object.fromEntries(
      entries.flatMap(([entry], index) => [
        [`plain-${index}`, { filters: [entry] }],
        [`not-${index}`, { filters: [{ not: entry }] }],
      ]),
    );
    const file = join(service.test.home, "agentd", "webhook_subscriptions.json");
    await mkdir(join(service.test.home, "agentd"), { recursive: true });
    await writeFile(file, JSON.stringify(subscriptions));
    for (const name of Object.keys(subscriptions)) {
      assert.equal(await pass(service, name, { a: "x" }), false, JSON.stringify(subscriptions[name]));
    }
    assert.ok(service.logged("a filter is invalid").length > 0);
  });
}

test("a regex prone to catastrophic backtracking is decided on 50,000 characters", async () => {
  const patterns = ["^(a+)+$", "(x+x+)+y$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*)*(.*)*(.*)*b$", "(a|aa)+$"];
  const routes = Object.fromEntries(
    patterns.map((regex, index) => [`p-${index}`, { filters: [{ field: "text", regex }] }]),
  );
  await using service = await startWebhookService({ routes });
  for (const [index, pattern] of patterns.entries()) {
    const texts = ["a".repeat(50_000), "x".repeat(50_000)].map((text) => ({ text: `b${text}!` }));
    for (const body of texts) {
      // An engine that goes back over what it read would not answer in the life of this test.
      assert.equal(await pass(service, `p-${index}`, body), false, pattern);
    }
  }
});

test("filters see payloads of any shape: numbers beyond 2^53, lone surrogates, 100,000 keys, 10,000 levels", async () => {
  const regex = { field: "v", regex: "\\d" };
  await using service = await startWebhookService({
    routes: {
      big: {
        filters: [
          { field: "id", contains: "9007199254740993" },
          { field: "id", equals: 2 ** 53 },
        ],
      },
      half: { filters: [{ field: "text", contains: "\uD83D" }] },
      many: { filters: [{ field: "v", contains: "k99999" }, regex] },
      deep: { filters: [{ field: "v", exists: true }] },
    },
  });
  assert.equal(await pass(service, "big", { body: '{"id":9007199254740993}' }), true);
  assert.equal(await pass(service, "big", { body: '{"id":9007199254740992}' }), false);
  assert.equal(await pass(service, "half", { body: '{"text":"\\ud83d"}' }), true);
  const v = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`k${index}`, 0]));
  assert.ok(bytesOf({ v }).length > 1_000_000);
  assert.equal((await service.post("many", { v })).status, 413, "a megabyte is the limit");
  const fits = Object.fromEntries(Object.entries(v).slice(20_000));
  assert.equal(await pass(service, "many", { v: fits }), true);
  const deep = `{"v":${"[".repeat(10_000)}${"]".repeat(10_000)}}`;
  assert.equal((await service.post("deep", deep)).status, 400);
  assert.equal(await pass(service, "deep", { v: 1 }), true, "and it goes on");
});

test("the record names the entry, the field and the value that a filter stopped at, and the log names none of it", async () => {
  const filters: Filters = [
    { field: "repository.private", equals: false },
    { all: [opened, { any: [draft, { field: "label", in: ["a", "b"] }] }] },
    { field: "headers.X-Token", equals: "of-this-sender" },
    { not: { field: "sender", exists: true } },
  ];
  await using service = await startWebhookService({ routes: { hook: { filters } } });
  const good = { repository: { private: false }, action: "opened", label: "a" };
  const token = { "x-token": "of-this-sender" };
  const cases: readonly (readonly [object, Readonly<Record<string, string>>, string])[] = [
    [{ ...good, repository: {} }, token, "filters[0]: repository.private equals false, but it is missing"],
    [{ ...good, action: "closed" }, token, 'filters[1].all[0]: action equals "opened", but it is "closed"'],
    [{ ...good, label: "x" }, token, "filters[1].all[1].any: none of its entries matches"],
    [good, { "x-token": "wrong" }, "filters[2]: headers.X-Token equals, but it is another value"],
    [{ ...good, sender: {} }, token, "filters[3].not: its entry matches, or is invalid"],
    [
      { ...good, action: { long: "x".repeat(5000) } },
      token,
      `filters[1].all[0]: action equals "opened", but it is { "long": "${"x".repeat(88)}…`,
    ],
  ];
  for (const [index, [body, headers, detail]] of cases.entries()) {
    const named = { ...headers, "x-github-delivery": `case-${index}` };
    assert.equal((await service.post("hook", body, { headers: named })).body.reason, "filter");
    const rows = await service.recorded((all) => all.length === index + 1);
    assert.equal(rows.find((row) => row.delivery_id === `case-${index}`)?.reason, detail);
  }
  const reasons = service.logged("a webhook was ignored").map(({ reason }) => reason);
  assert.deepEqual(new Set(reasons), new Set(["filters"]));
});
