import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { postStream } from "../../../src/base/net/post-stream.ts";

type Handler = (request: IncomingMessage, response: ServerResponse, body: string) => void;

async function serve(handler: Handler): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += String(chunk);
    handler(request, response, body);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function post(url: string, signal = new AbortController().signal) {
  const headers = { authorization: "Bearer key", "x-key": "key", "content-type": "text/plain" };
  const answer = await postStream(url, { headers, body: "héllo", signal });
  let text = "";
  for await (const chunk of answer.body) text += String(chunk);
  return { ...answer, text };
}

test("a redirect that keeps the body is followed, and to another origin without keys", async () => {
  const seen: unknown[] = [];
  await using target = await serve(({ headers }, response, body) => {
    seen.push([headers.authorization, headers["x-key"], headers["content-type"], body]);
    response.end("there");
  });
  await using origin = await serve((_, response) => {
    response.writeHead(307, { location: target.url }).end();
  });
  assert.equal((await post(origin.url)).text, "there");
  assert.deepEqual(seen, [[undefined, undefined, "text/plain", "héllo"]]);
});

test("redirects in a circle and redirects that lose the body are answers", async () => {
  let asked = 0;
  await using server = await serve(({ url }, response) => {
    asked += 1;
    response.writeHead(url === "/303" ? 303 : 308, { location: "/" }).end();
  });
  assert.equal((await post(server.url)).status, 308);
  assert.equal(asked, 6);
  assert.equal((await post(`${server.url}303`)).status, 303);
});

test("a compressed answer is unpacked", async () => {
  await using server = await serve((_, response) => {
    response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync("packed"));
  });
  assert.equal((await post(server.url)).text, "packed");
});

test("a request on a connection that the server closed meanwhile is sent again, a fresh one is not", async () => {
  const used = new WeakSet<object>();
  let asked = 0;
  await using server = await serve(({ socket, url }, response) => {
    asked += 1;
    if (used.has(socket) || url === "/never") return void socket.destroy();
    used.add(socket);
    response.end("ok");
  });
  assert.equal((await post(server.url)).text, "ok");
  assert.equal((await post(server.url)).text, "ok");
  await assert.rejects(post(`${server.url}never`), { code: "ECONNRESET" });
  assert.ok(asked <= 5, `${asked} requests`);
});

test("an abort ends a request that waits and an answer that is being read, with its reason", async () => {
  await using server = await serve(({ url }, response) => {
    if (url === "/stream") response.write("begun");
  });
  const reason = new Error("enough");
  const waiting = new AbortController();
  const request = post(server.url, waiting.signal);
  waiting.abort(reason);
  await assert.rejects(request, reason);
  const reading = new AbortController();
  const answer = await postStream(`${server.url}stream`, { headers: {}, body: "", signal: reading.signal });
  await assert.rejects(async () => {
    for await (const _ of answer.body) reading.abort(reason);
  }, reason);
});
