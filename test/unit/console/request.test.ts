import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { test } from "node:test";
import { request } from "../../../src/console/state/session.ts";

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

const whole: Answer = (response) =>
  response.writeHead(200, { "content-type": "application/json" }).end('{"id": "job_1"}');
/** The head of an answer and half of its body, as of a gateway that is killed while it answers. */
const half: Answer = (response) => {
  response.writeHead(200, { "content-type": "application/json", "content-length": 15 });
  response.write('{"id": ', () => response.destroy());
};
const nothing: Answer = (response) => void response.destroy();

/** Gives out the answers in order, and does `work` in the place of a page of that server. */
async function withPage(answers: readonly Answer[], work: () => Promise<void>): Promise<IncomingMessage[]> {
  const requests: IncomingMessage[] = [];
  const server = createServer((incoming, response) => {
    requests.push(incoming);
    incoming.resume();
    (answers[requests.length - 1] ?? whole)(response, incoming);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const origin = `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
  const page = { location: { origin, pathname: "/", search: "" }, localStorage: { getItem: () => null } };
  const before = new Map(
    Object.keys(page).map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)]),
  );
  for (const [name, value] of Object.entries(page))
    Object.defineProperty(globalThis, name, { value, configurable: true });
  try {
    await work();
  } finally {
    for (const [name, descriptor] of before) {
      if (descriptor) Object.defineProperty(globalThis, name, descriptor);
      else delete (globalThis as Record<string, unknown>)[name];
    }
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  }
  return requests;
}

test("a change whose answer was cut in the middle is sent again, with the same idempotency key", async () => {
  const requests = await withPage([half, nothing, whole], async () => {
    assert.deepEqual(await request({ url: "/v1/jobs", body: {} }), { id: "job_1" });
  });
  const keys = requests.map(({ headers }) => headers["idempotency-key"]);
  assert.equal(keys.length, 3);
  assert.ok(keys[0] && keys.every((key) => key === keys[0]), String(keys));
});

test("a change of some fields is sent again, and not when it names the version that it is based on", async () => {
  const patch = { url: "/v1/jobs/job_1", method: "PATCH", body: {} } as const;
  const repeated = await withPage([nothing, whole], async () => {
    assert.deepEqual(await request(patch), { id: "job_1" });
  });
  assert.equal(repeated.length, 2);
  const once = await withPage([nothing, whole], async () => {
    await assert.rejects(request({ ...patch, headers: { "if-match": '"1"' } }), {
      name: "AgentConnectionError",
    });
  });
  assert.equal(once.length, 1);
});

test("a cut read fails at once, as a connection that broke", async () => {
  const requests = await withPage([half], async () => {
    await assert.rejects(request({ url: "/v1/jobs" }), { name: "AgentConnectionError" });
  });
  assert.equal(requests.length, 1);
});
