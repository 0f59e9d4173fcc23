import assert from "node:assert/strict";
import { test } from "node:test";
import { sharedAcpPlaces } from "../../harness/acp-shared.ts";
import { history, load, opened, refused, resume, storeOf, told } from "../../harness/acp-sessions.ts";
import { saying } from "../../harness/openai-server.ts";

const sharedPlace = sharedAcpPlaces();

const HANGS = { pieces: [{ text: "on and " }, { hang: true as const }] };

test("session/close cancels running and queued prompts and keeps the transcript for a later load", async () => {
  await using place = await sharedPlace({ replies: (_, index) => (index === 0 ? HANGS : saying("back")) });
  const client = await place.start().client();
  const id = await client.session(place.folder);
  await opened(client, id);
  const turns = [client.prompt(id, "go on"), client.prompt(id, "and on")];
  await client.until(() => (client.text(id).startsWith("on and") ? true : undefined));
  assert.deepEqual(await client.agent.request("session/close", { sessionId: id }), {});
  const count = told(client, id).length;
  assert.deepEqual(
    (await Promise.all(turns)).map(({ stopReason }) => stopReason),
    ["cancelled", "cancelled"],
  );
  await refused(client.prompt(id, "hello?"), -32_002);
  await load(client, id, place.folder);
  const replayed = history(client, id).slice(-2);
  assert.ok(told(client, id).length > count);
  assert.deepEqual(
    replayed.map((update) => "content" in update && !Array.isArray(update.content) && update.content),
    [
      { type: "text", text: "go on" },
      { type: "text", text: "on and " },
    ],
    "the prompt that waited never ran, and a cancelled turn is no interrupted one",
  );
  assert.equal((await client.prompt(id, "again")).stopReason, "end_turn");
});

test("session/delete cancels a turn in another process, removes the session everywhere and may be repeated", async () => {
  await using place = await sharedPlace({ replies: () => HANGS });
  const [first, second] = [await place.start().client(), await place.start().client()];
  const id = await first.session(place.folder);
  const turn = first.prompt(id, "go on");
  await first.until(() => (first.text(id).startsWith("on and") ? true : undefined));
  assert.deepEqual(await second.agent.request("session/delete", { sessionId: id }), {});
  assert.equal((await turn).stopReason, "cancelled");
  assert.deepEqual(await second.agent.request("session/delete", { sessionId: id }), {});
  await refused(load(second, id, place.folder), -32_002);
  await refused(
    first.agent.request("session/set_mode", { sessionId: id, modeId: "plan" }),
    -32_002,
    "deleted elsewhere",
  );
  await refused(first.prompt(id, "hello?"), -32_002, "deleted elsewhere");
  {
    await using store = await storeOf(place);
    assert.equal(await store.find("sessions", { id }), undefined);
  }
  const own = await first.session(place.folder);
  assert.deepEqual(await first.agent.request("session/delete", { sessionId: own }), {});
  await refused(first.prompt(own, "hello?"), -32_002);
});

test("a load or resume that ends after the session is deleted answers -32002", async () => {
  await using place = await sharedPlace({ replies: () => saying("hi") });
  const client = await place.start().client();
  const { agent } = client;
  for (let round = 0; round < 8; round++) {
    const id = await client.session(place.folder);
    await client.prompt(id, "hello");
    const order: string[] = [];
    const noted = (name: string, request: Promise<unknown>) =>
      request.then(
        () => void order.push(name),
        (error: unknown) => void order.push(`${name} ${(error as { code?: number }).code}`),
      );
    const opening = [
      noted("load", load(client, id, place.folder)),
      noted("resume", resume(client, id, place.folder)),
    ];
    for (let turns = 0; turns < round; turns++) await new Promise<void>((resolve) => setImmediate(resolve));
    await Promise.all([...opening, noted("delete", agent.request("session/delete", { sessionId: id }))]);
    const late = order.slice(order.indexOf("delete") + 1);
    assert.ok(
      late.every((name) => name.endsWith("-32002")),
      order.join(", "),
    );
    await refused(client.prompt(id, "hello?"), -32_002, order.join(", "));
  }
});
