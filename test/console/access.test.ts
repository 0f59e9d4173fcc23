import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import { connect } from "node:net";
import { once } from "node:events";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { composer, signInLink, startConsole, type ConsoleTest } from "../harness/browser.ts";
import { createGatewayPlace } from "../harness/gateway.ts";
import { callApi } from "../harness/console-webhooks.ts";

async function listen(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert.ok(address && typeof address === "object");
  return address.port;
}

/** Takes back the requests to a host that the test itself brings in. */
function forgetHost({ problems }: ConsoleTest, host: string): void {
  const others = problems.filter((problem) => !problem.includes(`http://${host}`));
  problems.splice(0, problems.length, ...others);
}

interface Plain {
  readonly method?: string;
  readonly mode?: "no-cors";
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

/** Makes a request from a page, with its cookies and nothing else. Resolves to the status, or why there is none. */
function fetchFrom(page: Page, url: string, init: Plain = {}): Promise<string> {
  return page.evaluate(
    ([address, options]) =>
      fetch(address, { credentials: "include", ...options }).then(
        async (response) =>
          `${response.status} ${response.type === "opaque" ? "opaque" : await response.text()}`,
        (error: unknown) => String(error),
      ),
    [url, init] as const,
  );
}

/** Opens a socket from a page. Resolves to whether it opened. */
function opensSocket(page: Page, url: string): Promise<boolean> {
  return page.evaluate(
    (address) =>
      new Promise<boolean>((resolve) => {
        const socket = new WebSocket(address);
        socket.onopen = () => resolve(true);
        socket.onerror = () => resolve(false);
      }),
    url,
  );
}

test("the cookie without the header half opens nothing", async () => {
  await using shown = await startConsole();
  const page = await shown.open("/runs");
  await page.getByRole("heading", { name: "No run yet" }).waitFor();
  shown.allow(/status of 401|WebSocket connection to/);
  for (const path of ["/v1/runs", "/v1/sessions", "/v1/keys", "/api/console/session", "/v1/config"])
    assert.match(await fetchFrom(page, path), /^401 /, path);
  const body = JSON.stringify({ input: "hello" });
  const headers = { "content-type": "application/json" };
  assert.match(await fetchFrom(page, "/v1/runs", { method: "POST", headers, body }), /^401 /);
  assert.match(await fetchFrom(page, "/api/auth/ws-ticket", { method: "POST" }), /^401 /);
  assert.equal(await opensSocket(page, `${shown.url.replace("http", "ws")}/api/ws`), false);
  const { data } = await callApi<{ readonly data: readonly unknown[] }>(shown, "/v1/runs");
  assert.deepEqual(data, [], "nothing was started");
  // A browser that kept the cookie alone, as after its storage was cleared.
  await page.evaluate(() => localStorage.removeItem("agentd.console.token"));
  await page.reload();
  await page.waitForURL(/\/login\?next=/);
});

test("a page on another port can neither read nor write", async () => {
  const server = createServer((_, response) => {
    response.setHeader("content-type", "text/html").end("<!doctype html><title>other</title><p>other");
  });
  try {
    const host = `127.0.0.1:${await listen(server)}`;
    await using shown = await startConsole();
    const page = await shown.open();
    await composer(page).waitFor();
    const { url } = shown;
    const other = await shown.newPage();
    shown.allow(/CORS|ERR_FAILED|status of 40\d|WebSocket connection to/);
    await other.goto(`http://${host}/`);
    for (const path of ["/v1/runs", "/api/console/session", "/chat"])
      assert.match(await fetchFrom(other, url + path), /Failed to fetch/, path);
    const body = JSON.stringify({ input: "from another page" });
    // What a browser sends without asking first.
    const headers = { "content-type": "text/plain" };
    const plain = { method: "POST", mode: "no-cors", headers, body } as const;
    assert.match(await fetchFrom(other, `${url}/v1/runs`, plain), /^0 opaque|Failed to fetch/);
    assert.match(await fetchFrom(other, `${url}/api/auth/ws-ticket`, { method: "POST" }), /Failed to fetch/);
    assert.equal(await opensSocket(other, `${url.replace("http", "ws")}/api/ws`), false);
    // The browser may report it after the frame has loaded.
    const refusal = other.waitForEvent("console", (message) => message.text().includes("frame-ancestors"));
    const framed = await other.evaluate(async (address) => {
      const frame = document.createElement("iframe");
      frame.src = address;
      const loaded = new Promise((resolve) => (frame.onload = resolve));
      document.body.append(frame);
      await loaded;
      return frame.contentDocument === null;
    }, `${url}/chat`);
    await refusal;
    assert.ok(framed, "the console is not shown in a frame that others can read");
    const { data } = await callApi<{ readonly data: readonly unknown[] }>(shown, "/v1/runs");
    assert.deepEqual(data, [], "nothing was started");
    await page.reload();
    await composer(page).waitFor();
    forgetHost(shown, host);
    const framing = shown.problems.filter((problem) => problem.includes("frame-ancestors"));
    assert.equal(framing.length, 1, shown.problems.join("\n"));
    shown.problems.length = 0;
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test("a removed key ends its sessions, with the socket of an open page", async () => {
  await using shown = await startConsole();
  const { id } = await callApi<{ readonly id: string }>(shown, "/v1/keys", {
    name: "guest",
    owner: "default",
    scopes: ["read", "chat"],
  });
  const { code } = await callApi<{ readonly code: string }>(shown, "/api/console/codes", {
    kind: "link",
    key: "guest",
  });
  const { page } = shown;
  await page.goto(`/login?next=/chat/new#c=${code}`);
  await composer(page).waitFor();
  await page.getByText("Sign out").waitFor();
  // Nothing that the page is about to ask for may bring it to the sign-in.
  await page.waitForFunction(() =>
    performance.getEntriesByType("resource").some(({ name }) => name.includes("palette-")),
  );
  await page.waitForLoadState("networkidle");
  shown.allow(/status of 401|WebSocket connection to/);
  const removed = await shown.request(`/v1/keys/${id}`, { method: "DELETE" });
  assert.ok(removed.ok, await removed.text());
  // The page did nothing: the end of its socket brings it here.
  await page.getByRole("heading", { name: "Sign in to agentd" }).waitFor();
  await page.goto("/runs");
  assert.match(page.url(), /\/login\?next=%2Fruns$/);
});

test("plain HTTP on a LAN name is refused with the reason", async () => {
  await using shown = await startConsole();
  const { port } = new URL(shown.url);
  // Stands for the network: whatever name the browser asks for leads to the gateway.
  const network = createServer();
  network.on("connection", (socket) => {
    const gateway = connect(Number(port), "127.0.0.1");
    socket.once("data", (bytes) => {
      gateway.write(bytes.toString("latin1").replace(/ http:\/\/nas\.lan:\d+\//, " /"), "latin1");
      socket.pipe(gateway).pipe(socket);
    });
    for (const end of [socket, gateway]) end.on("error", () => void (socket.destroy(), gateway.destroy()));
  });
  try {
    const proxy = { server: `http://127.0.0.1:${await listen(network)}` };
    const context = await shown.context.browser()!.newContext({ proxy });
    const page = await context.newPage();
    const response = await page.goto(`http://nas.lan:${port}/runs`);
    assert.equal(response?.status(), 403);
    assert.match(page.url(), /nas\.lan:\d+\/login/);
    await page.getByRole("heading", { name: "This connection is not private" }).waitFor();
    await page.getByText(/TLS proxy.*tunnel.*console\.allow_plain_http/).waitFor();
    assert.equal(await page.getByRole("textbox").count(), 0, "no key can be typed there");
    await context.close();
  } finally {
    network.close();
  }
});

test("two gateways on one host keep two sessions", async () => {
  await using shown = await startConsole();
  await using place = await createGatewayPlace();
  const { url } = await place.start();
  const key = await place.key();
  const first = await shown.open("/runs");
  await first.getByRole("heading", { name: "No run yet" }).waitFor();
  const second = await shown.newPage();
  const link = await signInLink(
    (path, init = {}) =>
      fetch(url + path, {
        ...init,
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      }),
    "/runs",
  );
  await second.goto(url + link);
  await second.getByRole("heading", { name: "No run yet" }).waitFor();
  for (const page of [first, second]) {
    await page.reload();
    await page.getByRole("heading", { name: "No run yet" }).waitFor();
  }
  shown.allow(/status of 401/);
  await second.getByRole("button", { name: "Sign out" }).click();
  await second.waitForURL(/\/login/);
  await first.reload();
  await first.getByRole("heading", { name: "No run yet" }).waitFor();
  forgetHost(shown, new URL(url).host);
});
