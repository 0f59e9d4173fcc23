import assert from "node:assert/strict";
import { assertError, scenario } from "../../harness/scenario.ts";
import { readData } from "../../harness/sse.ts";
import type { TestService } from "../../harness/service.ts";

const CHAT = "createChatCompletion";
const hi = { model: "agentd", messages: [{ role: "user", content: "hi" }] };
const key = (value: string) => ({ headers: { "idempotency-key": value } });

async function countRuns(service: TestService): Promise<number> {
  return (await service.service.store.read.selectFrom("runs").select("id").execute()).length;
}

scenario(
  CHAT,
  200,
  {
    title: "the same Idempotency-Key from 50 concurrent requests starts one run",
    config: { limits: { max_concurrent_runs: 100 } },
  },
  async (service) => {
    const answers = await Promise.all(
      Array.from({ length: 50 }, async () => {
        const response = await service.chat(hi, key("fifty"));
        return {
          run: response.headers.get("x-agent-run-id"),
          replayed: response.headers.get("idempotency-replayed"),
          body: await response.json(),
        };
      }),
    );
    assert.equal(new Set(answers.map(({ run }) => run)).size, 1);
    assert.equal(answers.filter(({ replayed }) => replayed === null).length, 1);
    assert.equal(new Set(answers.map(({ body }) => body.choices[0].message.content)).size, 1);
    assert.equal(await countRuns(service), 1);
  },
);

scenario(
  CHAT,
  200,
  { title: "a repeated request gets the same answer, streamed or whole, in any order of its fields" },
  async (service) => {
    const first = await service.chat(hi, key("again"));
    const body = await first.json();
    const second = await service.chat({ messages: hi.messages, model: hi.model }, key("again"));
    assert.equal(second.headers.get("idempotency-replayed"), "true");
    assert.deepEqual(await second.json(), body);
    const streamed = { ...hi, stream: true };
    const once = await readData(await service.chat(streamed, key("stream")));
    const twice = await readData(await service.chat(streamed, key("stream")));
    assert.deepEqual(twice, once);
    assert.equal(await countRuns(service), 2);
  },
);

scenario(
  CHAT,
  409,
  { title: "the same key with another body, session or model is a conflict" },
  async (service) => {
    assert.equal((await service.chat(hi, key("mine"))).status, 200);
    const other = { ...hi, messages: [{ role: "user", content: "bye" }] };
    const response = await service.chat(other, key("mine"));
    assert.equal(response.headers.get("x-should-retry"), "false");
    await assertError(response, 409, "idempotency_key_conflict");
    const headers = { "idempotency-key": "mine", "x-agent-session-id": "s" };
    await assertError(await service.chat(hi, { headers }), 409, "idempotency_key_conflict");
    assert.equal(await countRuns(service), 1);
  },
);

scenario(
  CHAT,
  400,
  { title: "an Idempotency-Key that is too long or has a space is refused" },
  async (service) => {
    for (const bad of ["x".repeat(256), "two words"]) {
      const error = await assertError(await service.chat(hi, key(bad)), 400, "invalid_idempotency_key");
      assert.equal(error.param, "Idempotency-Key");
    }
  },
);

scenario(CHAT, 200, { title: "a key is deleted with its run, and can be used again" }, async (service) => {
  const first = await service.chat(hi, key("old"));
  await first.json();
  const { store } = service.service;
  await store.write(async (tx) => {
    await tx.db.deleteFrom("events").execute();
    await tx.db.deleteFrom("runs").execute();
  });
  const second = await service.chat(hi, key("old"));
  assert.equal(second.status, 200);
  assert.equal(second.headers.get("idempotency-replayed"), null);
  assert.notEqual(second.headers.get("x-agent-run-id"), first.headers.get("x-agent-run-id"));
  await second.json();
});

const gate = Promise.withResolvers<void>();
scenario(
  CHAT,
  200,
  {
    title: "a client that joined a streamed run and leaves does not end it",
    // What it says first gives a stream its headers.
    script: () => ({
      text: (async function* () {
        yield "do";
        await gate.promise;
        yield "ne";
      })(),
    }),
  },
  async (service) => {
    const streamed = { ...hi, stream: true };
    const first = await service.chat(streamed, key("joined"));
    const leaving = new AbortController();
    const joined = await service.chat(streamed, { ...key("joined"), signal: leaving.signal });
    assert.equal(joined.headers.get("idempotency-replayed"), "true");
    leaving.abort();
    await assert.rejects(joined.text());
    gate.resolve();
    const frames = (await readData(first)) as { choices?: { delta: { content?: string } }[] }[];
    assert.equal(frames.map((frame) => frame.choices?.[0]?.delta.content ?? "").join(""), "done");
  },
);
