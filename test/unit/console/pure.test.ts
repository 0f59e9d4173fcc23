import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { matchRoute } from "../../../src/console/router.ts";
import { findCommands, fuzzyScore, type Command } from "../../../src/console/state/commands.ts";
import { addressOf } from "../../../src/console/state/session.ts";
import { compactCount, cost, countdown, duration, relativeTime } from "../../../src/console/ui/format.ts";
import { isSafeAddress, lexGrowing, type LexedText } from "../../../src/console/ui/markdown-tokens.ts";

test("an address is matched by the first route that fits, with its parts decoded", () => {
  const routes = { chat: "/chat/:session?", run: "/runs/:id", runs: "/runs" };
  assert.deepEqual(matchRoute(routes, "/chat"), { name: "chat", params: {} });
  assert.deepEqual(matchRoute(routes, "/chat/a%20b/"), { name: "chat", params: { session: "a b" } });
  assert.deepEqual(matchRoute(routes, "/chat/%E0%A4%A"), { name: "chat", params: { session: "%E0%A4%A" } });
  assert.deepEqual(matchRoute(routes, "/runs"), { name: "runs", params: {} });
  assert.deepEqual(matchRoute(routes, "/runs/run_1"), { name: "run", params: { id: "run_1" } });
  assert.equal(matchRoute(routes, "/runs/run_1/more"), undefined);
  assert.equal(matchRoute(routes, "/other"), undefined);
});

test("a request's address has its parts encoded, lists with commas, and nothing for empty filters", () => {
  const query = { status: ["open", "expired"], q: "a&b", limit: 50, from: undefined, source: "" };
  assert.equal(
    addressOf("/v1/sessions/{session_id}/messages", { session_id: "a/b" }, query),
    "/v1/sessions/a%2Fb/messages?status=open%2Cexpired&q=a%26b&limit=50",
  );
});

test("Markdown that grows piece by piece has the blocks of the whole text", () => {
  const block = fc.constantFrom(
    "# Title\n\n",
    "Some *text* with `code`.\n\n",
    "- one\n- two\n\n",
    "1. first\n\n   more\n2. second\n\n",
    "```ts\nconst a = 1;\n\nconst b = 2;\n```\n\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
    "> quoted\n> more\n\n",
    "---\n\n",
    "text\nmore text\n\n",
  );
  const texts = fc.tuple(
    fc.array(block, { maxLength: 8 }),
    fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1 }),
  );
  fc.assert(
    fc.property(texts, ([blocks, steps]) => {
      const text = blocks.join("");
      let lexed: LexedText | undefined;
      let at = 0;
      for (let index = 0; at < text.length; index++) {
        at += steps[index % steps.length] ?? 1;
        const before = lexed;
        lexed = lexGrowing(before, text.slice(0, at));
        // What was kept stays the same object, so that it is not drawn again.
        for (const [place, token] of (before?.kept ?? []).entries()) assert.equal(lexed.kept[place], token);
      }
      const raw = (all: LexedText | undefined) =>
        [...(all?.kept ?? []), ...(all?.tail ?? [])].map((each) => each.raw);
      assert.equal(raw(lexed).join(""), text);
      assert.deepEqual(types(lexed), types(lexGrowing(undefined, text)));
    }),
    { numRuns: 200 },
  );
});

function types(lexed: LexedText | undefined): readonly string[] {
  return [...(lexed?.kept ?? []), ...(lexed?.tail ?? [])]
    .map(({ type }) => type)
    .filter((type) => type !== "space");
}

test("only addresses of the web and of mail become links", () => {
  for (const href of ["https://a.example/", "http://a.example", "mailto:a@b.example"])
    assert.ok(isSafeAddress(href));
  for (const href of [
    "javascript:alert(1)",
    "data:text/html,x",
    "//a.example",
    "/runs",
    " https://a.example",
    "file:///x",
  ])
    assert.ok(!isSafeAddress(href), href);
});

test("a few letters find what was meant, and of equals what was used last", () => {
  const command = (id: string, label: string): Command => ({ id, label, group: "Page", run: () => {} });
  const all = [
    command("a", "Approvals"),
    command("r", "Runs"),
    command("s", "Sessions"),
    command("n", "New conversation"),
  ];
  const ids = (typed: string, used: string[] = []) => findCommands(all, typed, used).map(({ id }) => id);
  assert.equal(ids("nc")[0], "n");
  assert.equal(ids("appr")[0], "a");
  assert.equal(ids("sess")[0], "s");
  assert.deepEqual(ids("xyz"), []);
  assert.deepEqual(ids("", ["s", "r"]), ["s", "r", "a", "n"]);
  assert.equal(fuzzyScore("Runs", "ruins"), undefined);
});

test("times, durations, counts and prices are written as people read them", () => {
  assert.equal(relativeTime(1_000, 1_003), "just now");
  assert.equal(relativeTime(1_000, 1_000 + 300), "5 min ago");
  assert.equal(relativeTime(1_000 + 7_200, 1_000), "in 2 h");
  assert.equal(duration(0.085), "85 ms");
  assert.equal(duration(4.24), "4.2 s");
  assert.equal(duration(185), "3 min 5 s");
  assert.equal(duration(7_800), "2 h 10 min");
  assert.equal(countdown(292.4), "4:53");
  assert.equal(countdown(-5), "0:00");
  assert.equal(compactCount(999), "999");
  assert.equal(compactCount(8_100), "8.1k");
  assert.equal(compactCount(999_999), "1M");
  assert.equal(cost(null), "unknown price");
  assert.equal(cost(0.021), "$0.021");
  assert.equal(cost(12.5), "$12.50");
});
