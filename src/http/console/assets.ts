/** The built files of the console: only those that its manifest names. Touches the machine. */
import { hash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { FastResponse } from "srvx";
import { isRecord } from "../../base/data.ts";
import type { Headers } from "../edge/answer.ts";
import type { HeaderReader } from "../edge/access.ts";

/** Relative to this file and to dist/ (and its chunks/), nearest first. */
const FOLDERS = ["./console/", "../console/", "../../../dist/console/"];
/** Bytes that stay in memory. What does not fit is read from the disk for each request. */
const MAX_KEPT_BYTES = 614_400;
const NAME = /^[\w-][\w.-]{0,127}$/;
const YEAR = "public, max-age=31536000, immutable";
/** The files beside a file that hold it compressed; the first is preferred. */
const SUFFIXES = { br: ".br", gzip: ".gz" } as const;

type Encoding = keyof typeof SUFFIXES;

interface Asset {
  readonly type: string;
  readonly encodings: readonly Encoding[];
}

/** A build as its manifest describes it. */
interface Build {
  readonly folder: URL;
  readonly changedAtMs: number;
  readonly files: ReadonlyMap<string, Asset>;
  readonly kept: Map<string, Content>;
  keptBytes: number;
}

interface Content {
  readonly body: Uint8Array<ArrayBuffer>;
  readonly etag: string;
}

/** What an answer depends on besides the file. */
export interface AssetRequest {
  readonly method: string;
  readonly headers: HeaderReader;
}

export class Assets {
  readonly #folders: readonly URL[];
  #build: Build | undefined;

  /** `folders` may hold the build; the first with a manifest does. Default: where the program has it. */
  constructor(folders: readonly URL[] = FOLDERS.map((folder) => new URL(folder, import.meta.url))) {
    this.#folders = folders;
  }

  /** Returns the answer with a script, style or font; undefined when the build does not name it. */
  async asset(name: string, request: AssetRequest, headers: Headers): Promise<Response | undefined> {
    const build = (this.#build?.files.has(name) && this.#build) || (await this.#current());
    const asset = build?.files.get(name);
    if (!build || !asset) return undefined;
    return answer(build, { name, asset, request, headers: { ...headers, "cache-control": YEAR } });
  }

  /** Returns the answer with a page; undefined when the console is not built. */
  async page(name: string, request: AssetRequest, headers: Headers): Promise<Response | undefined> {
    const build = await this.#current();
    if (!build) return undefined;
    return answer(build, { name, asset: PAGE, request, headers });
  }

  /** A build that replaced the last one is found by the time of its manifest. */
  async #current(): Promise<Build | undefined> {
    for (const folder of this.#folders) {
      const changedAtMs = await changeOf(new URL("manifest.json", folder));
      if (changedAtMs === undefined) continue;
      if (this.#build?.changedAtMs !== changedAtMs) this.#build = await readBuild(folder, changedAtMs);
      return this.#build;
    }
    return undefined;
  }
}

const PAGE: Asset = { type: "text/html; charset=utf-8", encodings: [] };

async function changeOf(file: URL): Promise<number | undefined> {
  try {
    return (await stat(file)).mtimeMs;
  } catch {
    return undefined;
  }
}

async function readBuild(folder: URL, changedAtMs: number): Promise<Build> {
  const manifest: unknown = JSON.parse(await readFile(new URL("manifest.json", folder), "utf8"));
  const listed = isRecord(manifest) && Array.isArray(manifest["files"]) ? manifest["files"] : [];
  const files = new Map<string, Asset>();
  for (const each of listed as readonly unknown[]) {
    if (!isRecord(each)) continue;
    const { name, type, encodings = [] } = each;
    if (typeof name !== "string" || !NAME.test(name) || typeof type !== "string") continue;
    const known = Array.isArray(encodings) ? (encodings as readonly unknown[]).filter(isEncoding) : [];
    files.set(name, { type, encodings: known });
  }
  return { folder, changedAtMs, files, kept: new Map(), keptBytes: 0 };
}

function isEncoding(value: unknown): value is Encoding {
  return typeof value === "string" && Object.hasOwn(SUFFIXES, value);
}

async function answer(
  build: Build,
  {
    name,
    asset: { type, encodings },
    request,
    headers,
  }: {
    readonly name: string;
    readonly asset: Asset;
    readonly request: AssetRequest;
    readonly headers: Headers;
  },
): Promise<Response> {
  const encoding = chooseEncoding(request.headers.get("accept-encoding"), encodings);
  const { body, etag } = await contentOf(build, name + (encoding === undefined ? "" : SUFFIXES[encoding]));
  const about = present({
    ...headers,
    etag,
    ...(encodings.length > 0 ? { vary: "Accept-Encoding" } : {}),
  });
  if (
    request.headers
      .get("if-none-match")
      ?.split(",")
      .some((tag) => tag.trim().replace(/^W\//, "") === etag)
  )
    return new FastResponse(null, { status: 304, headers: about });
  const sent = {
    ...about,
    "content-type": type,
    "content-length": String(body.length),
    ...(encoding === undefined ? {} : { "content-encoding": encoding }),
  };
  return new FastResponse(request.method === "HEAD" ? null : body, { status: 200, headers: sent });
}

async function contentOf(build: Build, file: string): Promise<Content> {
  const kept = build.kept.get(file);
  if (kept) return kept;
  const body = new Uint8Array(await readFile(new URL(file, build.folder)));
  const content = { body, etag: `"${hash("sha256", body, "base64url").slice(0, ETAG_CHARACTERS)}"` };
  if (build.keptBytes + body.length > MAX_KEPT_BYTES) return content;
  build.kept.set(file, content);
  build.keptBytes += body.length;
  return content;
}

const ETAG_CHARACTERS = 22;

/**
 * Returns the encoding that the client prefers (RFC 9110, 12.5.3), the first of `available` among equals; undefined for
 * none.
 */
export function chooseEncoding<E extends string>(
  header: string | null,
  available: readonly E[],
): E | undefined {
  if (header === null) return undefined;
  const weights = new Map<string, number>();
  for (const part of header.toLowerCase().split(",").slice(0, MAX_CODINGS)) {
    const [coding = "", ...parameters] = part.split(";").map((piece) => piece.trim());
    const weight = parameters.find((each) => each.startsWith("q="))?.slice(2) ?? "1";
    weights.set(coding, /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/.test(weight) ? Number(weight) : 0);
  }
  const weightOf = (coding: string) => weights.get(coding) ?? weights.get("*") ?? 0;
  let best: E | undefined;
  // An encoding that is as welcome as none saves bytes.
  let bestWeight = weights.get("identity") ?? 0.001;
  for (const coding of available) {
    const weight = weightOf(coding);
    if (weight === 0 || weight < bestWeight || (best !== undefined && weight === bestWeight)) continue;
    best = coding;
    bestWeight = weight;
  }
  return best;
}

const MAX_CODINGS = 32;

function present(headers: Headers): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}
