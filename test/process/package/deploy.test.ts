/** What comes with the package to run it as a service, as far as a machine without a container engine can check. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { parse } from "yaml";
import packageFile from "../../../package.json" with { type: "json" };

const root = join(import.meta.dirname, "../../..");
const read = (path: string) => readFile(join(root, path), "utf8");

test("the health check of the Dockerfile passes for 200 only", async () => {
  const [, words = "[]"] = /HEALTHCHECK[^\n]*\n\s*CMD (\[.*\])/.exec(await read("Dockerfile")) ?? [];
  const [program, ...args] = JSON.parse(words) as readonly string[];
  assert.equal(program, "node");
  let status = 200;
  const paths = new Set<string | undefined>();
  const server = createServer((request, response) => {
    paths.add(request.url);
    response.writeHead(status).end();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const check = async () => {
    const child = spawn(join(root, "node_modules/.bin/node"), args, { env: { AGENTD_PORT: String(port) } });
    const [code] = (await once(child, "close")) as [number];
    return code;
  };
  assert.equal(await check(), 0);
  status = 503;
  assert.equal(await check(), 1);
  server.close();
  server.closeAllConnections();
  assert.equal(await check(), 1, "nothing listens");
  assert.deepEqual([...paths], ["/health"]);
});

test("compose.yaml declares each volume that it uses, refuses to start without a password, and stays on loopback", async () => {
  interface Service {
    readonly environment: Readonly<Record<string, string | null>>;
    readonly volumes: readonly string[];
    readonly ports?: readonly string[];
  }
  const compose = parse(await read("compose.yaml")) as {
    readonly services: Readonly<Record<string, Service>>;
    readonly volumes: Readonly<Record<string, null>>;
  };
  const services = Object.values(compose.services);
  const used = services.flatMap(({ volumes }) => volumes.map((volume) => volume.split(":")[0]));
  assert.deepEqual(used.toSorted(), Object.keys(compose.volumes).toSorted());
  assert.match(
    compose.services["agentd"]?.environment["AGENTD_DATABASE_URL"] ?? "",
    /\$\{POSTGRES_PASSWORD:\?/,
  );
  assert.match(
    compose.services["database"]?.environment["POSTGRES_PASSWORD"] ?? "",
    /^\$\{POSTGRES_PASSWORD:\?/,
  );
  for (const { ports = [] } of services) for (const port of ports) assert.match(port, /^127\.0\.0\.1:/);
});

test("systemd accepts every line of the unit", async (t) => {
  if (spawnSync("systemd-analyze", ["--version"]).status !== 0)
    return t.skip("systemd-analyze is not installed");
  const folder = await mkdtemp(join(tmpdir(), "agentd-unit-"));
  try {
    // The program and the user exist only where agentd is installed.
    const unit = (await read("deploy/agentd.service"))
      .replace("/usr/local/bin/agentd", process.execPath)
      .replaceAll(/^(User|Group)=.*$/gm, "$1=root");
    const file = join(folder, "agentd.service");
    await writeFile(file, unit);
    const { status, stderr } = spawnSync("systemd-analyze", ["verify", file], { encoding: "utf8" });
    const own = stderr.split("\n").filter((line) => line.includes("agentd.service"));
    assert.deepEqual([status, own], [0, []], stderr);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

test("the changelog has a section for the version, and the installation names the package", async () => {
  assert.match(
    await read("CHANGELOG.md"),
    new RegExp(`^## ${packageFile.version.replaceAll(".", "\\.")}\\b`, "m"),
  );
  assert.ok((await read("docs/install.md")).includes(`npm install --global ${packageFile.name}\n`));
});
