/** Spawn trees: records of a session's sub-agents, saved as files in `<home>/spawn-trees`. Touches the machine. */
import { createHash } from "node:crypto";
import { mkdir, open, readdir, readFile, realpath, stat } from "node:fs/promises";
import { join, resolve, sep } from "node:path";
import writeFileAtomic from "write-file-atomic";
import { ServiceError } from "../../base/errors.ts";
import { redactValue } from "../../base/observe.ts";
import { isInside } from "../../base/text.ts";

export interface SpawnTree {
  readonly session_id: string;
  readonly started_at: number | null;
  readonly finished_at: number;
  readonly label: string;
  /** The host's records of its sub-agents, stored without interpretation. */
  readonly subagents: readonly Readonly<Record<string, unknown>>[];
}

interface SpawnTreeEntry extends Omit<SpawnTree, "subagents"> {
  readonly path: string;
  readonly count: number;
}

const MAX_BYTES = 5_242_880;
const MAX_SUBAGENTS = 1_000;
const MAX_LISTED = 200;
/** Limit of trees that one session saves with the same second. */
const MAX_SAME_SECOND = 1_000;
const SAFE_NAME = /^[A-Za-z0-9_-]{1,80}$/;

/** Saves, lists and loads spawn trees. Paths stay inside the folder. */
export class SpawnTrees {
  readonly #root: string;

  /** `root` is absolute; the first tree creates it. */
  constructor(root: string) {
    this.#root = root;
  }

  /** Saves a tree and resolves to the path of its file. Throws ServiceError `invalid_request`. */
  async save(tree: SpawnTree): Promise<string> {
    if (tree.subagents.length === 0) throw invalid("subagents", "must not be empty");
    if (tree.subagents.length > MAX_SUBAGENTS)
      throw invalid("subagents", `has more than ${MAX_SUBAGENTS} entries`);
    const text = JSON.stringify(redactValue(tree));
    if (Buffer.byteLength(text) > MAX_BYTES) throw invalid("subagents", `is larger than ${MAX_BYTES} bytes`);
    const stem = stemOf(tree.finished_at);
    const folder = join(this.#root, folderName(tree.session_id));
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const path = await freePath(folder, stem);
    await writeFileAtomic(path, text, { mode: 0o600 });
    return path;
  }

  /** Returns the trees of one session or of all, newest first. Skips files that are not spawn trees. */
  async list(options: {
    readonly sessionId?: string;
    readonly limit?: number;
  }): Promise<readonly SpawnTreeEntry[]> {
    const folders =
      options.sessionId === undefined ? await namesIn(this.#root) : [folderName(options.sessionId)];
    const paths: string[] = [];
    for (const folder of folders) {
      const names = (await namesIn(join(this.#root, folder))).filter((name) => name.endsWith(".json"));
      paths.push(...names.map((name) => join(this.#root, folder, name)));
    }
    const newest = paths.toSorted(byAgeOfName);
    const limit = Math.min(options.limit ?? 50, MAX_LISTED);
    const entries: SpawnTreeEntry[] = [];
    for (const path of newest) {
      if (entries.length >= limit) break;
      const tree = await this.load(path).catch(() => undefined);
      if (!tree) continue;
      const { subagents, ...about } = tree;
      entries.push({ ...about, path, count: subagents.length });
    }
    return entries;
  }

  /** Throws ServiceError `invalid_request` for a path outside the folder, `not_found` when no spawn tree is there. */
  async load(path: string): Promise<SpawnTree> {
    const wanted = resolve(this.#root, path);
    const real = await realpath(wanted).catch(() => undefined);
    const root = await realpath(this.#root).catch(() => this.#root);
    if (
      wanted === this.#root ||
      !isInside(wanted, this.#root) ||
      (real !== undefined && !isInside(real, root))
    ) {
      throw invalid("path", "leads outside the folder of spawn trees");
    }
    const tree = real === undefined ? undefined : await this.#read(real).catch(() => undefined);
    if (!tree) throw new ServiceError("not_found", "No spawn tree exists at this path.", { param: "path" });
    return tree;
  }

  async #read(path: string): Promise<SpawnTree | undefined> {
    const file = await stat(path);
    if (!file.isFile() || file.size > MAX_BYTES) return undefined;
    return toTree(JSON.parse(await readFile(path, "utf8")) as Partial<SpawnTree>);
  }
}

/** Returns undefined for JSON of another shape. */
function toTree({
  session_id,
  started_at = null,
  finished_at,
  label = "",
  subagents,
}: Partial<SpawnTree>): SpawnTree | undefined {
  const isTree =
    typeof session_id === "string" &&
    (started_at === null || typeof started_at === "number") &&
    typeof finished_at === "number" &&
    typeof label === "string" &&
    Array.isArray(subagents);
  return isTree ? { session_id, started_at, finished_at, label, subagents } : undefined;
}

/** Returns the start of a file name that sorts by time. */
function stemOf(finishedAt: number): string {
  const time = new Date(finishedAt * 1000);
  // Years beyond four digits would sort wrongly.
  if (!(time.getTime() >= 0 && time.getUTCFullYear() <= 9999)) {
    throw invalid("finished_at", "must be a time in seconds since 1970");
  }
  return time.toISOString().replace(/[-:]|\.\d+Z/g, "");
}

/** Reserves the first free name by creating the file, so that concurrent savers never share one. */
async function freePath(folder: string, stem: string): Promise<string> {
  for (let number = 1; number <= MAX_SAME_SECOND; number++) {
    const path = join(folder, number === 1 ? `${stem}.json` : `${stem}-${number}.json`);
    try {
      await (await open(path, "wx", 0o600)).close();
      return path;
    } catch (error) {
      if ((error as { readonly code?: string }).code !== "EEXIST") throw error;
    }
  }
  throw invalid("finished_at", `has ${MAX_SAME_SECOND} trees of this session already; save fewer`);
}

/** Newest first: by second, then by number. */
function byAgeOfName(a: string, b: string): number {
  const [first, second] = [ageOf(a), ageOf(b)];
  if (first.stem !== second.stem) return first.stem < second.stem ? 1 : -1;
  return second.number - first.number;
}

function ageOf(path: string): { readonly stem: string; readonly number: number } {
  const [stem = "", number = "1"] = nameOf(path).slice(0, -".json".length).split("-");
  return { stem, number: Number(number) || 1 };
}

/** Returns the session's id when it is a valid folder name, else its digest. */
function folderName(sessionId: string): string {
  return SAFE_NAME.test(sessionId)
    ? sessionId
    : createHash("sha256").update(sessionId).digest("hex").slice(0, 32);
}

const nameOf = (path: string): string => path.slice(path.lastIndexOf(sep) + 1);

async function namesIn(folder: string): Promise<readonly string[]> {
  return readdir(folder).catch(() => []);
}

function invalid(field: string, what: string): ServiceError {
  return new ServiceError("invalid_request", `${field} ${what}.`, { param: field });
}
