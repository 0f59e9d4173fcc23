import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { homeassistant } from "../../../src/deliver/targets/homeassistant.ts";
import { testBadPlatform } from "../../harness/platforms/bad-platform.ts";
import { HASS_TOKEN, startHomeAssistant } from "../../harness/platforms/homeassistant.ts";
import { platformParts, sendThrough, type SendRequest } from "../../harness/platforms/send.ts";

const token = HASS_TOKEN;
const phone = "mobile_app_phone";

interface Cleanup {
  after(run: () => Promise<void>): void;
}

async function place(t: Cleanup) {
  const fake = await startHomeAssistant(t);
  return {
    fake,
    send: async (request: SendRequest, more = {}) => {
      const sent = await sendThrough(homeassistant, { token, base_url: fake.url, ...more }, request);
      const said = "error" in sent.outcome ? sent.outcome.error : "";
      return { ...sent, said, told: `${sent.outcome.status} ${said}` };
    },
  };
}

describe("a notify service", () => {
  test("a message is one POST of its text to the service that the chat names", async (t) => {
    const { fake, send } = await place(t);
    for (const address of [phone, `notify.${phone}`])
      assert.deepEqual((await send({ address, text: "Hello" })).outcome, { status: "delivered" });
    assert.deepEqual(
      fake.asked.map(({ method, path, body }) => ({ method, path, body })),
      Array.from({ length: 2 }, () => ({
        method: "POST",
        path: `/api/services/notify/${phone}`,
        body: { message: "Hello" },
      })),
    );
    assert.deepEqual(fake.violations, []);
  });

  test("a name that can be none is given up before anything is asked", async (t) => {
    const { fake, send } = await place(t);
    for (const address of ["Phone", "a/b", "../states", "notify.", "light.kitchen", "a?b", "a b"])
      assert.match((await send({ address })).told, /^permanent .*notify service/, address);
    assert.equal(fake.asked.length, 0);
  });

  test("a service that is not there is given up, and it is said where they are listed", async (t) => {
    const { send } = await place(t);
    const { told } = await send({ address: "mobile_app_other" });
    assert.match(told, /^permanent .*notify\.mobile_app_other.*Developer tools/);
  });

  test("Markdown is stripped, and data of deliver_extra goes along", async (t) => {
    const { fake, send } = await place(t);
    await send({ address: phone, text: "**bold**", extra: { data: { group: "agent" } } });
    assert.deepEqual(fake.asked[0]?.body, { message: "bold", data: { group: "agent" } });
  });

  test("long texts go out in parts of at most 4000 characters, ten at most, each noted before the next", async (t) => {
    const { fake, send } = await place(t);
    const { outcome, progress } = await send({ address: phone, text: "Some words here. ".repeat(600) });
    assert.deepEqual(outcome, { status: "delivered" });
    const lengths = fake.asked.map(({ body }) => String(body?.["message"]).length);
    assert.ok(lengths.length > 2 && lengths.every((length) => length <= 4000), lengths.join());
    assert.deepEqual(
      progress,
      lengths.slice(1).map((_, index) => index + 1),
    );
    await send({ address: phone, text: "Some words here. ".repeat(9_000) });
    assert.equal(fake.asked.length - lengths.length, 10);
  });
});

describe("the page", () => {
  test("without a chat a notification appears on it, with the message's id and its Markdown", async (t) => {
    const { fake, send } = await place(t);
    const { outcome } = await send({ id: "out_7", text: "**bold**" });
    assert.deepEqual(outcome, { status: "delivered" });
    const [asked] = fake.asked;
    assert.equal(asked?.path, "/api/services/persistent_notification/create");
    assert.deepEqual(asked.body, { message: "**bold**", notification_id: "out_7" });
    assert.deepEqual(fake.violations, []);
  });

  test("a repeat replaces the notification, so an uncertain attempt is retried", async (t) => {
    const { fake, send } = await place(t);
    fake.next("close", "truncate");
    assert.match((await send({ id: "out_7" })).told, /^retry .*may have arrived/);
    assert.match((await send({ id: "out_7" })).told, /^retry /);
    await send({ id: "out_7" });
    await send({ id: "out_7" });
    assert.equal(fake.page.size, 1);
  });

  test("each part of a very long text has an id of its own, the same in each attempt", async (t) => {
    const { fake, send } = await place(t);
    const text = "Some words here. ".repeat(9_000);
    const { outcome } = await send({ id: "out_7", text });
    assert.deepEqual(outcome, { status: "delivered" });
    const first = [...fake.page.keys()];
    assert.deepEqual(first, ["out_7", "out_7_2", "out_7_3"]);
    await send({ id: "out_7", text });
    assert.deepEqual([...fake.page.keys()], first);
  });
});

test("the title is that of deliver_extra, else the heading that the text begins with", async (t) => {
  const { fake, send } = await place(t);
  const cases: readonly (readonly [string, object, string | undefined, string])[] = [
    ["# Build #7 is red #\n\nTwo tests fail.", {}, "Build #7 is red", "Two tests fail."],
    ["# Head\n\nBody", { title: "Mine" }, "Mine", "Head\n\nBody"],
    ["Only one line", {}, undefined, "Only one line"],
    ["## The **red** `build`\n\nBody", {}, "The red build", "Body"],
    ["# Only a heading", {}, undefined, "Only a heading"],
    ["#hashtag\n\nBody", {}, undefined, "#hashtag\n\nBody"],
    ["# \u0000\u0007\n\nBody", {}, undefined, "Body"],
  ];
  for (const [text, extra, title, message] of cases) {
    await send({ address: phone, text, extra: { ...extra } });
    const body = fake.asked.at(-1)?.body;
    assert.equal(body?.["title"], title, text);
    assert.equal(String(body?.["message"]).trim(), message);
  }
});

test("nothing in a text or a title is run as a template", async (t) => {
  const { fake, send } = await place(t);
  const text = "{{ states('lock.door') }} {% if 1 %} {# note #} {{{ {}";
  await send({ address: phone, text, extra: { title: text } });
  await send({ text, extra: { title: text } });
  assert.equal(fake.asked.length, 2);
  for (const { body } of fake.asked) {
    for (const key of ["message", "title"]) {
      assert.doesNotMatch(String(body?.[key]), /\{[{%#]/);
      assert.match(String(body?.[key]).replaceAll("\u2060", ""), /\{\{ states\('lock\.door'\) \}\}/);
    }
  }
});

test("neither is what only becomes a template once Markdown is rendered", async (t) => {
  const { fake, send } = await place(t);
  await send({ address: phone, text: "# \\{\\{ 1 }}\n\n\\{\\{ 2 }} &#123;&#123; 3 }} {*\\{*" });
  assert.equal(fake.asked.length, 1);
  for (const key of ["message", "title"]) {
    const shown = String(fake.asked[0]?.body?.[key]);
    assert.match(shown.replaceAll("\u2060", ""), /\{\{ \d \}\}/);
    assert.doesNotMatch(shown, /\{[{%#]/, key);
  }
});

test("a list of states that is too long to read is a delivery all the same", async (t) => {
  const { fake, send } = await place(t);
  const states = Array.from({ length: 5_000 }, (_, index) => ({
    entity_id: `sensor.number_${index}`,
    state: "x".repeat(60),
  }));
  fake.next({ status: 200, body: states });
  assert.deepEqual((await send({ address: phone })).outcome, { status: "delivered" });
});

test("401 is given up, and the setting and its variable are named", async (t) => {
  const { send } = await place(t);
  const { told } = await send({ address: phone }, { token: "another-token-of-nobody" });
  assert.match(told, /^permanent .*platforms\.homeassistant.*HASS_TOKEN/);
  assert.doesNotMatch(told, /another-token/);
});

test("without a token Home Assistant is incomplete; its address has a default", () => {
  assert.deepEqual(homeassistant.missing({}), ["token (HASS_TOKEN)"]);
  assert.deepEqual(homeassistant.missing({ token }), []);
});

test("the home channel is the target's home", () => {
  assert.equal(homeassistant.create({ token }, platformParts()).home, undefined);
  assert.equal(homeassistant.create({ token, home_channel: phone }, platformParts()).home, phone);
});

testBadPlatform("Home Assistant", {
  platform: homeassistant,
  start: startHomeAssistant,
  settings: (url) => ({ token, base_url: url }),
  request: { address: phone },
  secrets: [token],
});
