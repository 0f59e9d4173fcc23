import assert from "node:assert/strict";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { createGatewayPlace } from "../../harness/gateway.ts";
import { freePort } from "./free-port.ts";

const OPENER = process.platform === "darwin" ? "open" : "xdg-open";

test("agentd open gives the opener the address of the running gateway, and --print prints it", async () => {
  await using place = await createGatewayPlace();
  const gateway = await place.start();
  const { port } = new URL(gateway.url);
  const bin = join(place.home, "bin");
  const opened = join(place.home, "opened");
  await mkdir(bin);
  const env = { AGENTD_HOME: place.home, PATH: `${bin}:/usr/bin:/bin` };
  const open = (...words: string[]) => keptAgentd(["open", ...words, "--port", port], env);
  const opener = async (script: string) => {
    await writeFile(join(bin, OPENER), `#!/bin/sh\n${script}\n`);
    await chmod(join(bin, OPENER), 0o755);
  };
  for (const [page, path] of [
    ["docs", "/docs"],
    ["openapi", "/openapi.json"],
  ] as const) {
    await opener("exit 1");
    const stdout = `${gateway.url}${path}\n`;
    assert.deepEqual(await open(page, "--print"), { code: 0, stdout, stderr: "" });
    const response = await fetch(gateway.url + path);
    await response.text();
    assert.equal(response.status, 200);
    await opener(`echo "$*" > '${opened}'`);
    assert.deepEqual(await open(page), { code: 0, stdout, stderr: "" });
    assert.equal(await readFile(opened, "utf8"), stdout);
  }
  await opener("exit 3");
  const failed = await open("docs");
  assert.deepEqual([failed.code, failed.stdout], [1, `${gateway.url}/docs\n`]);
  assert.match(
    failed.stderr,
    /^No browser was opened: \S+ ended with 3\. Open the address above yourself\.\n$/,
  );
  const unknown = await open("nothing");
  assert.equal(unknown.code, 2);
  assert.match(unknown.stderr, /^<page> must be one of start, chat, .*, docs, openapi, not "nothing"\./);
  const absent = await keptAgentd(["open", "--port", await freePort()], env);
  assert.deepEqual([absent.code, absent.stdout], [1, ""]);
  assert.match(absent.stderr, /^No gateway listens at \S+\. Start it with `agentd gateway`/);
  await gateway.kill("SIGTERM");
});

test("agentd open signs the browser in with a link that works once, or with a short code", async () => {
  await using place = await createGatewayPlace();
  const gateway = await place.start();
  const { port } = new URL(gateway.url);
  assert.match(gateway.stdout(), new RegExp(`^  console  ${gateway.url}  \\(agentd open\\)$`, "m"));
  const env = { AGENTD_HOME: place.home, AGENTD_DATABASE_URL: place.database };
  const open = (...words: string[]) => keptAgentd(["open", ...words, "--port", port], env);
  const printed = async (...words: string[]) => {
    const { code, stdout, stderr } = await open(...words, "--print");
    assert.deepEqual([code, stderr], [0, ""]);
    return new URL(stdout.trim());
  };
  const signIn = async (code: string) => {
    const response = await fetch(`${gateway.url}/api/console/session`, {
      method: "POST",
      headers: { origin: gateway.url, "content-type": "application/json" },
      body: JSON.stringify({ code }),
    });
    return { status: response.status, body: await response.json() };
  };
  const start = await printed();
  assert.deepEqual([start.origin, start.pathname, start.search], [gateway.url, "/login", ""]);
  const [, code = ""] = /^#c=([\w-]{43})$/.exec(start.hash) ?? [];
  const first = await signIn(code);
  assert.deepEqual([first.status, first.body.key], [201, "default"]);
  assert.equal((await signIn(code)).status, 401);
  assert.equal((await printed("runs/run_1?step=2")).searchParams.get("next"), "/runs/run_1?step=2");
  assert.equal((await printed("chat", "--url", "http://localhost:9000/x")).origin, "http://localhost:9000");
  const phone = await open("--code");
  assert.match(phone.stdout, /^[2-9A-Z]{4}-[2-9A-Z]{4}\n$/);
  assert.equal(phone.stderr, `Type this code at ${gateway.url}/login within two minutes.\n`);
  assert.equal((await signIn(phone.stdout.trim())).status, 201);
  const created = await keptAgentd(["keys", "create", "tablet", "--scopes", "read"], env);
  assert.equal(created.code, 0, created.stderr);
  const other = await signIn((await printed("--key", "tablet")).hash.slice(3));
  assert.deepEqual([other.body.key, other.body.scopes], ["tablet", ["read"]]);
  const missing = await open("--key", "nothing", "--print");
  assert.deepEqual([missing.code, missing.stdout], [1, ""]);
  assert.match(missing.stderr, /^No key in use is "nothing"\./);
  assert.equal((await open("--url", "localhost", "--print")).code, 2);
  assert.equal((await open("runs#x", "--print")).code, 2);
  await gateway.kill("SIGTERM");
});
