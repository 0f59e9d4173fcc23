import assert from "node:assert/strict";
import { createServer, type Socket } from "node:net";
import { test, type TestContext } from "node:test";
import {
  AgentApiError,
  AgentConnectionError,
  AgentdError,
  createAgentClient,
  StreamCutError,
  streamChatCompletion,
} from "../../../src/client/http.ts";
import { KEY, startTestService } from "../../harness/service.ts";

const path = { run_id: "run_nope" };
const body = { messages: [{ role: "user" as const, content: "hi" }] };

/** A server that does the same to every connection that has sent something. */
async function serve(context: TestContext, act: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("data", () => act(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  context.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`;
}

async function failureOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => assert.fail("it did not throw"),
    (error: unknown) => error,
  );
}

test("a call returns the answer and its response, with and without /v1 in the base URL", async () => {
  await using service = await startTestService();
  for (const suffix of ["", "/", "/v1", "/v1/"]) {
    const client = createAgentClient({ baseUrl: service.url + suffix, apiKey: KEY });
    const { data, response } = await client.listModels();
    assert.equal(data.data[0]?.owned_by, "agent");
    assert.equal(response.status, 200);
    const chunks = streamChatCompletion({ baseUrl: service.url + suffix, apiKey: KEY }, body);
    assert.equal((await chunks.next()).done, false);
    await chunks.return();
  }
});

test("an error response is thrown with its code, its parameter and the request", async () => {
  await using service = await startTestService();
  const client = createAgentClient({ baseUrl: service.url, apiKey: KEY });
  const unknown = await failureOf(client.getRun({ path }));
  assert.ok(unknown instanceof AgentApiError && unknown instanceof AgentdError);
  assert.deepEqual([unknown.status, unknown.code], [404, "run_not_found"]);
  assert.match(unknown.requestId ?? "", /^req_/);
  const wrong = await failureOf(client.createChatCompletion({ body: { messages: [] } }));
  assert.ok(wrong instanceof AgentApiError);
  assert.deepEqual([wrong.status, wrong.param], [400, "messages"]);
  assert.notEqual(wrong.message, "");
});

test("an error that a proxy answers with is thrown as well", async (context) => {
  const pages = ["<html>bad gateway</html>", "", "null", '{"error":"busy"}'];
  for (const page of pages) {
    const head = `HTTP/1.1 502 Bad Gateway\r\nretry-after: 3\r\ncontent-length: ${page.length}\r\n\r\n`;
    const baseUrl = await serve(context, (socket) => socket.end(head + page));
    const error = await failureOf(createAgentClient({ baseUrl }).getRun({ path }));
    assert.ok(error instanceof AgentApiError, page);
    assert.deepEqual([error.status, error.code, error.retryAfterSeconds], [502, "unknown_error", 3]);
  }
});

test("without a complete answer a call throws a connection error that says why", async (context) => {
  const refused = await failureOf(createAgentClient({ baseUrl: "http://127.0.0.1:1" }).getRun({ path }));
  assert.ok(refused instanceof AgentConnectionError && refused instanceof AgentdError);
  assert.match(refused.message, /^The connection to the server failed\. .+/);
  const start = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{";
  const acts: readonly ((socket: Socket) => void)[] = [
    (socket) => socket.destroy(),
    (socket) => socket.write(start, () => socket.destroy()),
    (socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1\r\n\r\n{"),
  ];
  for (const act of acts) {
    const baseUrl = await serve(context, act);
    const error = await failureOf(createAgentClient({ baseUrl }).createRun({ body: { input: "hi" } }));
    assert.ok(error instanceof AgentConnectionError, String(error));
    assert.ok(!(error instanceof StreamCutError));
  }
  const stream = streamChatCompletion({ baseUrl: "http://127.0.0.1:1" }, body);
  assert.ok((await failureOf(stream.next())) instanceof AgentConnectionError);
});

test("an aborted call throws the reason of its signal", async (context) => {
  const baseUrl = await serve(context, () => {});
  const reason = new Error("enough");
  const leaving = new AbortController();
  const call = createAgentClient({ baseUrl }).getRun({ path, signal: leaving.signal });
  leaving.abort(reason);
  assert.equal(await failureOf(call), reason);
});

test("a call for one answer refuses to ask for a stream", async () => {
  const client = createAgentClient({ baseUrl: "http://127.0.0.1:1" });
  const error = await failureOf(client.createChatCompletion({ body: { ...body, stream: true } }));
  assert.ok(error instanceof AgentdError);
  assert.match(error.message, /Call streamChatCompletion/);
});
