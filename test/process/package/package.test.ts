import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { builtProgram, programEnvironment } from "../../harness/program.ts";

const root = join(import.meta.dirname, "../../..");
const node = join(root, "node_modules/.bin/node");
const tsc = join(root, "node_modules/.bin/tsc");
const run = promisify(execFile);

const consumer = `
import { createService, defineTool, ServiceError, type StartedService, type StartOptions } from "agentd";
import { AgentApiError, createAgentClient, streamChatCompletion, type Run, type RunEvent } from "agentd/client";
import { connectGateway, GatewayError, spawnTransport, type GatewayClient, type GatewayEvent } from "agentd/gateway";
import http from "agentd/specs/http.openapi.json" with { type: "json" };

const client = createAgentClient({ baseUrl: "http://127.0.0.1:1" });
const start: (options: StartOptions) => Promise<StartedService> = createService;
export const events: RunEvent["event"][] = ["run.completed"];
export const status: Run["status"] = "completed";
export const listed = (gateway: GatewayClient) => gateway.call("session.list", { limit: 1 });
export const types: GatewayEvent["type"][] = ["message.delta"];
// @ts-expect-error: a submit needs a text
export const submitted = (gateway: GatewayClient) => gateway.call("prompt.submit", { session_id: "x" });
// @ts-expect-error: not a status of a run
export const wrong: Run["status"] = "done";
console.log([typeof client.getRun, typeof start, typeof defineTool, new ServiceError("not_found", "x").name, AgentApiError.prototype instanceof Error, typeof streamChatCompletion, http.openapi, typeof connectGateway, typeof spawnTransport, GatewayError.name.length > 0].join(" "));
`;

/** The example in the head of a file, as it stands there. */
async function exampleOf(path: string): Promise<string> {
  const source = await readFile(join(root, path), "utf8");
  const [, block] = /```ts\n([\s\S]*?)\n \* ```/.exec(source) ?? [];
  assert.ok(block, `${path} has no example`);
  return block.replaceAll(/^ \* ?/gm, "");
}

test("the built package: its entries run, and its types fit a strict consumer", async () => {
  const folder = await mkdtemp(join(tmpdir(), "agentd-consumer-"));
  try {
    await mkdir(join(folder, "node_modules/@types"), { recursive: true });
    await symlink(dirname(dirname(builtProgram())), join(folder, "node_modules/agentd"));
    await symlink(join(root, "node_modules/@types/node"), join(folder, "node_modules/@types/node"));
    await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
    await writeFile(join(folder, "consumer.ts"), consumer);
    await writeFile(join(folder, "example.ts"), await exampleOf("src/client/gateway.ts"));
    const compilerOptions = {
      module: "nodenext",
      target: "es2024",
      lib: ["es2024", "dom", "dom.iterable"],
      types: ["node"],
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      resolveJsonModule: true,
      preserveSymlinks: true,
    };
    await writeFile(
      join(folder, "tsconfig.json"),
      JSON.stringify({ compilerOptions, files: ["consumer.ts", "example.ts"] }),
    );
    await run(tsc, ["-p", folder]).catch((error: { stdout?: string }) => assert.fail(error.stdout));
    const { stdout } = await run(node, [join(folder, "consumer.ts")], { env: programEnvironment() });
    assert.equal(
      stdout.trim(),
      "function function function ServiceError true function 3.1.1 function function true",
    );
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
