import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { detectLocalServers } from "../../../src/app/model-servers.ts";

/** A local server as a candidate. */
async function listen(handle: RequestListener) {
  const server = createServer(handle).listen(0, "127.0.0.1");
  await once(server, "listening");
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const close = async () => {
    const closed = once(server, "close");
    server.close();
    server.closeAllConnections();
    await closed;
  };
  return { baseUrl, [Symbol.asyncDispose]: close };
}

const listing =
  (body: unknown, status = 200): RequestListener =>
  (_, response) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  };

/** Returns what is detected when a server gives this response. */
async function detect(handle: RequestListener, timeoutMs = 20_000) {
  await using server = await listen(handle);
  const { servers, unanswered } = await detectLocalServers({ one: server.baseUrl }, { timeoutMs });
  return [...servers.map(({ name, models }) => ({ name, models })), ...unanswered.map(() => "unanswered")];
}

test("a server that lists its models at /v1/models is found with them", async () => {
  const paths: (string | undefined)[] = [];
  const found = await detect((request, response) => {
    paths.push(`${request.method} ${request.url}`);
    listing({ object: "list", data: [{ id: "qwen3:8b" }, { id: "llama" }] })(request, response);
  });
  assert.deepEqual(found, [{ name: "one", models: ["qwen3:8b", "llama"] }]);
  assert.deepEqual(paths, ["GET /v1/models"]);
});

test("a server without models is found", async () => {
  assert.deepEqual(await detect(listing({ data: [] })), [{ name: "one", models: [] }]);
});

test("entries of other shapes are skipped", async () => {
  const data = [null, 7, "text", {}, { id: 5 }, { id: "" }, { id: "good" }, []];
  assert.deepEqual(await detect(listing({ data })), [{ name: "one", models: ["good"] }]);
});

for (const [what, handle] of [
  ["answers with HTML", listing("<html>hello</html>")],
  ["answers with other JSON", listing({ models: [] })],
  ["answers with null", listing("null")],
  ["answers with an invalid list", listing({ data: { id: "x" } })],
  ["answers 404", listing({ data: [{ id: "x" }] }, 404)],
  ["answers 401", listing({ data: [{ id: "x" }] }, 401)],
  ["redirects the request", redirecting],
  ["hangs up", (request: Parameters<RequestListener>[0]) => void request.socket.destroy()],
  ["hangs up in the middle of its answer", halfAnswer],
] as const) {
  test(`a server that ${what} is not a model server`, async () => {
    assert.deepEqual(await detect(handle), []);
  });
}

function redirecting(...[request, response]: Parameters<RequestListener>): void {
  if (request.url !== "/v1/models") return listing({ data: [{ id: "x" }] })(request, response) as void;
  response.writeHead(302, { location: "/elsewhere" });
  response.end();
}

function halfAnswer(...[, response]: Parameters<RequestListener>): void {
  response.writeHead(200, { "content-length": "1000" });
  response.write('{"data":[', () => response.destroy());
}

test("a server that accepts and then sends nothing is named as unanswered", async () => {
  assert.deepEqual(await detect(() => {}, 50), ["unanswered"]);
});

test("a server whose list never ends is named as unanswered", async () => {
  assert.deepEqual(
    await detect((_, response) => {
      response.writeHead(200);
      response.write('{"data":[');
    }, 50),
    ["unanswered"],
  );
});

test("an endless list is not read to its end", async () => {
  let sentBytes = 0;
  const chunk = Buffer.alloc(65_536, " ");
  const found = await detect((_, response) => {
    response.writeHead(200);
    const pump = () => {
      if (response.destroyed) return;
      sentBytes += chunk.byteLength;
      if (response.write(chunk)) setImmediate(pump);
      else response.once("drain", pump);
    };
    pump();
  });
  assert.deepEqual(found, []);
  assert.ok(sentBytes < 64 * 1_048_576, `read ${sentBytes} bytes`);
});

test("at most a hundred models are listed", async () => {
  const data = Array.from({ length: 5000 }, (_, index) => ({ id: `m${index}` }));
  await using server = await listen(listing({ data }));
  const { servers } = await detectLocalServers({ one: server.baseUrl });
  assert.equal(servers[0]?.models.length, 100);
});

test("candidates are probed in parallel, and found servers keep the order of the candidates", async () => {
  const all = Promise.withResolvers<void>();
  let asked = 0;
  // No server answers before all were probed: sequential probes would find nothing.
  const handle =
    (id: string): RequestListener =>
    async (request, response) => {
      if (++asked === 3) all.resolve();
      await all.promise;
      listing({ data: [{ id }] })(request, response);
    };
  await using one = await listen(handle("a"));
  await using two = await listen(handle("b"));
  await using three = await listen(handle("c"));
  const { servers: found } = await detectLocalServers(
    { one: one.baseUrl, nobody: "http://127.0.0.1:1/v1", two: two.baseUrl, three: three.baseUrl },
    { timeoutMs: 20_000 },
  );
  assert.deepEqual(found, [
    { name: "one", baseUrl: one.baseUrl, models: ["a"] },
    { name: "two", baseUrl: two.baseUrl, models: ["b"] },
    { name: "three", baseUrl: three.baseUrl, models: ["c"] },
  ]);
});

test("an invalid address is skipped", async () => {
  assert.deepEqual(await detectLocalServers({ odd: "not an address" }), { servers: [], unanswered: [] });
});
