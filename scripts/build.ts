// node scripts/build.ts: dist/ with split bundles, type declarations, the specs and the bundled skills beside them.
import { rmSync } from "node:fs";
import { chmod, cp } from "node:fs/promises";
import { join, resolve } from "node:path";
import process from "node:process";
import packageFile from "../package.json" with { type: "json" };
import { build, type Plugin } from "esbuild";
import { buildConsole } from "./lib/console.ts";
import { commonJsNames } from "./lib/commonjs-names.ts";
import { writeDeclarations } from "./lib/declarations.ts";
import { replaceFolder, writeText } from "./lib/files.ts";
import { lateFetch } from "./lib/late-fetch.ts";
import { licenceTexts } from "./lib/licences.ts";
import { mergeChunks, type Starts } from "./lib/merge-chunks.ts";

const root = resolve(import.meta.dirname, "..");
const dist = join(root, "dist");
/** Built beside it and exchanged at the end, so that a program that starts meanwhile finds the last complete build. */
const fresh = join(root, `dist-${process.pid}.tmp`);
process.on("exit", () => rmSync(fresh, { recursive: true, force: true }));

/** Bundled CommonJS packages ask for what modules do not have. */
const banner = [
  "import{createRequire as __createRequire}from'node:module';",
  "import{fileURLToPath as __fileURLToPath}from'node:url';",
  "const require=__createRequire(import.meta.url);",
  "const __filename=__fileURLToPath(import.meta.url);",
  "const __dirname=__fileURLToPath(new URL('.',import.meta.url));",
].join("");

/** Zod ships its messages in fifty languages, half of what `agentd acp` would load; agentd needs English only. */
const withoutLocales: Plugin = {
  name: "without-locales",
  setup: (bundler) =>
    bundler.onLoad({ filter: /[\\/]zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, () => ({
      contents: 'export { default as en } from "./en.js";',
    })),
};

/**
 * Node reads every property of a module of its own that is imported: of `node:http` also that which loads its WebSocket,
 * of `node:process` those which open the standard streams. That is a sixth of the start of `agentd rpc`.
 */
const withoutIdleGetters: Plugin = {
  name: "without-idle-getters",
  setup(bundler) {
    const namespace = "builtin";
    // An import that is made when it is needed would have no names but `default`; see commonJsNames.
    bundler.onResolve({ filter: /^node:(?:http|process)$/ }, ({ path, kind }) =>
      kind === "import-statement" ? { path, namespace } : undefined,
    );
    bundler.onLoad({ filter: /./, namespace }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule("${path}");`,
    }));
  },
};

/**
 * What each start loads. Those that begin with another go on where that one is ready, or has said which command it is:
 * a host is greeted before what serves it loads.
 */
const CLI = ["src/cli/main.ts", "src/cli/kit/version.ts"];
const KEPT = [...CLI, "src/cli/kit/code-cache.ts"];
const RPC = [...KEPT, "src/cli/gateway/rpc.ts", "src/app/home.ts"];
const ACP = [...KEPT, "src/cli/acp/acp.ts", "src/cli/acp/serve.ts"];
const STARTS: Starts = {
  cli: CLI,
  kept: KEPT,
  rpc: RPC,
  service: [...RPC, "src/app/start.ts"],
  gateway: [
    ...KEPT,
    "src/cli/gateway/gateway.ts",
    "src/app/start.ts",
    "src/app/wire-cron.ts",
    "src/gateway/listen.ts",
    "src/http/app.ts",
    "src/config/keys.ts",
    "src/rpc/connection/socket.ts",
  ],
  acp: ACP,
  editor: [...ACP, "src/acp/methods.ts", "src/cli/acp/deps.ts"],
};

/** Listeners of TLS and HTTP/2, which agentd never opens, load their part of Node when they are. */
const withoutIdleListeners: Plugin = {
  name: "without-idle-listeners",
  setup(bundler) {
    const namespace = "idle-listener";
    bundler.onResolve({ filter: /^node:https?2?$/ }, ({ path, importer }) =>
      path !== "node:http" && /[\\/]srvx[\\/]/.test(importer) ? { path, namespace } : undefined,
    );
    bundler.onLoad({ filter: /./, namespace }, ({ path }) => ({
      contents: [
        `const load = () => process.getBuiltinModule("${path}");`,
        "export default { createServer: (...all) => load().createServer(...all),",
        "  createSecureServer: (...all) => load().createSecureServer(...all) };",
      ].join("\n"),
    }));
  },
};

const bundled = await build({
  write: false,
  metafile: true,
  absWorkingDir: root,
  entryPoints: { main: "src/cli/main.ts", index: "src/index.ts" },
  outdir: fresh,
  bundle: true,
  splitting: true,
  minify: true,
  platform: "node",
  format: "esm",
  target: "node24",
  outExtension: { ".js": ".mjs" },
  chunkNames: "chunks/[name]-[hash]",
  banner: { js: banner },
  // Ink looks for its developer tools only where DEV says so, and does without them.
  external: ["react-devtools-core"],
  plugins: [lateFetch, withoutIdleListeners, withoutIdleGetters, withoutLocales, commonJsNames],
  logLevel: "warning",
});
const merged = await mergeChunks(bundled, { folder: join(fresh, "chunks"), starts: STARTS });
for (const { path, text } of merged) await writeText(path, inAscii(withoutIdleBanner(text)));
await writeStarter(join(fresh, "agentd.mjs"));
const consoleInputs = await buildConsole(root, join(fresh, "console"));
await writeText(
  join(fresh, "THIRD-PARTY.txt"),
  await licenceTexts(root, [...Object.keys(bundled.metafile.inputs), ...consoleInputs]),
);
// Hosts get the clients: they must run anywhere, so they are built apart, without the banner.
await build({
  absWorkingDir: root,
  entryPoints: { client: "src/client/http.ts", gateway: "src/client/gateway.ts" },
  outdir: fresh,
  bundle: true,
  minify: true,
  platform: "neutral",
  format: "esm",
  target: "es2024",
  outExtension: { ".js": ".mjs" },
  logLevel: "warning",
});
await cp(join(root, "generated/specs"), join(fresh, "specs"), { recursive: true });
await cp(join(root, "src/agent/skills/bundled"), join(fresh, "skills"), { recursive: true });
await writeDeclarations(root, join(fresh, "types"));
await replaceFolder(fresh, dist);

/** Each file would make its own `require` as it loads: a tenth of the time to the first frame of `agentd rpc`. */
function withoutIdleBanner(text: string): string {
  const rest = text.replace(banner, "");
  return /\brequire\b|__filename|__dirname/.test(rest) ? text : rest;
}

/**
 * esbuild escapes what is not ASCII in strings, but not in regular expressions. One such character doubles the memory of
 * a whole file, and the time to scan it.
 */
function inAscii(text: string): string {
  return text.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/**
 * Writes the file that starts the program. It checks the runtime before anything loads: what an older Node lacks fails
 * wherever it is first imported, with a stack trace that names neither agentd nor Node.
 */
async function writeStarter(file: string): Promise<void> {
  const [major = ""] = /\d+/.exec(packageFile.engines.node) ?? [];
  const message = `agentd needs Node ${major} or newer; this is `;
  const lines = [
    "#!/usr/bin/env node",
    `if ("Deno" in globalThis || parseInt(process.versions.node) >= ${major}) await import("./main.mjs");`,
    "else {",
    `  console.error(${JSON.stringify(message)} + process.versions.node + ". Get it from https://nodejs.org/en/download");`,
    "  process.exitCode = 1;",
    "}",
  ];
  await writeText(file, lines.join("\n"));
  await chmod(file, 0o755);
}
