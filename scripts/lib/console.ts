/** Builds the web console: bundles with hashed names, compressed beside each, and a manifest of all. Touches the machine. */
import { createHash } from "node:crypto";
import { glob, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import { build, type Metafile, type Plugin } from "esbuild";
import { writeJson } from "./files.ts";

/** What the server reads. Every file is served as `/_console/NAME`; the HTML files are pages. */
export interface ConsoleManifest {
  /** Changes with any file. */
  readonly version: string;
  readonly files: readonly ConsoleFile[];
}

interface ConsoleFile {
  readonly name: string;
  readonly type: string;
  /** Compressed copies: `br` is `NAME.br`, `gzip` is `NAME.gz`. */
  readonly encodings: readonly ("br" | "gzip")[];
}

const TYPES: Readonly<Record<string, string>> = {
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
  html: "text/html; charset=utf-8",
};
const PAGES = ["index", "login"];
/** The page that people open: its parts load beside the start of the console, and not after it. */
const FIRST_PAGE = "src/console/chat/chat-page.tsx";

/** Builds the console into `folder`. Returns the paths of all sources, relative to `root`. */
export async function buildConsole(root: string, folder: string): Promise<readonly string[]> {
  const { outputFiles, metafile } = await build({
    write: false,
    metafile: true,
    absWorkingDir: root,
    entryPoints: {
      main: "src/console/main.tsx",
      login: "src/console/pages/login.tsx",
      style: "src/console/styles/main.css",
      icon: "src/console/icon.svg",
    },
    outdir: folder,
    bundle: true,
    splitting: true,
    minify: true,
    platform: "browser",
    format: "esm",
    target: "es2024",
    jsx: "automatic",
    jsxImportSource: "preact",
    tsconfig: "src/console/tsconfig.json",
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    loader: { ".svg": "copy" },
    plugins: [lateStyles, lexerAlone],
    logLevel: "warning",
  });
  await mkdir(folder, { recursive: true });
  const assets = outputFiles.map(({ path, contents }) => ({ name: basename(path), contents }));
  const version = createHash("sha256")
    .update(assets.map(({ name }) => name).join())
    .digest("hex")
    .slice(0, 12);
  const pages = PAGES.map(async (page) => {
    const template = await readFile(join(root, `src/console/${page}.html`), "utf8");
    return { name: `${page}.html`, contents: Buffer.from(htmlOf(template, { metafile, version })) };
  });
  const files = await Promise.all(
    [...assets, ...(await Promise.all(pages))].map((file) => write(folder, file)),
  );
  await writeJson(join(folder, "manifest.json"), { version, files } satisfies ConsoleManifest);
  return Object.keys(metafile.inputs);
}

/**
 * Styles that a script imports later, `await import("./x.css")`, are in force when the import resolves: a link of its own would
 * need the hashed name in the script. The policy of the pages allows style sheets that scripts construct.
 */
const lateStyles: Plugin = {
  name: "late-styles",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /\.css$/ }, ({ kind, path, resolveDir }) =>
      kind === "dynamic-import" ? { path: join(resolveDir, path), namespace: "late-styles" } : undefined,
    );
    onLoad({ filter: /./, namespace: "late-styles" }, async ({ path }) => {
      const { outputFiles } = await build({ entryPoints: [path], bundle: true, minify: true, write: false });
      const text = JSON.stringify(outputFiles[0]?.text ?? "");
      const contents = `const sheet = new CSSStyleSheet(); sheet.replaceSync(${text}); document.adoptedStyleSheets.push(sheet);`;
      return { contents, loader: "js" };
    });
  },
};

/** Leaves of marked what the console uses. Its default instance would keep the parser and renderer, a fifth of the size. */
const lexerAlone: Plugin = {
  name: "lexer-alone",
  setup({ onLoad }) {
    onLoad({ filter: /\/marked\.esm\.js$/ }, async ({ path }) => {
      const source = await readFile(path, "utf8");
      const [, lexer] = /[{,]([\w$]+) as Lexer\b/.exec(source) ?? [];
      const start = /var ([\w$]+)=new [\w$]+;function [\w$]+\(\w+,\w+\)\{return \1\.parse\(/.exec(source);
      if (lexer === undefined || !start) throw new Error(`${path} has changed: adapt where it is cut.`);
      return { contents: `${source.slice(0, start.index)}export{${lexer} as Lexer}`, loader: "js" };
    });
  },
};

/** Returns whether a source is newer than the console in `folder`. */
export async function isConsoleStale(root: string, folder: string): Promise<boolean> {
  const built = await stat(join(folder, "manifest.json")).catch(() => undefined);
  if (!built) return true;
  const sources = [
    "src/console/**/*",
    "src/client/**/*",
    "generated/gateway/**/*",
    "package.json",
    "scripts/lib/console.ts",
  ];
  for await (const file of glob(sources, { cwd: root })) {
    if ((await stat(join(root, file))).mtimeMs > built.mtimeMs) return true;
  }
  return false;
}

interface Asset {
  readonly name: string;
  readonly contents: Uint8Array;
}

async function write(folder: string, { name, contents }: Asset): Promise<ConsoleFile> {
  const path = join(folder, name);
  const [br, gz] = await Promise.all([
    promisify(brotliCompress)(contents, {
      params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY },
    }),
    promisify(gzip)(contents, { level: constants.Z_BEST_COMPRESSION }),
  ]);
  await Promise.all([writeFile(path, contents), writeFile(`${path}.br`, br), writeFile(`${path}.gz`, gz)]);
  const type = TYPES[name.split(".").at(-1) ?? ""];
  if (type === undefined) throw new Error(`${name} has no known media type. Add it to TYPES.`);
  return { name, type, encodings: ["br", "gzip"] };
}

/** Puts the hashed names into a page, with the chunks that it needs at once. */
function htmlOf(template: string, { metafile, version }: { metafile: Metafile; version: string }): string {
  const outputs = Object.entries(metafile.outputs);
  const addressOf = (entry: string) => {
    const found = outputs.find(([, { entryPoint }]) => entryPoint === entry);
    if (!found) throw new Error(`The console has no bundle of ${entry}.`);
    return `/_console/${basename(found[0])}`;
  };
  const chunks = new Set([FIRST_PAGE].flatMap((entry) => [addressOf(entry), ...importsOf(metafile, entry)]));
  const preloads = [...chunks].map((path) => `<link rel="modulepreload" href="${path}" />`).join("\n    ");
  return template
    .replaceAll('"main.css"', `"${addressOf("src/console/styles/main.css")}"`)
    .replaceAll('"main.js"', `"${addressOf("src/console/main.tsx")}"`)
    .replaceAll('"login.js"', `"${addressOf("src/console/pages/login.tsx")}"`)
    .replaceAll('"icon.svg"', `"/_console/${iconName(metafile)}"`)
    .replaceAll('"VERSION"', `"${version}"`)
    .replace("<!-- preloads -->", preloads);
}

function iconName({ outputs }: Metafile): string {
  return basename(Object.keys(outputs).find((path) => path.endsWith(".svg")) ?? "");
}

/** The chunks that a bundle imports at once. */
function importsOf({ outputs }: Metafile, entry: string): string[] {
  const output = Object.values(outputs).find(({ entryPoint }) => entryPoint === entry);
  const imports = output?.imports.filter(({ kind }) => kind === "import-statement") ?? [];
  return imports.map(({ path }) => `/_console/${basename(path)}`);
}
