/** The floors, the containment and the sizes hold because they fail: each rule is broken here on purpose. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import process from "node:process";
import { test, type TestContext } from "node:test";
import { makeFolder, type Finished } from "../unit/scripts/fixtures.ts";

const root = resolve(import.meta.dirname, "../..");
const node = join(root, "node_modules/.bin/node");
const { NODE_COMPILE_CACHE: cache } = process.env;

type Tree = Readonly<Record<string, string>>;

/** Stand-ins: what matters is where they are imported, not what they do. */
const packages = [
  "h3",
  "srvx",
  "kysely",
  "postgres",
  "typebox",
  "citty",
  "ai",
  "@ai-sdk/openai",
  "openai",
].flatMap((name) => [
  [`node_modules/${name}/package.json`, JSON.stringify({ name, version: "1.0.0", exports: "./index.js" })],
  [`node_modules/${name}/index.js`, "export const x = 1;\n"],
]);

/** A project with our rules, stand-ins for the packages, and these files. */
async function plant(context: TestContext, tree: Tree): Promise<string> {
  const folder = await makeFolder(context);
  for (const file of [".dependency-cruiser.js", ".oxlintrc.json", "tsconfig.json", "package.json"]) {
    await copyFile(join(root, file), join(folder, file));
  }
  for (const [path, text] of [...packages, ...Object.entries(tree)] as [string, string][]) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  return folder;
}

function runIn(folder: string, file: string, args: readonly string[]): Promise<Finished> {
  const child = spawn(node, [join(root, "node_modules", file), ...args], {
    cwd: folder,
    env: { NO_COLOR: "1", ...(cache === undefined ? {} : { NODE_COMPILE_CACHE: cache }) },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  }
  return new Promise((done, fail) => {
    child.on("error", fail).on("close", (code) => done({ status: code ?? -1, output }));
  });
}

/** `rule file` of every violation. */
async function floors(folder: string): Promise<{ status: number; broken: readonly string[] }> {
  const words = ["--config", ".dependency-cruiser.js", "src", "scripts"];
  const { status, output } = await runIn(folder, "dependency-cruiser/bin/dependency-cruiser.mjs", words);
  assert.match(output, /dependencies cruised/, output);
  const found = [...output.matchAll(/^ {2}(?:error|warn|info) (\S+): (\S+)/gm)];
  return { status, broken: found.map(([, rule, from]) => `${rule} ${from}`) };
}

const uses = (what: string) => `import { x } from ${JSON.stringify(what)};\nexport const y = x;\n`;
const plain = "export const x = 1;\n";

/** One file for each way of breaking a rule, and the rule that must say so. */
const sins: readonly (readonly [file: string, text: string, rule: string])[] = [
  ["src/base/upward.ts", uses("../agent/agent.ts"), "floor-0-base"],
  [
    "src/base/type-upward.ts",
    'import type { x } from "../agent/agent.ts";\nexport type y = x;\n',
    "floor-0-base",
  ],
  ["src/store/sideways.ts", uses("../config/config.ts"), "floor-1-store"],
  ["src/config/upward.ts", uses("../http/chat.ts"), "floor-1-config"],
  ["src/agent/upward.ts", uses("../http/chat.ts"), "floor-2-agent"],
  ["src/agent/re-export.ts", 'export { x } from "../http/chat.ts";\n', "floor-2-agent"],
  ["src/agent/late.ts", 'export const y = () => import("../http/chat.ts");\n', "floor-2-agent"],
  ["src/http/sideways.ts", uses("../rpc/rpc.ts"), "floor-4-http"],
  ["src/http/upward.ts", uses("../gateway/listen.ts"), "floor-4-http"],
  ["src/gateway/upward.ts", uses("../app/service.ts"), "floor-5-gateway"],
  ["src/agent/h3.ts", uses("h3"), "contain-h3"],
  ["src/cli/srvx.ts", uses("srvx"), "contain-h3"],
  ["src/http/kysely.ts", uses("kysely"), "contain-drivers"],
  ["src/agent/sqlite.ts", uses("node:sqlite"), "contain-sqlite"],
  ["src/agent/unbash.ts", uses("unbash"), "contain-unbash"],
  ["src/http/typebox.ts", uses("typebox"), "contain-typebox"],
  ["src/base/typebox.ts", uses("typebox"), "contain-typebox"],
  ["src/http/model.ts", uses("ai"), "contain-model-sdk"],
  ["src/agent/model.ts", uses("@ai-sdk/openai"), "contain-model-sdk"],
  ["src/http/citty.ts", uses("citty"), "contain-citty"],
  ["src/agent/table.ts", uses("../../generated/http/server.gen.ts"), "contain-server-tables"],
  ["src/agent/one.ts", 'import type { B } from "./two.ts";\nexport type A = B[];\n', "no-cycles"],
  ["src/http/file.ts", 'import { readFile as x } from "node:fs";\nexport const y = x;\n', "contain-node"],
  ["src/client/base.ts", uses("../base/errors.ts"), "client-is-alone"],
  ["src/http/script.ts", uses("../../scripts/tool.ts"), "no-test-in-src"],
  ["src/http/test.ts", uses("../../test/help.ts"), "no-test-in-src"],
  ["src/http/dev.ts", uses("openai"), "no-dev-dependency-in-src"],
];

/** What the files above import, and files that do everything that is allowed. */
const clean: Tree = {
  "src/base/errors.ts": plain,
  "src/base/schema.ts": uses("typebox"),
  "src/agent/run.ts": plain,
  "src/agent/two.ts": plain,
  "src/agent/engines/provider.ts": uses("@ai-sdk/openai"),
  "src/agent/agent.ts": plain,
  "src/agent/tools/file.ts": 'import { readFile as x } from "node:fs/promises";\nexport const y = x;\n',
  "src/store/rows.ts": uses("kysely"),
  "src/config/config.ts": uses("../base/errors.ts"),
  "src/http/chat.ts": `${uses("../agent/agent.ts")}export { y as x };\n`,
  "src/http/app.ts": uses("h3"),
  "src/http/table.ts": uses("../../generated/http/server.gen.ts"),
  "src/rpc/rpc.ts": plain,
  "src/gateway/listen.ts": `${uses("../http/app.ts")}export { y as x };\n`,
  "src/client/http.ts": uses("../../generated/http/sdk.gen.ts"),
  "src/app/service.ts": `${uses("../gateway/listen.ts")}export { y as x };\n`,
  "src/cli/main.ts": uses("../app/service.ts"),
  "generated/http/server.gen.ts": plain,
  "generated/http/sdk.gen.ts": plain,
  "scripts/tool.ts": plain,
  "test/help.ts": plain,
};

test("a tree that keeps to the floors passes", async (context) => {
  assert.deepEqual(await floors(await plant(context, clean)), { status: 0, broken: [] });
});

test("each way of leaving the floors is refused, under the name of its rule", async (context) => {
  const bad = Object.fromEntries(sins.map(([file, text]) => [file, text]));
  const cycle = { "src/agent/two.ts": 'import type { A } from "./one.ts";\nexport type B = A[];\n' };
  const { status, broken } = await floors(await plant(context, { ...clean, ...bad, ...cycle }));
  assert.notEqual(status, 0);
  for (const [file, , rule] of sins) {
    assert.ok(broken.includes(`${rule} ${file}`), `${file} must break ${rule}`);
  }
  const sinners = new Set(sins.map(([file]) => file).concat("src/agent/two.ts"));
  const innocent = broken.filter((line) => !sinners.has(line.split(" ")[1] ?? ""));
  assert.deepEqual(innocent, [], "files that keep to the floors are left alone");
});

const lines = (count: number, line = "//") => `${line}\n`.repeat(count);
const long = (count: number) =>
  `export function f(): void {\n${lines(count, "  g();")}}\nfunction g(): void {}\n`;

const faults: readonly (readonly [file: string, text: string, rule: string])[] = [
  ["src/a.ts", `export const a = 1;\n${lines(400, "g();")}`, "max-lines"],
  ["src/b.ts", long(79), "max-lines-per-function"],
  ["src/c.ts", "export const f = (a: 1, b: 1, c: 1, d: 1, e: 1) => [a, b, c, d, e];\n", "max-params"],
  ["src/d.ts", "export const f = (a: any): unknown => a;\n", "no-explicit-any"],
  ["src/e.ts", "export const f = (a?: string): string => a!;\n", "no-non-null-assertion"],
  ["src/f.ts", "export default 1;\n", "no-default-export"],
  ["src/g.ts", 'export const f = () => console.log("x");\n', "no-console"],
  ["src/h.ts", "export const f = (a: string, b: string) => a == b;\n", "eqeqeq"],
  ["src/i.ts", "export const f = (g: () => void) => { try { g(); } catch {} };\n", "no-empty"],
  ["src/j.ts", 'import { X } from "./k.ts";\nexport type Y = X;\n', "consistent-type-imports"],
  ["src/k.ts", "export namespace X { export const a = 1; }\n", "no-namespace"],
  ["scripts/l.ts", "export const f = (a: any): unknown => a;\n", "no-explicit-any"],
  ["test/m.ts", "export const f = (a: any): unknown => a;\n", "no-explicit-any"],
  ["test/n.ts", `export const a = 1;\n${lines(400, "g();")}`, "max-lines"],
];

const fits: Tree = {
  "src/fits.ts": `export const a = 1;\n${lines(399, "g();")}${lines(9)}`,
  "src/short.ts": long(78),
  "src/four.ts": "export const f = (a: 1, b: 1, c: 1, d: 1) => [a, b, c, d];\n",
  "src/cli/out.ts": 'export const f = () => console.log("x");\n',
  "test/free.ts": "export const f = (a?: string): string => a!;\n",
};

interface Finding {
  readonly code: string;
  readonly filename: string;
}

async function faultsIn(folder: string): Promise<{ status: number; found: readonly string[] }> {
  const { status, output } = await runIn(folder, "oxlint/bin/oxlint", ["--format=json"]);
  const { diagnostics } = JSON.parse(output) as { diagnostics: Finding[] };
  const found = diagnostics.map(({ code, filename }) => `${/\((.+)\)/.exec(code)?.[1]} ${filename}`);
  return { status, found };
}

test("files of 400 lines, functions of 80 and four parameters pass", async (context) => {
  assert.deepEqual(await faultsIn(await plant(context, fits)), { status: 0, found: [] });
});

test("each fault of size and form is refused, under the name of its rule", async (context) => {
  const bad = Object.fromEntries(faults.map(([file, text]) => [file, text]));
  const { status, found } = await faultsIn(await plant(context, { ...fits, ...bad }));
  assert.notEqual(status, 0);
  for (const [file, , rule] of faults) {
    assert.ok(found.includes(`${rule} ${file}`), `${file} must break ${rule}: ${found.join(", ")}`);
  }
  const sinners = new Set(faults.map(([file]) => file));
  assert.deepEqual(
    found.filter((line) => !sinners.has(line.split(" ")[1] ?? "")),
    [],
  );
});
