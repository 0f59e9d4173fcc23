// node scripts/build.ts: dist/ with split bundles, type declarations, the specs and the bundled skills beside them.
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { chmod, cp, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import process from "node:process";
import { build, type Plugin } from "esbuild";
import { commonJsNames } from "./lib/commonjs-names.ts";
import { replaceFolder, writeText } from "./lib/files.ts";

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

const { outputFiles } = await build({
  write: false,
  absWorkingDir: root,
  entryPoints: { agentd: "src/cli/main.ts", index: "src/index.ts" },
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
  plugins: [withoutLocales, commonJsNames],
  logLevel: "warning",
});
for (const { path, text } of outputFiles) await writeText(path, withoutIdleBanner(text));
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
declarations();
await markExecutable(join(fresh, "agentd.mjs"));
await replaceFolder(fresh, dist);

/** Each file would make its own `require` as it loads: a tenth of the time to the first frame of `agentd rpc`. */
function withoutIdleBanner(text: string): string {
  const rest = text.replace(banner, "");
  return /\brequire\b|__filename|__dirname/.test(rest) ? text : rest;
}

function declarations(): void {
  const args = ["-p", "tsconfig.build.json", "--outDir", join(fresh, "types")];
  const result = spawnSync(join(root, "node_modules/.bin/tsc"), args, { cwd: root, stdio: "inherit" });
  if (result.status !== 0) throw new Error("the type declarations could not be made");
}

/** The source starts with a line for `node` on the path, which esbuild keeps in front. */
async function markExecutable(file: string): Promise<void> {
  const text = await readFile(file, "utf8");
  const line = "#!/usr/bin/env node\n";
  if (!text.startsWith("#!")) await writeFile(file, line + text);
  await chmod(file, 0o755);
}
