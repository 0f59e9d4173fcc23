import assert from "node:assert/strict";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";
import { McpServers, toolName } from "../../../../src/agent/mcp/servers.ts";
import { ToolError } from "../../../../src/agent/tool/tool.ts";
import { createLog, silentLog } from "../../../../src/base/observe.ts";
import { SchemaSet } from "../../../../src/base/schema.ts";
import { call } from "../tools/call.ts";
import { connected, http, raw, script, toolOf, until, type Cleaner } from "./fixture.ts";

const cwd = "/tmp";

test("lines that are not messages are skipped", async (t) => {
  const servers = await connected(t, { raw: raw("garbage") });
  assert.equal(servers.status()[0]?.status, "connected");
  assert.equal(await call(toolOf(servers, "mcp_raw_any"), {}, { cwd }), "ok");
  assert.equal(await call(toolOf(servers, "mcp_raw_any"), {}, { cwd }), "ok");
});

test("an invalid tool list fails the server", async (t) => {
  const servers = await connected(t, { raw: raw("shapes") });
  assert.equal(servers.status()[0]?.status, "failed");
});

test("a server that hangs at its start times out, and the others work", async (t) => {
  const servers = await connected(t, {
    raw: raw("hang", { startTimeoutMs: 1_000 }),
    good: raw("good"),
  });
  assert.match(servers.notices().join(), /raw cannot be used: it did not start within 1 s/);
  assert.equal(servers.tools().length, 1);
});

test("close does not wait for the start of a hanging server", async () => {
  const servers = new McpServers(silentLog);
  // Only the end of the server can end its start during this test.
  const starting = servers.use({ raw: raw("hang", { startTimeoutMs: 1_000_000 }) });
  await servers.close();
  await starting;
  assert.deepEqual(servers.tools(), []);
});

test("five hundred of ten thousand tools are offered, and the log says so", async (t) => {
  const lines: string[] = [];
  const servers = await connected(
    t,
    { raw: raw("many") },
    { log: createLog("warn", (line) => void lines.push(line)) },
  );
  assert.equal(servers.tools().length, 500);
  assert.match(lines.join(""), /500/);
});

test("a schema that cannot be checked accepts any object", async (t) => {
  const servers = await connected(t, { raw: raw("schemas") });
  const schemas = new SchemaSet({});
  assert.equal(servers.tools().length, 3);
  for (const tool of servers.tools()) assert.equal(schemas.check(tool.parameters, { a: "x" }), undefined);
});

test("a line of fifty megabytes ends the connection, not the agent", async (t) => {
  const servers = await connected(t, { raw: raw("line") });
  await assert.rejects(call(toolOf(servers, "mcp_raw_any"), {}, { cwd }), ToolError);
  await until(() => servers.status()[0]?.status === "failed", "the server failed");
  assert.match(servers.notices()[0] ?? "", /more than 16777216 bytes/);
});

test("a call without an answer times out with a ToolError", async (t) => {
  const servers = await connected(t, { raw: raw("mute", { timeoutMs: 300 }) });
  await assert.rejects(call(toolOf(servers, "mcp_raw_any"), {}, { cwd }), /no answer within 0.3 s/);
});

test("a missing program fails only its server and is logged once", async (t) => {
  const lines: string[] = [];
  const options = {
    none: { ...script("x"), command: "/no/such/program", env: { TOKEN: "hush-hush-hush" } },
  };
  const servers = await connected(t, options, { log: createLog("debug", (line) => void lines.push(line)) });
  assert.match(servers.notices()[0] ?? "", /program was not found/);
  assert.equal(lines.length, 1);
  assert.doesNotMatch(lines[0] ?? "", /hush/);
});

test("a text in place of options is the reason of a failed server", async (t) => {
  const servers = await connected(t, { odd: "it needs either command or url" });
  assert.deepEqual(servers.notices(), ["The MCP server odd cannot be used: it needs either command or url."]);
});

test("a streamable HTTP server gets our headers and answers", async (t) => {
  const seen: (string | undefined)[] = [];
  const url = await listen(t, async (request, response) => {
    seen.push(request.headers["x-key"]?.toString());
    const server = new McpServer({ name: "web", version: "1" });
    server.registerTool("echo", { inputSchema: { text: z.string() } }, ({ text }) => ({
      content: [{ type: "text", text }],
    }));
    // Omitting the generator makes it stateless; the type requires it, which exactOptionalPropertyTypes forbids.
    const transport = new StreamableHTTPServerTransport();
    response.on("close", () => void transport.close());
    await server.connect(transport as Parameters<McpServer["connect"]>[0]);
    await transport.handleRequest(request, response);
  });
  const servers = await connected(t, { web: http(url, { headers: { "x-key": "k1" } }) });
  assert.equal(await call(toolOf(servers, "mcp_web_echo"), { text: "over http" }, { cwd }), "over http");
  assert.equal(servers.status()[0]?.status, "connected");
  assert.ok(seen.length >= 3 && seen.every((value) => value === "k1"));
});

test("401 fails the server with its status, and the headers stay out of every text", async (t) => {
  const url = await listen(t, (request, response) => {
    response.writeHead(401).end(`no: ${request.headers.authorization}`);
  });
  const lines: string[] = [];
  const headers = { authorization: "hush-hush-hush" };
  const servers = await connected(
    t,
    { web: http(url, { headers }) },
    { log: createLog("debug", (line) => void lines.push(line)) },
  );
  assert.match(servers.notices()[0] ?? "", /401/);
  assert.ok(lines.length > 0);
  assert.doesNotMatch(servers.notices().join() + lines.join(), /hush/);
});

test("a name has at most 64 characters, is stable and unique", () => {
  const long = "t".repeat(100);
  assert.match(toolName("s", long, new Set()), /^mcp_s_t{49}_[0-9a-f]{8}$/);
  assert.equal(toolName("s", long, new Set()), toolName("s", long, new Set()));
  const first = toolName("a", "x.y", new Set());
  const second = toolName("a", "x y", new Set([first]));
  assert.equal(first, "mcp_a_x_y");
  assert.match(second, /^mcp_a_x_y_[0-9a-f]{8}$/);
});

async function listen(test: Cleaner, handle: RequestListener): Promise<string> {
  const server = createServer(handle);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  test.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
}
