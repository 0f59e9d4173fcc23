/**
 * Merges chunks that every start of a command loads together. esbuild makes a file for each set of entry points that can
 * reach a module, over a hundred for a start; finding and linking them took Node nearly half of the time until it was ready.
 */
import { basename, dirname, join } from "node:path";
import { build, type Metafile, type OutputFile, type Plugin } from "esbuild";

/** For each command, the sources that its start imports, also those that it imports only when it needs them. */
export type Starts = Readonly<Record<string, readonly string[]>>;

interface Chunk {
  /** The file's name, without its folder. */
  readonly name: string;
  /** Prefix of its exports in the merged file. */
  readonly id: string;
  readonly text: string;
  /** False for the files that start something: their names are known. */
  readonly isMovable: boolean;
  readonly exports: readonly string[];
  readonly entryPoint: string | undefined;
  readonly imports: readonly { readonly name: string; readonly isDynamic: boolean }[];
}

/** A text file of the build. */
export interface Written {
  readonly path: string;
  readonly text: string;
}

/**
 * Returns the files of a split build with the chunks in `folder` merged by which of `starts` load them. A merged file
 * only imports what at least the same starts load, so merging makes no cycles. Throws for a source that has no chunk.
 */
export async function mergeChunks(
  { outputFiles, metafile }: { readonly outputFiles: readonly OutputFile[]; readonly metafile: Metafile },
  { folder, starts }: { readonly folder: string; readonly starts: Starts },
): Promise<readonly Written[]> {
  const chunks = readChunks(outputFiles, metafile, folder);
  const groupOf = groupByStarts(chunks, starts);
  const place = new Placement(chunks, groupOf);
  const groups = [...new Set(groupOf.values())];
  const merged = await Promise.all(groups.map((group) => mergeGroup(group, place, folder)));
  const rest = outputFiles.filter(({ path }) => !groupOf.has(basename(path)) || dirname(path) !== folder);
  return [...merged, ...rest.map(({ path, text }) => ({ path, text: place.rewrite(text) }))];
}

function readChunks(
  files: readonly OutputFile[],
  { outputs }: Metafile,
  folder: string,
): ReadonlyMap<string, Chunk> {
  const texts = new Map(files.map(({ path, text }) => [basename(path), { text, folder: dirname(path) }]));
  const chunks = Object.entries(outputs).flatMap(([path, output], index): Chunk[] => {
    const name = basename(path);
    const file = texts.get(name);
    if (file === undefined) return [];
    const imports = output.imports
      .filter(({ external }) => external !== true)
      .map(({ path: imported, kind }) => ({
        name: basename(imported),
        isDynamic: kind === "dynamic-import",
      }));
    const { exports, entryPoint } = output;
    const isMovable = file.folder === folder;
    return [
      { name, id: `c${index.toString(36)}_`, text: file.text, isMovable, exports, entryPoint, imports },
    ];
  });
  return new Map(chunks.map((chunk) => [chunk.name, chunk]));
}

/** Returns the name of the merged file of each chunk that a start loads. */
function groupByStarts(chunks: ReadonlyMap<string, Chunk>, starts: Starts): ReadonlyMap<string, string> {
  const loadedBy = new Map<string, string[]>();
  for (const [start, sources] of Object.entries(starts)) {
    const entries = sources.map((source) => {
      const chunk = chunks.values().find(({ entryPoint }) => entryPoint === source);
      if (!chunk) throw new Error(`${source}, which ${start} loads at its start, has no chunk of its own`);
      return chunk.name;
    });
    for (const name of closure(entries, chunks)) loadedBy.set(name, [...(loadedBy.get(name) ?? []), start]);
  }
  const movable = loadedBy.entries().filter(([name]) => chunks.get(name)?.isMovable);
  return new Map(movable.map(([name, by]) => [name, `start-${by.join("-")}.mjs`]));
}

/** Returns these chunks and all that they import statically. */
function closure(names: readonly string[], chunks: ReadonlyMap<string, Chunk>): ReadonlySet<string> {
  const found = new Set<string>(names);
  for (const name of found) {
    for (const imported of chunks.get(name)?.imports ?? []) if (!imported.isDynamic) found.add(imported.name);
  }
  return found;
}

/** Where each chunk is after merging, and how others reach it there. */
class Placement {
  readonly chunks: ReadonlyMap<string, Chunk>;
  readonly #groupOf: ReadonlyMap<string, string>;

  constructor(chunks: ReadonlyMap<string, Chunk>, groupOf: ReadonlyMap<string, string>) {
    this.chunks = chunks;
    this.#groupOf = groupOf;
  }

  members(group: string): readonly Chunk[] {
    return [...this.chunks.values()].filter(({ name }) => this.#groupOf.get(name) === group);
  }

  /** Rewrites the imports of chunks that are merged into another file than `own`. */
  rewrite(text: string, own?: string): string {
    const moved = (name: string): { readonly chunk: Chunk; readonly group: string } | undefined => {
      const [chunk, group] = [this.chunks.get(name), this.#groupOf.get(name)];
      return chunk === undefined || group === undefined ? undefined : { chunk, group };
    };
    return text
      .replace(STATIC_IMPORT, (statement, names: string | undefined, path: string, name: string) => {
        const target = moved(name);
        if (!target || target.group === own) return statement;
        const from = `"${path}${target.group}"`;
        if (names === undefined) return `import${from};`;
        const prefixed = names.split(",").map((pair) => {
          const [imported = "", local = imported] = pair.split(" as ");
          return `${target.chunk.id}${imported} as ${local}`;
        });
        return `import{${prefixed.join(",")}}from${from};`;
      })
      .replace(DYNAMIC_IMPORT, (call, path: string, name: string) => {
        const target = moved(name);
        return target ? `import("${path}${target.group}").then(m=>m.${target.chunk.id})` : call;
      });
  }
}

/** As esbuild writes them: `import{a as b}from"./chunks/chunk-X.mjs";` and `import"./chunk-X.mjs";`. */
const STATIC_IMPORT = /import(?:\{([^}]*)\}from)?"(\.\/(?:chunks\/)?)([\w.-]+\.mjs)";/g;
const DYNAMIC_IMPORT = /import\("(\.\/(?:chunks\/)?)([\w.-]+\.mjs)"\)/g;

async function mergeGroup(group: string, place: Placement, folder: string): Promise<Written> {
  const members = place.members(group);
  const own = new Map(members.map((chunk) => [chunk.name, chunk]));
  const lines = members.map(({ name, id, exports, entryPoint }) =>
    [
      exports.length === 0
        ? `import"./${name}";`
        : `export{${exports.map((one) => `${one} as ${id}${one}`).join(",")}}from"./${name}";`,
      entryPoint === undefined ? "" : `export*as ${id} from"./${name}";`,
    ].join("\n"),
  );
  const inGroup: Plugin = {
    name: "in-group",
    setup(bundler) {
      bundler.onResolve({ filter: /./ }, ({ path, kind }) => {
        const isOwn = kind === "import-statement" && path.startsWith("./") && own.has(basename(path));
        return isOwn ? { path: basename(path), namespace: "chunk" } : { path, external: true };
      });
      bundler.onLoad({ filter: /./, namespace: "chunk" }, ({ path }) => ({
        contents: place.rewrite(own.get(path)?.text ?? "", group),
      }));
    },
  };
  const { outputFiles } = await build({
    write: false,
    stdin: { contents: lines.join("\n"), resolveDir: folder },
    outfile: join(folder, group),
    bundle: true,
    minify: true,
    platform: "node",
    format: "esm",
    target: "node24",
    plugins: [inGroup],
    logLevel: "warning",
  });
  return { path: join(folder, group), text: outputFiles[0]?.text ?? "" };
}
