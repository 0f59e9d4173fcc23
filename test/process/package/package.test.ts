import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import packageFile from "../../../package.json" with { type: "json" };
import { builtProgram, programEnvironment } from "../../harness/program.ts";

const root = join(import.meta.dirname, "../../..");
const node = join(root, "node_modules/.bin/node");
const tsc = join(root, "node_modules/.bin/tsc");
const run = promisify(execFile);

const consumer = `
import { createService, defineTool, ServiceError, type StartedService, type StartOptions } from "@agentd/agentd";
import { AgentApiError, createAgentClient, streamChatCompletion, type Run, type RunEvent } from "@agentd/agentd/client";
import { connectGateway, GatewayError, spawnTransport, type GatewayClient, type GatewayEvent } from "@agentd/agentd/gateway";
import http from "@agentd/agentd/specs/http.openapi.json" with { type: "json" };

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

/** The TypeScript examples of a document, each a program. */
async function examplesOf(path: string): Promise<readonly string[]> {
  const text = await readFile(join(root, path), "utf8");
  const blocks = [...text.matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, block]) => block ?? "");
  assert.ok(blocks.length > 0, `${path} has no example`);
  return blocks;
}

/** A folder with a program of a person who installed the package, its dependencies and the types of Node. */
async function createConsumer(): Promise<AsyncDisposable & { readonly folder: string }> {
  const folder = await mkdtemp(join(tmpdir(), "agentd-consumer-"));
  const modules = join(folder, "node_modules");
  const installed = join(modules, packageFile.name);
  await mkdir(dirname(installed), { recursive: true });
  await symlink(dirname(dirname(builtProgram())), installed);
  for (const name of [
    ...Object.keys(packageFile.dependencies),
    "json-schema",
    "@types/node",
    "undici-types",
  ]) {
    await mkdir(dirname(join(modules, name)), { recursive: true });
    // Copied: a link would lead to the packages beside it.
    await cp(join(root, "node_modules", name), join(modules, name), { recursive: true });
  }
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  return { folder, [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) };
}

/** Compiles `files` of the folder as its owner would. Fails with what the compiler prints. */
async function compile(folder: string, files: readonly string[], options: object): Promise<void> {
  const compilerOptions = {
    module: "nodenext",
    target: "es2024",
    strict: true,
    noEmit: true,
    // The package is a link: its dependencies must be found from where it is linked.
    preserveSymlinks: true,
    ...options,
  };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
  await run(tsc, ["-p", folder]).catch((error: { stdout?: string }) => assert.fail(error.stdout));
}

test("the built package: its entries run, and its types fit a strict consumer", async () => {
  await using made = await createConsumer();
  const { folder } = made;
  await writeFile(join(folder, "consumer.ts"), consumer);
  const examples = [
    await exampleOf("src/client/gateway.ts"),
    ...(await examplesOf("docs/typescript-client.md")),
  ];
  const files = examples.map((_, index) => `example-${index}.ts`);
  await Promise.all(examples.map((text, index) => writeFile(join(folder, files[index]!), text)));
  const lib = ["es2024", "dom", "dom.iterable"];
  const options = { lib, types: ["node"], skipLibCheck: true, resolveJsonModule: true };
  await compile(folder, ["consumer.ts", ...files], options);
  const { stdout } = await run(node, [join(folder, "consumer.ts")], { env: programEnvironment() });
  assert.equal(
    stdout.trim(),
    "function function function ServiceError true function 3.1.1 function function true",
  );
});

test("the declarations compile with `skipLibCheck: false`: for Node without DOM types, and for browsers", async () => {
  await using made = await createConsumer();
  const { folder } = made;
  const clients = [
    `export { createAgentClient } from "${packageFile.name}/client";`,
    `export { connectGateway } from "${packageFile.name}/gateway";`,
  ].join("\n");
  await writeFile(join(folder, "clients.ts"), clients);
  await writeFile(join(folder, "service.ts"), `export * from "${packageFile.name}";`);
  const own = { skipLibCheck: false, exactOptionalPropertyTypes: true };
  await compile(folder, ["clients.ts", "service.ts"], { ...own, lib: ["es2024"], types: ["node"] });
  await compile(folder, ["clients.ts"], { ...own, lib: ["es2022", "dom"], target: "es2022", types: [] });
});

test("the program checks its runtime before it imports anything", async (t) => {
  const starter = await readFile(builtProgram(), "utf8");
  assert.doesNotMatch(starter, /^\s*(import|export)\b(?!\()/m);
  const old = oldNode();
  if (old === undefined) return t.skip("no Node below 24 on this machine");
  const { file, version } = old;
  for (const words of [["gateway"], ["acp"], ["version"]]) {
    const ended = spawnSync(file, [builtProgram(), ...words], { encoding: "utf8" });
    assert.deepEqual([ended.status, ended.stdout], [1, ""]);
    assert.equal(
      ended.stderr,
      `agentd needs Node 24 or newer; this is ${version}. Get it from https://nodejs.org/en/download\n`,
    );
  }
});

/** A Node that the package does not support, where the system has one. */
function oldNode(): { readonly file: string; readonly version: string } | undefined {
  for (const file of ["/usr/bin/node", "/usr/local/bin/node"]) {
    const { status, stdout } = spawnSync(file, ["--version"], { encoding: "utf8" });
    if (status === 0 && Number.parseInt(stdout.slice(1)) < 24)
      return { file, version: stdout.slice(1).trim() };
  }
  return undefined;
}

/** The beginning of a build that makes empty files. */
const WRITE = `
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
function write(path: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, "");
}`;

test("`npm pack` makes no package without a program", async () => {
  const folder = await mkdtemp(join(tmpdir(), "agentd-pack-"));
  const pack = () => {
    const env = programEnvironment({ HOME: folder, npm_config_cache: join(folder, "npm") });
    const { status, stderr } = spawnSync("npm", ["pack", "--foreground-scripts"], {
      cwd: folder,
      env,
      encoding: "utf8",
    });
    return { status, stderr };
  };
  try {
    await cp(join(root, "package.json"), join(folder, "package.json"));
    await cp(join(root, "scripts/prepack.mjs"), join(folder, "scripts/prepack.mjs"));
    const bare = pack();
    assert.notEqual(bare.status, 0);
    assert.match(
      bare.stderr,
      /^agentd cannot be packed: its dependencies are not installed\. Run `npm ci` first\.$/m,
    );
    await symlink(join(root, "node_modules"), join(folder, "node_modules"));
    await writeFile(join(folder, "scripts/build.ts"), "process.exit(3);");
    assert.match(pack().stderr, /^agentd cannot be packed: the build failed/m);
    await writeFile(join(folder, "scripts/build.ts"), "");
    const empty = pack();
    assert.notEqual(empty.status, 0);
    const { bin, exports: entries } = packageFile;
    const files = [bin, entries["."], entries["./client"], entries["./gateway"]].flatMap((entry) =>
      Object.values<string>(entry),
    );
    assert.match(
      empty.stderr,
      new RegExp(`^agentd cannot be packed: the build did not make ${files.join(", ")}\\.$`, "m"),
    );
    const made = (await readdir(folder)).filter((name) => name.endsWith(".tgz"));
    assert.deepEqual(made, []);
    const writing = files.map((path) => `write(${JSON.stringify(path)});`).join("\n");
    await writeFile(join(folder, "scripts/build.ts"), `${WRITE}\n${writing}`);
    const whole = pack();
    assert.equal(whole.status, 0, whole.stderr);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

test("an installed copy brings only the packages that its declarations name", async () => {
  const folder = join(dirname(builtProgram()), "types");
  const entries = await readdir(folder, { recursive: true });
  const declarations = entries.filter((name) => name.endsWith(".d.ts"));
  const texts = await Promise.all(declarations.map((name) => readFile(join(folder, name), "utf8")));
  const named = texts.flatMap((text) =>
    [...text.matchAll(/\b(?:from|import) ?\(?"((?:@[^/"]+\/)?[^./"][^/":]*)(?:\/[^"]*)?"/g)].map(
      ([, name]) => name,
    ),
  );
  assert.deepEqual([...new Set(named)].toSorted(), Object.keys(packageFile.dependencies).toSorted());
});
