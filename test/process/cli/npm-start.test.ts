import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { agentd } from "../../harness/agentd.ts";
import { programEnvironment } from "../../harness/program.ts";
import { freePort } from "./free-port.ts";
import { createHome } from "../../unit/config/home-folder.ts";

const root = join(import.meta.dirname, "../../..");
const isMissing = spawnSync("npm", ["--version"]).error !== undefined;

test(
  "SIGTERM to npm start stops the gateway, as a supervisor sends it",
  { skip: isMissing && "npm is not installed" },
  async () => {
    await using made = await createHome();
    const env = programEnvironment({ AGENTD_HOME: made.home });
    const child = spawn("npm", ["start", "--", "--port", "0"], { cwd: root, env, stdio: "pipe" });
    // "close" comes when every process that holds the output has ended: also a gateway that npm left behind.
    const closed = once(child, "close");
    let output = "";
    const url = await new Promise<string>((resolve, reject) => {
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        output += text;
        const found = /listens on (\S+)\n[\s\S]*try/.exec(output);
        if (found?.[1] !== undefined) resolve(found[1]);
      });
      child.once("close", () => reject(new Error(output)));
    });
    assert.equal((await fetch(`${url}/health`)).status, 200);
    process.kill(child.pid ?? 0, "SIGTERM");
    await closed;
    await assert.rejects(fetch(`${url}/health`));
  },
);

test(
  "hints name the way that the program was called, and data stays as it is",
  { skip: isMissing && "npm is not installed" },
  async () => {
    await using made = await createHome();
    const env = programEnvironment({ AGENTD_HOME: made.home, PATH: process.env["PATH"] ?? "" });
    const npm = (...words: string[]) =>
      spawnSync("npm", ["run", "-s", "agentd", "--", ...words], { cwd: root, env, encoding: "utf8" });
    const port = await freePort();
    assert.match(npm("status", "--port", port).stdout, /start it with `npm run -s agentd -- gateway`$/m);
    assert.match(npm("statsu").stderr, /\nTry `npm run -s agentd -- --help`\.\n$/);
    assert.match(
      npm("service", "install", "--print", "--manager", "systemd").stdout,
      /^# Written by `agentd service install`/,
    );
    const npx = await agentd(["status", "--port", port], {
      AGENTD_HOME: made.home,
      npm_lifecycle_event: "npx",
    });
    assert.match(npx.stdout, /start it with `npx agentd gateway`$/m);
    const installed = await agentd(["status", "--port", port], { AGENTD_HOME: made.home });
    assert.match(installed.stdout, /start it with `agentd gateway`$/m);
  },
);
