/** Addresses as people write them, and where they lead. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { findAddressProblems, homesOf, platformsOf, resolveAddresses } from "../../../src/deliver/address.ts";
import { platforms, createTargets, type Target } from "../../../src/deliver/target.ts";

const homes = new Map([
  ["telegram", "-100:17"],
  ["slack", "C1"],
  ["matrix", "!home:example.org:$thread"],
  ["email", "me@example.org"],
]);
const none = new Map<string, string>();
const resolve = (text: string, extra: Readonly<Record<string, unknown>> = {}, origin?: string) =>
  resolveAddresses(text, { extra, homes, origin });

test("a target resolves from the origin, home channels, explicit addresses, lists and `all`, without repeats", () => {
  assert.deepEqual(resolve("origin", {}, "telegram:5:9"), ["telegram:5:9"]);
  assert.deepEqual(resolve("origin"), ["local"]);
  assert.deepEqual(resolve("telegram"), ["telegram:-100:17"]);
  assert.deepEqual(resolve("telegram:5:9"), ["telegram:5:9"]);
  assert.deepEqual(resolve("sms:+15550100"), ["sms:+15550100"]);
  assert.deepEqual(resolve(" telegram:5 ,, slack ,log,"), ["telegram:5", "slack:C1", "log"]);
  assert.deepEqual(
    resolve("all"),
    [...homes].map(([name, home]) => `${name}:${home}`),
  );
  assert.deepEqual(resolve("slack,slack:C1,all,origin,local", {}, "slack:C1"), [
    "slack:C1",
    "telegram:-100:17",
    "matrix:!home:example.org:$thread",
    "email:me@example.org",
    "local",
  ]);
});

test("`all` without home channels stays unresolved and is a valid address", () => {
  assert.deepEqual(resolveAddresses("all", { homes: none }), ["all"]);
  assert.deepEqual(findAddressProblems("all"), []);
});

test("`chat_id` of deliver_extra applies when the address names no chat, before the home channel", () => {
  assert.deepEqual(resolve("telegram", { chat_id: "42" }), ["telegram:42"]);
  assert.deepEqual(resolve("telegram", { chat_id: -100_200 }), ["telegram:-100200"]);
  assert.deepEqual(resolve("telegram:7", { chat_id: "42" }), ["telegram:7"]);
  assert.deepEqual(resolve("signal", { chat_id: "  +15550100 " }), ["signal:+15550100"]);
  for (const chat of ["", "  ", null, {}, [], true, 1e300, Number.NaN]) {
    assert.deepEqual(resolve("telegram", { chat_id: chat }), ["telegram:-100:17"], JSON.stringify(chat));
  }
  assert.deepEqual(resolve("discord"), ["discord"], "no home channel: the target says so");
  assert.deepEqual(resolve("webhook", { chat_id: "42" }), ["webhook"]);
  assert.deepEqual(resolve("origin,all", { chat_id: "42" }, "telegram:1").slice(0, 2), [
    "telegram:1",
    "telegram:-100:17",
  ]);
});

test("a thread of deliver_extra follows its chat, and an explicit chat does not get the home channel's thread", () => {
  assert.deepEqual(resolve("telegram", { chat_id: "42", thread_id: "7" }), ["telegram:42:7"]);
  assert.deepEqual(resolve("telegram", { chat_id: "42", message_thread_id: 7 }), ["telegram:42:7"]);
  assert.deepEqual(resolve("telegram", { message_thread_id: 8, thread_id: 7 }), ["telegram:-100:8"]);
  assert.deepEqual(resolve("telegram", { chat_id: "42" }), ["telegram:42"]);
  assert.deepEqual(resolve("telegram", { chat_id: "42:9", thread_id: "7" }), ["telegram:42:9"]);
  assert.deepEqual(resolve("telegram:42", { thread_id: "7" }), ["telegram:42"], "the target reads it there");
  assert.deepEqual(resolve("discord", { thread_id: "7" }), ["discord"]);
  assert.deepEqual(resolve("matrix", { thread_id: "$e" }), ["matrix:!home:example.org:$e"]);
  // No thread fits behind these: the target finds it in the extra.
  assert.deepEqual(resolve("matrix", { thread_id: "e" }), ["matrix:!home:example.org"]);
  assert.deepEqual(resolve("email", { thread_id: "<id@example.org>" }), ["email:me@example.org"]);
});

test("a chat that is named in several ways gets one message; a thread of the extra applies to all of them", () => {
  assert.deepEqual(resolve("telegram:42,telegram:42:7", { thread_id: "7" }), ["telegram:42"]);
  assert.deepEqual(resolve("telegram:42:7,telegram:42", { thread_id: 7 }), ["telegram:42:7"]);
  assert.deepEqual(
    resolve("slack,all", { thread_id: "1.2" }).filter((each) => each.startsWith("slack")),
    ["slack:C1:1.2"],
  );
  assert.deepEqual(resolve("telegram:42,telegram:42:8", { thread_id: "7" }), [
    "telegram:42",
    "telegram:42:8",
  ]);
  assert.deepEqual(resolve("telegram,telegram:42", { chat_id: "42" }), ["telegram:42"]);
  assert.deepEqual(resolve("discord,discord"), ["discord"]);
  assert.deepEqual(resolve("webhook,github_comment,log", { chat_id: "42", thread_id: "7" }), [
    "webhook",
    "github_comment",
    "log",
  ]);
});

test("a too long id is not added to an address; it is refused when the message is sent", () => {
  const long = "4".repeat(501);
  assert.deepEqual(resolve("telegram", { chat_id: long }), ["telegram"]);
  assert.deepEqual(resolve("telegram", { thread_id: long }), ["telegram"]);
  assert.deepEqual(resolve("telegram", { chat_id: "4".repeat(500) }), [`telegram:${"4".repeat(500)}`]);
});

test("spaces around a platform's name and its chat do not count", () => {
  assert.deepEqual(resolve(" telegram : -100 , sms: +1 555 0100 ,slack"), [
    "telegram:-100",
    "sms:+1 555 0100",
    "slack:C1",
  ]);
  assert.deepEqual(findAddressProblems("telegram: -100, sms: +1 555"), []);
  assert.match(findAddressProblems("telegram: , slack").join(), /names no chat/);
  assert.match(findAddressProblems("telegram: :7").join(), /names no chat/);
});

test("invalid addresses are reported, with a suggestion for an unknown platform", () => {
  const problem = (text: string) => findAddressProblems(text).join("; ");
  assert.match(problem("telegarm:5"), /"telegarm" is not a target; did you mean "telegram"/);
  assert.match(problem("Slack"), /did you mean "slack"/);
  assert.match(problem("orgin"), /did you mean "origin"/);
  assert.match(
    problem("log, carrier_pigeon:home"),
    /"carrier_pigeon" is not a target; valid names: log, local/,
  );
  assert.match(problem("constructor"), /is not a target/);
  assert.match(problem(""), /names no target/);
  assert.match(problem(" , ,"), /names no target/);
  assert.match(problem("telegram:"), /names no chat/);
  assert.match(problem("telegram::7"), /names no chat/);
  assert.match(problem("telegram:5:"), /has no thread/);
  assert.match(problem("log:x"), /log takes no address/);
  assert.match(problem("slack:a\u0007b"), /control characters/);
  assert.match(problem(`slack:${"x".repeat(600)}`), /too long/);
  assert.match(
    problem(Array.from({ length: 17 }, (_, n) => `telegram:${n + 1}`).join()),
    /17 targets; the maximum is 16/,
  );
  for (const good of ["log", "origin", "all", "sms:+1", "matrix:!a:b.c:$e", "email:a@b.c,telegram:-1:2"]) {
    assert.equal(problem(good), "", good);
  }
});

test("the platforms of addresses are listed", () => {
  assert.deepEqual(platformsOf("telegram:1,telegram:2,origin,all,sms"), ["telegram", "local", "all", "sms"]);
});

test("home channels come from the targets", () => {
  const target = (name: string, home?: string): Target => ({
    name,
    send: async () => ({ status: "delivered" }),
    ...(home === undefined ? {} : { home }),
  });
  const targets = createTargets([target("log"), target("slack", "C1"), target("sms", "")]);
  assert.deepEqual([...homesOf(targets)], [["slack", "C1"]]);
});

test("any text resolves to bounded, distinct addresses", () => {
  const word = fc.constantFrom(...Object.keys(platforms), "all", "origin", "", "x", "%", "__proto__");
  const text = fc.array(fc.tuple(word, fc.constantFrom("", ":", ":1", ":a:b", ":!r:h:$e", "::")), {
    maxLength: 20,
  });
  const extra = fc.record({ chat_id: fc.anything(), thread_id: fc.anything() });
  fc.assert(
    fc.property(text, extra, (parts, told) => {
      const written = parts.map(([name, rest]) => name + rest).join(",");
      const once = resolveAddresses(written, { extra: told, homes });
      assert.equal(new Set(once).size, once.length);
      assert.ok(once.length <= parts.length + homes.size);
      findAddressProblems(written);
    }),
  );
});
