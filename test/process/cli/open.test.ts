import assert from "node:assert/strict";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { agentd } from "../../harness/agentd.ts";
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
  const open = (...words: string[]) => agentd(["open", ...words, "--port", port], env);
  const opener = async (script: string) => {
    await writeFile(join(bin, OPENER), `#!/bin/sh\n${script}\n`);
    await chmod(join(bin, OPENER), 0o755);
  };
  for (const [words, path] of [
    [[], "/"],
    [["docs"], "/docs"],
    [["openapi"], "/openapi.json"],
  ] as const) {
    await opener("exit 1");
    assert.deepEqual(await open(...words, "--print"), {
      code: 0,
      stdout: `${gateway.url}${path}\n`,
      stderr: "",
    });
    const page = await fetch(gateway.url + path);
    await page.text();
    assert.equal(page.status, 200);
    await opener(`echo "$*" > '${opened}'`);
    assert.deepEqual(await open(...words), { code: 0, stdout: `${gateway.url}${path}\n`, stderr: "" });
    assert.equal(await readFile(opened, "utf8"), `${gateway.url}${path}\n`);
  }
  await opener("exit 3");
  const failed = await open();
  assert.deepEqual([failed.code, failed.stdout], [1, `${gateway.url}/\n`]);
  assert.match(
    failed.stderr,
    /^No browser was opened: \S+ ended with 3\. Open the address above yourself\.\n$/,
  );
  const unknown = await open("nothing");
  assert.equal(unknown.code, 2);
  assert.match(unknown.stderr, /^<page> must be one of start, docs, openapi, not "nothing"\./);
  const absent = await agentd(["open", "--port", await freePort()], env);
  assert.deepEqual([absent.code, absent.stdout], [1, ""]);
  assert.match(absent.stderr, /^No gateway listens at \S+\. Start it with `agentd gateway`/);
  await gateway.kill("SIGTERM");
});
