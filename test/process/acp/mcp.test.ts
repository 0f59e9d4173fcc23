import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import type { EnvVariable, McpServer } from "@agentclientprotocol/sdk/unstable";
import { McpServer as ToolServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { SSEServerTransport } from "@modelcontextprotocol/sdk/server/sse.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";
import { choose, createAcpPlace, type AcpClient, type AcpPlace } from "../../harness/acp.ts";
import { sharedAcpPlaces } from "../../harness/acp-shared.ts";
import { calling, saying, type ModelRequest, type Replies } from "../../harness/openai-server.ts";
import { scriptCommand } from "../../harness/program.ts";
import { isAlive, pidsIn, until } from "../../unit/agent/mcp/fixture.ts";

const sharedPlace = sharedAcpPlaces();

/** They start in half the time with it. */
const compileCache: readonly EnvVariable[] = Object.entries(process.env).flatMap(([name, value]) =>
  name === "NODE_COMPILE_CACHE" && value !== undefined ? [{ name, value }] : [],
);

/** A script of the tests' MCP servers, as an editor names a server. */
function script(name: string, file: string, args: readonly string[], own: EnvVariable[] = []): McpServer {
  const path = fileURLToPath(new URL(`../../unit/agent/mcp/${file}`, import.meta.url));
  const [command, ...words] = scriptCommand(path, ...args);
  return { name, command, args: words, env: [...compileCache, ...own] };
}

/** A good one, which writes its process id to `pids`. */
const good = (name: string, pids: string, env?: EnvVariable[]) => script(name, "sdk-server.ts", [pids], env);
/** One that does as `mode` says. */
const raw = (name: string, mode: string) => script(name, "raw-server.ts", [mode]);

/** An address where `handle` answers. */
async function listen(handle: RequestListener): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer(handle);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** A model that makes the call that the prompt spells (`<tool> <json>`), then says what came of it. */
const obedient: Replies = ({ body }: ModelRequest) => {
  const last = body.messages.at(-1);
  if (last?.["role"] === "tool") return saying(`result: ${String(last["content"])}`);
  const [name = "", json = "{}"] = String(last?.["content"]).split(/ (.*)/s);
  return name === "hello" ? saying("hi") : calling({ id: `call_${body.messages.length}`, name, json });
};

/** Names of the tools that the model was offered last, those of MCP servers. */
const offered = ({ models }: AcpPlace) =>
  (models?.requests.at(-1)?.body.tools ?? [])
    .map((tool) => String(tool.function["name"]))
    .filter((name) => name.startsWith("mcp_"));

const started = { permission: choose("allow_once") };

async function open(editor: AcpClient, cwd: string, mcpServers: McpServer[]): Promise<string> {
  return (await editor.agent.request("session/new", { cwd, mcpServers })).sessionId;
}

async function gone(pids: readonly number[]): Promise<void> {
  assert.ok(pids.length > 0);
  for (const pid of pids) await until(() => !isAlive(pid), `the end of ${pid}`);
}

test("MCP servers that hang, exit or answer 401 do not hold up session/new, are reported, and leave healthy ones usable", async () => {
  await withPatience(async (seconds) => {
    await using place = await sharedPlace({
      replies: obedient,
      config: `mcp: { start_timeout_seconds: ${seconds} }\nacp: { mcp_timeout_seconds: ${seconds / 4} }\n`,
    });
    await using forbidden = await listen((_, response) => void response.writeHead(401).end("who are you?"));
    const editor = await place.start().client({ ...started, capabilities: { session: { notices: {} } } });
    const pids = join(place.base, "pids");
    const sessionId = await open(editor, place.folder, [
      raw("hangs", "hang"),
      { name: "exits", command: "sh", args: ["-c", "exit 3"], env: [] },
      { name: "missing", command: "/nowhere/at/all", args: [], env: [] },
      { type: "http", name: "forbidden", url: forbidden.url, headers: [] },
      raw("mute", "mute"),
      good("good", pids),
    ]);

    await editor.prompt(sessionId, 'mcp_good_echo {"text":"still here"}');
    if (!/result: still here/.test(editor.text(sessionId)) || !offered(place).includes("mcp_mute_any"))
      return false;
    assert.ok(!offered(place).some((name) => /hangs|exits|missing|forbidden/.test(name)));

    const notices = () =>
      editor
        .updates("notice", sessionId)
        .flatMap(({ title }) => (/cannot be used/.test(title) ? [title] : []));
    assert.ok(
      editor
        .updates("notice", sessionId)
        .every(({ severity, title }) => severity === (title.startsWith("Waiting") ? "info" : "warning")),
    );
    const told = [/hangs cannot be used/, /exits cannot/, /missing .*not found/, /forbidden cannot .*401/];
    for (const pattern of told) {
      // A busy machine may give up on the server that hangs after the prompt has been answered.
      await editor.until(() => notices().find((text) => pattern.test(text)));
      assert.equal(notices().filter((text) => pattern.test(text)).length, 1);
    }

    await editor.prompt(sessionId, "mcp_mute_any {}");
    assert.equal(notices().length, told.length);
    assert.ok(editor.text(sessionId).includes(`mute failed: no answer within ${seconds / 4} s`));

    await editor.prompt(sessionId, "mcp_good_spawns {}");
    const child = Number(/result: (\d+)$/.exec(editor.text(sessionId))?.[1]);
    const alive = [...pidsIn(pids), child];
    assert.ok(alive.every(isAlive));
    await editor.agent.request("session/close", { sessionId });
    await gone(alive);
    return true;
  });
});

test("a client without notices reads in the conversation which MCP server a prompt waits for, and which has failed", async () => {
  await withPatience(async (seconds) => {
    await using place = await sharedPlace({
      replies: obedient,
      config: `mcp: { start_timeout_seconds: ${seconds} }\nacp: { mcp_wait_seconds: 0.1 }\n`,
    });
    const editor = await place.start().client(started);
    const servers = [raw("hangs", "hang"), good("good", join(place.base, "pids"))];
    const sessionId = await open(editor, place.folder, servers);
    await editor.prompt(sessionId, 'mcp_good_echo {"text":"still here"}');
    if (!/result: still here/.test(editor.text(sessionId))) return false;
    // On a busy machine the good server starts late too.
    assert.match(
      editor.text(sessionId),
      /^Waiting for the MCP servers? hangs(?:, good)? to start\.\n\nThe MCP server hangs cannot be used: [^\n]*\n\n.*result: still here/s,
    );
    return true;
  });
});

/**
 * Runs a test in which a healthy server must start before `seconds` have passed and one that hangs is given up after them. It
 * returns false when this machine was too busy for the healthy one: then it gets more time.
 */
async function withPatience(attempt: (seconds: number) => Promise<boolean>): Promise<void> {
  for (const seconds of [4, 60]) if (await attempt(seconds)) return;
  assert.fail("the healthy server did not answer");
}

test("MCP server processes end after session/delete, end of input, SIGTERM and SIGKILL", async () => {
  for (const end of ["delete", "eof", "SIGTERM", "SIGKILL"] as const) {
    await using place = await createAcpPlace({ replies: obedient });
    const agentd = place.start();
    const editor = await agentd.client(started);
    const pids = join(place.base, "pids");
    const sessionId = await open(editor, place.folder, [good("good", pids)]);
    await editor.prompt(sessionId, 'mcp_good_echo {"text":"hi"}');
    assert.ok(pidsIn(pids).every(isAlive));
    if (end === "delete") await editor.agent.request("session/delete", { sessionId });
    else if (end === "eof") agentd.child.stdin?.end();
    else agentd.child.kill(end);
    if (end !== "delete") await agentd.exited;
    await gone(pidsIn(pids));
  }
});

test("each session uses the MCP servers named for it, also when names are equal", async () => {
  await using place = await sharedPlace({
    replies: obedient,
    config: `mcp: { servers: { shared: ${JSON.stringify(
      (({ command, args }) => ({ command, args }))(raw("", "good") as { command: string; args: string[] }),
    )} } }\n`,
  });
  await using web = await listen(async (request, response) => {
    const server = new ToolServer({ name: "web", version: "1" });
    server.registerTool("whoami", { inputSchema: { text: z.string() } }, () => ({
      content: [{ type: "text", text: `key ${request.headers["x-key"]}` }],
    }));
    // Left out is stateless; the type wants it spelled, which exactOptionalPropertyTypes forbids.
    const transport = new StreamableHTTPServerTransport();
    response.on("close", () => void transport.close());
    await server.connect(transport as Parameters<ToolServer["connect"]>[0]);
    await transport.handleRequest(request, response);
  });
  const editor = await place.start().client(started);
  const http = {
    type: "http" as const,
    name: "my server",
    url: web.url,
    headers: [{ name: "x-key", value: "k1" }],
  };
  const first = await open(editor, place.folder, [
    good("shared", join(place.base, "one"), [{ name: "WHOSE", value: "first" }]),
    http,
  ]);
  const second = await open(editor, place.folder, [
    good("shared", join(place.base, "two"), [{ name: "WHOSE", value: "second" }]),
  ]);
  const third = await open(editor, place.folder, []);
  await Promise.all([
    editor.prompt(first, "mcp_shared_2_environment {}"),
    editor.prompt(second, "mcp_shared_2_environment {}"),
  ]);
  assert.match(editor.text(first), /"WHOSE":"first"/);
  assert.match(editor.text(second), /"WHOSE":"second"/);
  await editor.prompt(first, 'mcp_my_server_whoami {"text":""}');
  assert.match(editor.text(first), /result: key k1/);
  assert.ok(offered(place).includes("mcp_shared_any"));
  await editor.prompt(third, "hello");
  assert.deepEqual(offered(place), ["mcp_shared_any"]);
});

test("a session uses an MCP server of type sse with its headers, and reports one that is gone", async () => {
  await using place = await sharedPlace({ replies: obedient });
  const transports = new Map<string, SSEServerTransport>();
  await using web = await listen(async (request, response) => {
    const id = new URL(request.url ?? "", "http://localhost").searchParams.get("sessionId") ?? "";
    if (request.method === "POST") return void transports.get(id)?.handlePostMessage(request, response);
    const server = new ToolServer({ name: "events", version: "1" });
    server.registerTool("whoami", { inputSchema: { text: z.string() } }, () => ({
      content: [{ type: "text", text: `key ${request.headers["x-key"]}` }],
    }));
    const transport = new SSEServerTransport("/messages", response);
    transports.set(transport.sessionId, transport);
    await server.connect(transport as Parameters<ToolServer["connect"]>[0]);
  });
  const editor = await place.start().client(started);
  const headers = [{ name: "x-key", value: "k2" }];
  const gone = { type: "sse" as const, name: "gone", url: "http://127.0.0.1:1/sse", headers: [] };
  const sessionId = await open(editor, place.folder, [
    { type: "sse", name: "events", url: web.url, headers },
    gone,
  ]);
  await editor.prompt(sessionId, 'mcp_events_whoami {"text":""}');
  assert.match(editor.text(sessionId), /The MCP server gone cannot be used: [^]*result: key k2/);
});

test("a remembered approval for an MCP tool applies to that server, not to its name", async () => {
  await using place = await createAcpPlace({ replies: obedient });
  const editor = await place.start().client({
    permission: () => ({ outcome: { outcome: "selected", optionId: "allow_always" } }),
  });
  const asked = () => editor.seen.filter(({ kind }) => kind === "permission").length;
  const [same, other] = [join(place.base, "same"), join(place.base, "other")];
  for (const [pids, expected] of [
    [same, 1],
    [same, 1],
    [other, 2],
  ] as const) {
    const sessionId = await open(editor, place.folder, [good("good", pids)]);
    await editor.prompt(sessionId, 'mcp_good_echo {"text":"hi"}');
    assert.match(editor.text(sessionId), /result: hi/);
    assert.equal(asked(), expected);
  }
});

test("a session loaded again with other MCP servers uses those, and unchanged servers keep running", async () => {
  await using place = await sharedPlace({ replies: obedient });
  const editor = await place.start().client(started);
  const [one, two] = [join(place.base, "one"), join(place.base, "two")];
  const sessionId = await open(editor, place.folder, [good("one", one)]);
  await editor.prompt(sessionId, "hello");
  const load = (mcpServers: McpServer[]) =>
    editor.agent.request("session/load", { sessionId, cwd: place.folder, mcpServers });
  await load([good("one", one)]);
  await editor.prompt(sessionId, "hello");
  assert.equal(pidsIn(one).length, 1);
  assert.ok(offered(place).includes("mcp_one_echo"));
  await load([good("two", two)]);
  await gone(pidsIn(one));
  await editor.prompt(sessionId, "hello");
  assert.ok(offered(place).every((name) => name.startsWith("mcp_two_")));
  assert.ok(pidsIn(two).every(isAlive));
});

test("a failed MCP server is tried again when the session is loaded again", async () => {
  await using place = await sharedPlace({ replies: obedient });
  const editor = await place.start().client({ ...started, capabilities: { session: { notices: {} } } });
  const [flag, pids] = [join(place.base, "flag"), join(place.base, "pids")];
  const { command, args } = good("", pids) as { command: string; args: string[] };
  const late = ["-c", 'test -e "$1" && shift && exec "$@"', "sh", flag, command, ...args];
  const mcpServers = [{ name: "late", command: "sh", args: late, env: [] }];
  const notices = () => editor.updates("notice").filter(({ title }) => /late cannot be used/.test(title));
  const sessionId = await open(editor, place.folder, mcpServers);
  await editor.prompt(sessionId, "hello");
  assert.equal(notices().length, 1);
  await editor.agent.request("session/load", { sessionId, cwd: place.folder, mcpServers });
  await editor.prompt(sessionId, "hello");
  assert.equal(notices().length, 2);
  await writeFile(flag, "");
  await editor.agent.request("session/load", { sessionId, cwd: place.folder, mcpServers });
  await editor.prompt(sessionId, 'mcp_late_echo {"text":"here"}');
  assert.match(editor.text(sessionId), /result: here/);
  assert.equal(notices().length, 2);
});

test("a prompt that waits for an MCP server to start can be cancelled", async () => {
  await using place = await sharedPlace({
    replies: obedient,
    // The server is given up far behind the end of this test.
    config: "mcp: { start_timeout_seconds: 300 }\nacp: { mcp_wait_seconds: 0.5 }\n",
  });
  const editor = await place.start().client(started);
  // Its answer does not wait for a server that hangs.
  const sessionId = await open(editor, place.folder, [raw("hangs", "hang")]);
  const answer = editor.prompt(sessionId, "hello");
  await editor.agent.notify("session/cancel", { sessionId });
  assert.equal((await answer).stopReason, "cancelled");
});

test("$/cancel_request on session/new, resume and fork answers -32800 and leaves no session or server", async () => {
  await using place = await sharedPlace({ replies: obedient, config: "acp: { mcp_wait_seconds: 20 }\n" });
  const agentd = place.start();
  const editor = await agentd.client(started);
  const parent = await open(editor, place.folder, []);
  await editor.prompt(parent, "hello");
  await editor.agent.request("session/close", { sessionId: parent });
  const listed = async () =>
    (await editor.agent.request("session/list", {})).sessions.map(({ sessionId }) => sessionId);
  const more = { cwd: place.folder, sessionId: parent };
  for (const [at, method] of (["session/new", "session/resume", "session/fork"] as const).entries()) {
    const pids = join(place.base, `pids${at}`);
    // One keeps the request waiting, the other is to be gone with it.
    const mcpServers = [raw("hangs", "hang"), good("good", pids)];
    agentd.send({ id: `c${at}`, method, params: { ...more, mcpServers } });
    await until(() => existsSync(pids), "the start of the server");
    agentd.send({ method: "$/cancel_request", params: { requestId: `c${at}` } });
    const { error } = (await agentd.answer(`c${at}`)) as { readonly error?: { readonly code: number } };
    assert.equal(error?.code, -32_800, method);
    await gone(pidsIn(pids));
    assert.deepEqual(await listed(), [parent]);
  }
});

test("MCP servers start in the session's folder, and their secrets stay out of updates, logs and prompts", async () => {
  const [token, password, key] = ["t0ken-of-the-server", "hunter2hunter2", "http-header-secret"];
  await using place = await createAcpPlace({ replies: obedient, config: "log: { level: debug }\n" });
  await using forbidden = await listen((request, response) => {
    response.writeHead(401).end(`no: ${request.headers.authorization} ${request.headers["x-api-key"]}`);
  });
  const agentd = place.start();
  const editor = await agentd.client(started);
  const env = [
    { name: "GITHUB_TOKEN", value: token },
    { name: "DB_PASSWORD", value: password },
    { name: "REGION", value: "north-western" },
  ];
  const headers = [
    { name: "Authorization", value: `Bearer ${key}` },
    { name: "X-Api-Key", value: key },
  ];
  const sessionId = await open(editor, place.folder, [
    good("good", join(place.base, "pids"), env),
    { name: "writes", command: "sh", args: ["-c", "echo $GITHUB_TOKEN > where.txt; exit 1"], env },
    { type: "http", name: "web", url: forbidden.url, headers },
  ]);
  await editor.prompt(sessionId, "mcp_good_environment {}");
  assert.match(editor.text(sessionId), /north-western/);
  await until(() => existsSync(join(place.folder, "where.txt")), "the start of the server");
  assert.equal(await readFile(join(place.folder, "where.txt"), "utf8"), `${token}\n`);
  const told = [
    JSON.stringify(agentd.lines),
    agentd.stderr,
    JSON.stringify(place.models?.requests.map(({ body }) => body)),
  ];
  for (const secret of [token, password, key]) {
    for (const text of told) assert.ok(!text.includes(secret), secret);
  }
  assert.match(told.join(""), /401/);
});

test("session/new answers -32602 for an MCP server without args, of type acp, with a bad URL, or one of too many", async () => {
  await using place = await sharedPlace();
  const agentd = place.start();
  const editor = await agentd.client();
  const capabilities = editor.hello.agentCapabilities?.mcpCapabilities;
  assert.deepEqual(capabilities, { http: true, sse: true });
  const refused = [
    { name: "bare", command: "sh" },
    { type: "acp", name: "events", serverId: "1" },
    { type: "sse", name: "odd", url: "file:///etc", headers: [] },
    { type: "http", name: "odd", url: "ftp://127.0.0.1/", headers: [] },
    { type: "http", name: "odd", url: "not an address", headers: [] },
  ];
  for (const [index, server] of refused.entries()) {
    const id = `new-${index}`;
    agentd.send({ id, method: "session/new", params: { cwd: place.folder, mcpServers: [server] } });
    const { error } = (await agentd.answer(id)) as { error?: { code: number; message: string } };
    assert.equal(error?.code, -32_602);
    if (index === 1) assert.match(error.message, /events.*acp/);
  }
  const many = Array.from({ length: 33 }, (_, index) => raw(`server ${index}`, "good"));
  await assert.rejects(open(editor, place.folder, many), { code: -32_602 });
  assert.ok(await editor.session(place.folder));
});

test("images of an MCP tool are shown in its call, live and replayed, and an image beyond the limit is only mentioned", async () => {
  await using place = await sharedPlace({ replies: obedient });
  const small = Buffer.alloc(3_000, 7).toString("base64");
  const large = Buffer.alloc(1_000_000).toString("base64");
  await using web = await listen(async (request, response) => {
    const server = new ToolServer({ name: "camera", version: "1" });
    server.registerTool("shoot", { inputSchema: {} }, () => ({
      content: [
        { type: "text", text: "two shots" },
        { type: "image", mimeType: "image/png", data: small },
        { type: "image", mimeType: "image/png", data: large },
      ],
    }));
    const transport = new StreamableHTTPServerTransport();
    response.on("close", () => void transport.close());
    await server.connect(transport as Parameters<ToolServer["connect"]>[0]);
    await transport.handleRequest(request, response);
  });
  const editor = await place.start().client(started);
  const camera = { type: "http" as const, name: "camera", url: web.url, headers: [] };
  const sessionId = await open(editor, place.folder, [camera]);
  await editor.prompt(sessionId, "mcp_camera_shoot {}");
  const image = { type: "content", content: { type: "image", mimeType: "image/png", data: small } };
  const images = (content: unknown) =>
    (content as { type: string; content?: { type: string } }[]).filter(
      (each) => each.content?.type === "image",
    );
  const end = editor.updates("tool_call_update").findLast(({ status }) => status === "completed");
  assert.deepEqual(images(end?.content), [image]);
  assert.match(
    editor.text(sessionId),
    /two shots\n\[image image\/png, 3000 bytes\]\n\[image image\/png, 1000000 bytes\]/,
  );

  const again = await place.start().client();
  await again.agent.request("session/load", { sessionId, cwd: place.folder, mcpServers: [] });
  assert.deepEqual(images(again.updates("tool_call").at(0)?.content), [image]);
});
