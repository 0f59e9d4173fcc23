/** Folders, paths and images that hosts name. Touches the machine, and only reads. */
import { realpath, stat } from "node:fs/promises";
import { isAbsolute, join, resolve } from "node:path";
import { isInside } from "../../base/text.ts";
import { ServiceError } from "../../base/errors.ts";
import { hasScope } from "../connection/calls.ts";
import type { RpcContext } from "../deps.ts";
import { fileURLToPath } from "node:url";
import type { AttachResult } from "../../../generated/gateway/types/types.gen.ts";
import { tmpdir } from "node:os";
import {
  readAttachment,
  type AttachmentOptions,
  type ReadAttachment,
  objectionTo,
} from "../../agent/attachments/attachment.ts";
import { type OpenSession, cwdOf, queueImage, QUEUED_LIMIT } from "./session.ts";

/**
 * Resolves the folder that a host names for a session. Undefined when none is named or it does not exist, and when
 * a host on another machine names one outside the roots, because it means its own machine's. ServiceError
 * `insufficient_scope` for a folder outside the roots without the scope admin.
 */
export async function chosenFolder(ctx: RpcContext, path: string | undefined): Promise<string | undefined> {
  const folder = path === undefined ? undefined : await realFolder(path);
  if (folder === undefined || (await liesInRoots(ctx, folder))) return folder;
  if (!ctx.peer.isLocal) return undefined;
  if (hasScope(ctx.peer.identity, "admin")) return folder;
  const { owner } = ctx.peer.identity;
  throw new ServiceError(
    "insufficient_scope",
    `The key ${JSON.stringify(owner)} has no scope "admin", which it needs to work in ${JSON.stringify(path)}: the folder is outside agent.workspace and agent.workspace_roots. Add the folder to agent.workspace_roots, or the scope in api_server.keys.`,
    { param: "cwd" },
  );
}

/** Resolves a folder that is only shown. Also undefined where the key may not work. */
export async function shownFolder(ctx: RpcContext, path: string | undefined): Promise<string | undefined> {
  const folder = path === undefined ? undefined : await realFolder(path);
  if (folder === undefined || mayUseMachine(ctx) || (await liesInRoots(ctx, folder))) return folder;
  return undefined;
}

/** Returns true when the host may name any path of this machine: a local connection with the scope admin. */
export function mayUseMachine({ peer }: RpcContext): boolean {
  return peer.isLocal && hasScope(peer.identity, "admin");
}

/** Folders in which every session may work; absolute. */
function rootsOf({ deps }: RpcContext): readonly string[] {
  const { workspace, workspaceRoots } = deps.agent.deps.settings;
  return [workspace, ...workspaceRoots];
}

async function realFolder(path: string): Promise<string | undefined> {
  if (!isAbsolute(path) || path.includes("\0")) return undefined;
  const real = await realpath(path).catch(() => undefined);
  const found = real === undefined ? undefined : await stat(real).catch(() => undefined);
  return found?.isDirectory() === true ? real : undefined;
}

/** `folder` is a real path. A root that does not exist contains nothing. */
async function liesInRoots(ctx: RpcContext, folder: string): Promise<boolean> {
  const roots = await Promise.all(rootsOf(ctx).map((root) => realpath(root).catch(() => root)));
  return roots.some((root) => isInside(folder, root));
}

export interface TypedPath {
  /** Absolute. */
  readonly path: string;
  readonly sizeBytes: number;
  /** The text after the path, trimmed. */
  readonly remainder: string;
}

export interface PathOptions {
  readonly cwd: string;
  readonly userHome: string;
  /** Folders that may contain the file, absolute. Absent: anywhere. */
  readonly roots?: readonly string[];
}

const MAX_ATTEMPTS = 64;
const MAX_PATH = 4_096;

/**
 * Finds the file that `text` starts with. Without quotes, a name may contain spaces, escaped or not; the longest
 * existing file wins. ServiceError `path_outside_root` when every reading is outside the roots; such paths are not
 * checked for existence.
 */
export async function findTypedPath(text: string, options: PathOptions): Promise<TypedPath | undefined> {
  const roots = await rootsWithTargets(options);
  let leadsOut = false;
  for (const { written, remainder } of readings(text.trim())) {
    const path = toPath(written, options);
    if (path === undefined) continue;
    const isWithin = await liesWithin(path, roots);
    leadsOut ||= !isWithin;
    const found = isWithin ? await stat(path).catch(() => undefined) : undefined;
    if (found?.isFile()) return { path, sizeBytes: found.size, remainder };
  }
  if (leadsOut) throw outside(options.roots ?? []);
  return undefined;
}

/** Returns the roots as written and as real paths; undefined for anywhere. */
async function rootsWithTargets({ roots }: PathOptions): Promise<readonly string[] | undefined> {
  if (!roots) return undefined;
  return [...roots, ...(await Promise.all(roots.map((root) => realpath(root).catch(() => root))))];
}

/** Checks the path as text first. Only then, for an existing file, checks where its links lead. */
async function liesWithin(path: string, roots: readonly string[] | undefined): Promise<boolean> {
  if (!roots) return true;
  if (!roots.some((root) => isInside(path, root))) return false;
  const real = await realpath(path).catch(() => undefined);
  return real === undefined || roots.some((root) => isInside(real, root));
}

function outside(roots: readonly string[]): ServiceError {
  const folders = [...new Set(roots)].join(", ");
  return new ServiceError(
    "path_outside_root",
    `Files can be attached only from these folders: ${folders}. Send the bytes with image.attach_bytes.`,
    { param: "path" },
  );
}

/** Returns true when `text` looks like a path and not like a sentence. */
export function looksLikePath(text: string): boolean {
  return /^\s*["']?(?:\/|~\/|\.{1,2}\/|file:\/\/)/i.test(text);
}

interface Reading {
  readonly written: string;
  readonly remainder: string;
}

function readings(text: string): readonly Reading[] {
  const quoted = /^(["'])(.+?)\1(?:\s+([\s\S]*))?$/.exec(text);
  if (quoted) return [{ written: quoted[2] ?? "", remainder: (quoted[3] ?? "").trim() }];
  const [line = ""] = text.split("\n", 1);
  const ends = [...line.matchAll(/(?<!\\)\s+/g)].map(({ index }) => index);
  const cuts = [line.length, ...ends.slice(0, MAX_ATTEMPTS).toReversed()];
  return cuts.flatMap((cut) => {
    const raw = text.slice(0, cut);
    const remainder = text.slice(cut).trim();
    const plain = raw.replace(/\\([\s\S])/g, "$1");
    // A backslash may be part of a name.
    return plain === raw
      ? [{ written: raw, remainder }]
      : [plain, raw].map((written) => ({ written, remainder }));
  });
}

function toPath(written: string, { cwd, userHome }: PathOptions): string | undefined {
  if (written === "" || written.length > MAX_PATH || written.includes("\0")) return undefined;
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(written)) {
    try {
      return fileURLToPath(written);
    } catch {
      return undefined; // The URL names no file on this machine.
    }
  }
  return written === "~" || written.startsWith("~/")
    ? join(userHome, written.slice(1))
    : resolve(cwd, written);
}

const MAX_IMAGE_BYTES = 10_485_760;

/** Where the host's paths start, and what may be attached from there. */
export function attachOptions(ctx: RpcContext, session: OpenSession) {
  const { userHome } = ctx.deps.agent.deps.settings;
  const cwd = cwdOf(ctx.deps, { row: session.row, seed: session.live.seed });
  return { cwd, userHome, roots: shownRoots(ctx, cwd), refuse: (path: string) => refusal(ctx, path) };
}

/**
 * Refuses paths that the agent may not read. Paths that require approval are allowed for clients that may approve.
 */
function refusal({ deps, peer }: RpcContext, path: string): string | undefined {
  const { workspace, userHome: home, agentHome } = deps.agent.deps.settings;
  const found = objectionTo(path, { workspace, home, agentHome });
  const mayApprove = hasScope(peer.identity, "approvals");
  return found && (found.outcome === "deny" || !mayApprove) ? found.reason : undefined;
}

/**
 * Folders that a host may look into: the session's, the configured roots, and for users at this machine their own.
 */
export function shownRoots(ctx: RpcContext, cwd: string): readonly string[] {
  const own = mayUseMachine(ctx) ? [ctx.deps.agent.deps.settings.userHome, tmpdir()] : [];
  return [cwd, ...rootsOf(ctx), ...own];
}

/** Reads an image from a path or a data URL. ServiceError `not_found_or_unsupported`, `too_large`. */
export async function readImage(
  source: string,
  options: Pick<AttachmentOptions, "cwd" | "roots" | "refuse">,
): Promise<ReadAttachment> {
  const read = await readAttachment(source, { ...options, maxImageBytes: MAX_IMAGE_BYTES }).catch(
    (cause: unknown) => {
      if (!(cause instanceof ServiceError)) throw cause;
      throw new ServiceError("not_found_or_unsupported", cause.message, { param: "path", cause });
    },
  );
  if (read.attachment.type === "image") return read;
  throw new ServiceError("not_found_or_unsupported", "Only PNG, JPEG, GIF and WebP images can be attached.", {
    param: "path",
  });
}

/** Queues the image for the next prompt. ServiceError `too_large` when too many wait. */
export function attachImage(
  session: OpenSession,
  image: ReadAttachment,
  named: { readonly path: string; readonly name: string },
): AttachResult & { readonly count: number } {
  const { width, height, tokenEstimate } = image;
  const count = queueImage(session.live, {
    path: named.path,
    attachment: { ...image.attachment, name: named.name },
  });
  if (count === undefined) {
    throw new ServiceError("too_large", `At most ${QUEUED_LIMIT} may wait for a prompt. Detach one.`);
  }
  return {
    attached: true,
    path: named.path,
    count,
    name: named.name,
    ...(width === undefined ? {} : { width }),
    ...(height === undefined ? {} : { height }),
    token_estimate: tokenEstimate,
  };
}

/** Checks the size of an image. ServiceError `too_large`. */
export function checkImageSize(sizeBytes: number): void {
  if (sizeBytes <= MAX_IMAGE_BYTES) return;
  throw new ServiceError("too_large", `The image has ${sizeBytes} bytes; the limit is ${MAX_IMAGE_BYTES}.`);
}
