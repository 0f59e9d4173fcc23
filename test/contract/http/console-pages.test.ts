/** The pages of the console and their files, as browsers and other clients get them. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { brotliCompressSync, brotliDecompressSync, gzipSync, gunzipSync } from "node:zlib";
import { signIn } from "../../harness/console.ts";
import { startTestService, KEY, type TestService } from "../../harness/service.ts";
import { assertError } from "../../harness/scenario.ts";
import { send } from "../../harness/wire.ts";

const SCRIPT = `console.log(${JSON.stringify("a script ".repeat(50))});`;
const folder = await mkdtemp(join(tmpdir(), "agentd-console-"));
const consoleFolder = pathToFileURL(`${folder}/`);
after(() => rm(folder, { recursive: true, force: true }));

const FILES = {
  "index.html": "<!doctype html><title>agentd</title>the console",
  "login.html": "<!doctype html><title>agentd</title>the sign-in",
  "main-1a.js": SCRIPT,
  "main-1a.js.br": brotliCompressSync(SCRIPT),
  "main-1a.js.gz": gzipSync(SCRIPT),
  "secret.txt": "not in the manifest",
  "manifest.json": JSON.stringify({
    version: "1",
    files: [
      { name: "main-1a.js", type: "text/javascript; charset=utf-8", encodings: ["br", "gzip"] },
      { name: "../secret.txt", type: "text/plain", encodings: [] },
    ],
  }),
};
for (const [name, content] of Object.entries(FILES)) await writeFile(join(folder, name), content);

const html = { accept: "text/html,application/xhtml+xml,*/*;q=0.8", authorization: "" };

function open(
  service: TestService,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return service.request(path, { redirect: "manual", headers: { ...html, ...headers } });
}

/** What a browser gets, its body as it was sent. */
function script(service: TestService, headers: Readonly<Record<string, string>>, name = "main-1a.js") {
  return send(service, { method: "GET", path: `/_console/${name}`, headers });
}

test("a browser without a session is sent to the sign-in, and with one gets the page", async () => {
  await using service = await startTestService({ consoleFolder });
  for (const path of ["/", "/runs?status=failed", "/chat/20260101_1", "/settings/keys"]) {
    const response = await open(service, path);
    assert.equal(response.status, 303, path);
    const next = path === "/" ? "" : `?next=${encodeURIComponent(path)}`;
    assert.equal(response.headers.get("location"), `/login${next}`);
  }
  const { cookie } = await signIn(service, { key: KEY });
  for (const path of ["/", "/runs?status=failed", "/chat/20260101_1", "/settings/keys"]) {
    const response = await open(service, path, { cookie });
    assert.equal(response.status, 200, path);
    assert.match(await response.text(), /the console/);
  }
  assert.equal((await open(service, "/runs", { cookie: `${cookie}x` })).status, 303);
});

test("every page has the headers that keep other scripts and pages out", async () => {
  await using service = await startTestService({ consoleFolder });
  const { cookie } = await signIn(service, { key: KEY });
  for (const response of [
    await open(service, "/login"),
    await open(service, "/", { cookie }),
    await open(service, "/runs"),
  ]) {
    const { headers } = response;
    assert.equal(
      headers.get("content-security-policy"),
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; " +
        "connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; " +
        "require-trusted-types-for 'script'; trusted-types 'none'",
    );
    assert.equal(headers.get("x-content-type-options"), "nosniff");
    assert.equal(headers.get("referrer-policy"), "no-referrer");
    assert.equal(headers.get("cross-origin-opener-policy"), "same-origin");
    assert.equal(headers.get("cross-origin-resource-policy"), "same-origin");
    assert.equal(headers.get("permissions-policy"), "camera=(), microphone=(), geolocation=()");
    assert.equal(headers.get("cache-control"), "no-cache");
    assert.ok(headers.get("x-request-id"));
  }
});

test("a path is a page for browsers alone: other clients get what it is without the console", async () => {
  await using service = await startTestService({ consoleFolder });
  const root = await service.request("/", { redirect: "manual" });
  assert.deepEqual([root.status, root.headers.get("location")], [302, "docs"]);
  await assertError(await service.request("/runs"), 404, "not_found");
  await assertError(await service.request("/login"), 404, "not_found");
  await assertError(await service.request("/webhooks/github", { method: "POST" }), 404, "not_found");
  assert.match(await (await open(service, "/docs")).text(), /API reference/);
  await assertError(await open(service, "/v1/runs"), 401, "missing_api_key");
});

test("a script is sent as small as the browser takes it, to be kept for a year", async () => {
  await using service = await startTestService({ consoleFolder });
  const sent = async (accepted: string | undefined) => {
    const response = await fetch(`${service.url}/_console/main-1a.js`, {
      headers: { "accept-encoding": accepted ?? "identity" },
    });
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("vary"), "Accept-Encoding");
    assert.equal(response.headers.get("content-type"), "text/javascript; charset=utf-8");
    assert.equal(response.headers.get("cache-control"), "public, max-age=31536000, immutable");
    assert.equal(await response.text(), SCRIPT);
    return response.headers.get("content-encoding");
  };
  assert.equal(await sent("gzip, deflate, br"), "br");
  assert.equal(await sent("gzip;q=1.0, br;q=0.5"), "gzip");
  assert.equal(await sent("br;q=0, *"), "gzip");
  assert.equal(await sent("deflate"), null);
  assert.equal(await sent("identity;q=1, br;q=0.1"), null);
  assert.equal(await sent("br;q=2"), null);
  assert.equal(brotliDecompressSync(FILES["main-1a.js.br"]).toString(), SCRIPT);
  assert.equal(gunzipSync(FILES["main-1a.js.gz"]).toString(), SCRIPT);
});

test("a browser that has the script or the page gets 304 without a body", async () => {
  await using service = await startTestService({ consoleFolder });
  const { cookie } = await signIn(service, { key: KEY });
  for (const path of ["/_console/main-1a.js", "/login", "/"]) {
    const first = await open(service, path, { cookie });
    const etag = first.headers.get("etag");
    assert.ok(etag, path);
    const again = await open(service, path, { cookie, "if-none-match": `"other", W/${etag}` });
    assert.deepEqual([again.status, await again.text()], [304, ""]);
    const head = await service.request(path, { method: "HEAD", headers: { ...html, cookie } });
    assert.deepEqual([head.status, await head.text()], [200, ""]);
    assert.ok(Number(head.headers.get("content-length")) > 0);
  }
});

test("a missing file is 404 and never HTML, and only names of the manifest are read", async () => {
  await using service = await startTestService({ consoleFolder });
  const { cookie } = await signIn(service, { key: KEY });
  for (const name of [
    "main-2b.js",
    "secret.txt",
    "manifest.json",
    "index.html",
    "..%2fsecret.txt",
    "%2e%2e%2fsecret.txt",
    "main-1a.js.br",
    "__proto__",
    "main-1a.js%00",
  ]) {
    const response = await script(service, { ...html, cookie }, name);
    assert.match(response.headers.get("content-type") ?? "", /^application\/json/, name);
    assert.ok([400, 404].includes(response.status), `${name}: ${response.status}`);
  }
});

test("next leads only to own paths", async () => {
  await using service = await startTestService({ consoleFolder });
  for (const next of [
    "https://evil.example/",
    "//evil.example",
    "/\\evil.example",
    "/%09/evil.example/\t",
    "javascript:alert(1)",
    "/v1/runs",
    "/docs/../../x",
    "/runs\nx",
    "runs",
    "",
  ]) {
    const response = await open(service, `/login?next=${encodeURIComponent(next)}`);
    assert.deepEqual([response.status, response.headers.get("location")], [303, "/login"], next);
  }
  for (const next of ["/", "/runs?status=failed&q=a%20b", "/chat/20260101_1", "/webhooks/deliveries/dlv_1"]) {
    const response = await open(service, `/login?next=${encodeURIComponent(next)}`);
    assert.equal(response.status, 200, next);
    assert.match(await response.text(), /the sign-in/);
  }
});

test("the sign-in page over plain HTTP under another name says why it refuses", async () => {
  await using service = await startTestService({ consoleFolder });
  const headers = { ...html, host: "nas.local:8642" };
  const response = await send(service, { method: "GET", path: "/login", headers });
  assert.equal(response.status, 403);
  assert.match(await response.text(), /plain HTTP.*TLS proxy.*console\.allow_plain_http/s);
  const local = { ...html, host: "agent.localhost:8642" };
  assert.equal((await send(service, { method: "GET", path: "/login", headers: local })).status, 200);
});

test("without keys the page comes at once, without a sign-in", async () => {
  await using service = await startTestService({ consoleFolder, requireKey: false });
  assert.equal((await open(service, "/runs")).status, 200);
  const login = await open(service, "/login");
  assert.deepEqual([login.status, login.headers.get("location")], [303, "/"]);
});

test("console.enabled false removes every page and file", async () => {
  await using service = await startTestService({ consoleFolder, config: { console: { enabled: false } } });
  assert.equal((await open(service, "/")).status, 302);
  for (const path of ["/login", "/runs", "/chat/x", "/_console/main-1a.js"])
    await assertError(await open(service, path), 404, "not_found");
});

test("a console that is not built says how to build it", async () => {
  await using service = await startTestService();
  const response = await open(service, "/login");
  assert.equal(response.status, 503);
  assert.match(await response.text(), /not built.*npm run build.*\/docs/s);
  await assertError(await open(service, "/_console/main-1a.js"), 404, "not_found");
});

test("a new build is served without a restart", async () => {
  const own = await mkdtemp(join(tmpdir(), "agentd-console-"));
  try {
    await using service = await startTestService({ consoleFolder: pathToFileURL(`${own}/`) });
    assert.equal((await open(service, "/login")).status, 503);
    const manifest = {
      version: "2",
      files: [{ name: "main-2b.js", type: "text/javascript", encodings: [] }],
    };
    await writeFile(join(own, "login.html"), "the new sign-in");
    await writeFile(join(own, "main-2b.js"), SCRIPT);
    await writeFile(join(own, "manifest.json"), JSON.stringify(manifest));
    assert.equal(await (await open(service, "/login")).text(), "the new sign-in");
    assert.equal((await script(service, {}, "main-2b.js")).status, 200);
  } finally {
    await rm(own, { recursive: true, force: true });
  }
});
