import { serve, get, text, to, refusal } from "./fetching.ts";
import assert from "node:assert/strict";
import { type IncomingMessage } from "node:http";
import { createServer as createTcpServer, type AddressInfo } from "node:net";
import { test } from "node:test";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { FetchFailedError, type GuardedFetchOptions } from "../../../src/base/net/fetch.ts";

const local = (options: Partial<GuardedFetchOptions> = {}) => ({
  allowedPrivateHosts: ["127.0.0.1"],
  ...options,
});

test("redirects are followed; each hop is checked anew", async (t) => {
  const port = await serve(t, (request, response) => {
    const target = request.url === "/1" ? "/2" : request.url === "/2" ? "http://10.0.0.1/secret" : undefined;
    response.writeHead(target ? 302 : 200, target ? { location: target } : {}).end("done");
  });
  const error = await refusal(`http://127.0.0.1:${port}/1`, local());
  assert.equal(error.host, "10.0.0.1");
  const options = { lookup: to("127.0.0.1"), allowedPrivateHosts: [`a.example:${port}`] };
  const answer = await get(`http://a.example:${port}/3`, options);
  assert.equal(answer.url, `http://a.example:${port}/3`);
});

test("a redirect to a file, or to an address with a password, is refused", async (t) => {
  for (const location of ["file:///etc/passwd", "http://u:p@127.0.0.1/", "http://[bad/"]) {
    const port = await serve(t, (_, response) => response.writeHead(302, { location }).end());
    const failed = await get(`http://127.0.0.1:${port}/`, local()).catch((error: unknown) => error);
    assert.ok(failed instanceof FetchFailedError, `${location}: ${failed}`);
    assert.equal(failed.reason, "url");
  }
});

test("five redirects are followed, a sixth is not; with none allowed the redirect is returned", async (t) => {
  const port = await serve(t, (request, response) => {
    const left = Number(request.url?.slice(1));
    if (left === 0) return response.end("there");
    return response.writeHead(307, { location: `/${left - 1}` }).end();
  });
  assert.equal(text((await get(`http://127.0.0.1:${port}/5`, local())).body), "there");
  await assert.rejects(get(`http://127.0.0.1:${port}/6`, local({ maxRedirects: 99 })), /more than 5 times/);
  assert.equal((await get(`http://127.0.0.1:${port}/6`, local({ maxRedirects: 0 }))).status, 307);
});

test("303 turns a post into a get, 307 posts again", async (t) => {
  const seen: string[] = [];
  const port = await serve(t, (request, response) => {
    let body = "";
    request.on("data", (chunk) => (body += chunk));
    request.on("end", () => {
      seen.push(`${request.method} ${request.url} ${request.headers["content-type"] ?? "-"} ${body}`);
      const status = Number(request.url?.slice(1));
      response.writeHead(status || 200, status ? { location: "/end" } : {}).end();
    });
  });
  const post = { method: "POST", body: "hé", headers: { "Content-Type": "text/plain" } };
  await get(`http://127.0.0.1:${port}/303`, local(post));
  await get(`http://127.0.0.1:${port}/307`, local(post));
  assert.deepEqual(seen, [
    "POST /303 text/plain hé",
    "GET /end - ",
    "POST /307 text/plain hé",
    "POST /end text/plain hé",
  ]);
});

test("keys and cookies do not follow a redirect to another origin", async (t) => {
  const seen: IncomingMessage["headers"][] = [];
  const second = await serve(t, (request, response) => response.end(String(seen.push(request.headers))));
  const first = await serve(t, (request, response) => {
    seen.push(request.headers);
    const location = request.url === "/" ? "/same" : `http://127.0.0.1:${second}/`;
    response.writeHead(301, { location }).end();
  });
  const headers = {
    Authorization: "Bearer k",
    Cookie: "c=1",
    "X-Subscription-Token": "k",
    Accept: "text/html",
  };
  await get(`http://127.0.0.1:${first}/`, local({ headers }));
  assert.deepEqual(
    seen.map((found) => [found.authorization, found.cookie, found["x-subscription-token"], found.accept]),
    [
      ["Bearer k", "c=1", "k", "text/html"],
      ["Bearer k", "c=1", "k", "text/html"],
      [undefined, undefined, undefined, "text/html"],
    ],
  );
});

test("gzip, deflate and br are decoded; a damaged or unknown coding is reported", async (t) => {
  const bodies: Readonly<Record<string, Uint8Array>> = {
    gzip: gzipSync("plain"),
    deflate: deflateSync("plain"),
    br: brotliCompressSync("plain"),
    damaged: gzipSync("plain").subarray(0, 12),
    zstd: Buffer.from("plain"),
  };
  const port = await serve(t, (request, response) => {
    const name = request.url?.slice(1) ?? "";
    response.setHeader("content-encoding", name === "damaged" ? "gzip" : name).end(bodies[name]);
  });
  for (const name of ["gzip", "deflate", "br"])
    assert.equal(text((await get(`http://127.0.0.1:${port}/${name}`, local())).body), "plain");
  await assert.rejects(get(`http://127.0.0.1:${port}/damaged`, local()), /broke off or is damaged/);
  await assert.rejects(get(`http://127.0.0.1:${port}/zstd`, local()), /content encoding zstd/);
});

test("a decompression bomb expands only up to the limit", async (t) => {
  const bomb = gzipSync(Buffer.alloc(1_000_000));
  const cut = Promise.withResolvers<void>();
  const port = await serve(t, (_, response) => {
    response.setHeader("content-encoding", "gzip").on("close", cut.resolve);
    // It never ends: whoever unfolds all of it has no answer.
    const explode = () => response.destroyed || (response.write(bomb) ? setImmediate(explode) : undefined);
    response.on("drain", explode);
    explode();
  });
  const answer = await get(`http://127.0.0.1:${port}/`, local({ maxBytes: 10_000 }));
  assert.equal(answer.body.length, 10_000);
  assert.equal(answer.truncated, true);
  await cut.promise;
});

test("a body of exactly the limit is whole, one byte more is cut", async (t) => {
  const port = await serve(t, (_, response) => response.end("12345"));
  assert.equal((await get(`http://127.0.0.1:${port}/`, local({ maxBytes: 5 }))).truncated, false);
  const cut = await get(`http://127.0.0.1:${port}/`, local({ maxBytes: 4 }));
  assert.deepEqual([text(cut.body), cut.truncated], ["1234", true]);
});

test("a body without end stops at the limit", async (t) => {
  const port = await serve(t, (_, response) => {
    const more = () => {
      while (!response.destroyed && response.write("x".repeat(10_000)));
    };
    response.on("drain", more);
    more();
  });
  assert.equal((await get(`http://127.0.0.1:${port}/`, local())).body.length, 1_000_000);
});

test("the time limit covers a silent server, and a slow one", { timeout: 60_000 }, async (t) => {
  const port = await serve(t, (request, response) => {
    if (request.url === "/silent") return;
    const timer = setInterval(() => response.write("."), 20);
    response.on("close", () => clearInterval(timer));
  });
  for (const path of ["silent", "drip"]) {
    const failed = get(`http://127.0.0.1:${port}/${path}`, local({ timeoutMs: 300 }));
    await assert.rejects(failed, /no complete answer within 0\.3 s/);
  }
  const never = () => new Promise<readonly string[]>(() => {});
  await assert.rejects(get("http://a.example/", { lookup: never, timeoutMs: 100 }), /within 0\.1 s/);
});

test("a signal aborts the request with its own reason", async (t) => {
  const stop = new AbortController();
  const reason = new Error("stopped by the caller");
  const port = await serve(t, () => stop.abort(reason));
  await assert.rejects(get(`http://127.0.0.1:${port}/`, local({ signal: stop.signal })), reason);
  await assert.rejects(
    get(`http://127.0.0.1:${port}/`, local({ signal: AbortSignal.abort(reason) })),
    reason,
  );
});

test("the next address is tried when the first does not listen", async (t) => {
  const port = await serve(t, (_, response) => response.end("second"));
  const options = { lookup: to("127.0.0.9", "127.0.0.1"), allowedPrivateHosts: ["a.example"] };
  assert.equal(text((await get(`http://a.example:${port}/`, options)).body), "second");
});

test("over https the server is asked for by its name, at the address that was checked", async (t) => {
  let hello = "";
  const server = createTcpServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", (chunk) => {
      hello = chunk.toString("latin1");
      socket.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => new Promise((resolve) => server.close(resolve)));
  const { port } = server.address() as AddressInfo;
  const options = { lookup: to("127.0.0.1"), allowedPrivateHosts: ["named.example"] };
  const failed = await get(`https://named.example:${port}/`, options).catch((error: unknown) => error);
  assert.ok(failed instanceof FetchFailedError, String(failed));
  assert.ok(hello.includes("named.example"));
});

test("a broken connection, and a response that is not HTTP, are reported", async (t) => {
  const port = await serve(t, (_, response) => {
    response.writeHead(200, { "content-length": "100" });
    response.write("half", () => response.destroy());
  });
  await assert.rejects(get(`http://127.0.0.1:${port}/`, local()), FetchFailedError);
});

test("a server that upgrades to an unrequested protocol gives no answer, and the request ends", async (t) => {
  const server = createTcpServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.end("HTTP/1.1 101 X\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => new Promise((resolve) => server.close(resolve)));
  const { port } = server.address() as AddressInfo;
  const error = await get(`http://127.0.0.1:${port}/`, local()).then(
    () => assert.fail("it was fetched"),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof FetchFailedError, String(error));
  assert.deepEqual([error.reason, error.isSent], ["connection", true]);
});
