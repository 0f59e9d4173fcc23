/** Images for the next prompt of a session. Touches the machine. */
import { tmpdir } from "node:os";
import type { AttachResult } from "../../../generated/gateway/types/types.gen.ts";
import {
  readAttachment,
  type AttachmentOptions,
  type ReadAttachment,
} from "../../agent/attachments/attachment.ts";
import { checkRead } from "../../agent/question/policy/paths.ts";
import { ServiceError } from "../../base/errors.ts";
import { mayUseMachine, rootsOf } from "./paths.ts";
import type { RpcContext } from "../deps.ts";
import { hasScope } from "../connection/peer.ts";
import type { OpenSession } from "./address.ts";
import { cwdOf } from "./session-view.ts";
import type { Attachment } from "../../agent/message.ts";
import type { LiveSession } from "../../agent/session/live-sessions.ts";
import { execFile } from "node:child_process";
import type { Environment } from "../../config/home.ts";

export const MAX_IMAGE_BYTES = 10_485_760;

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
  const found = checkRead(path, { workspace, home, agentHome });
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

/** An image that waits for the next prompt. */
export interface QueuedImage {
  /** The path as it was attached. Detaching names the image by it. */
  readonly path: string;
  readonly attachment: Attachment;
}

export const MAX_QUEUED_IMAGES = 32;
const MAX_QUEUED_BYTES = 33_554_432;
/** For messages. */
export const QUEUED_LIMIT = `${MAX_QUEUED_IMAGES} images, with ${MAX_QUEUED_BYTES} bytes in all`;

/** Queued images exist as long as the open session. */
const waiting = new WeakMap<LiveSession, QueuedImage[]>();

/** Returns the number of queued images; undefined when there are too many. */
export function queueImage(live: LiveSession, image: QueuedImage): number | undefined {
  const images = waiting.get(live) ?? [];
  if (!fitsPrompt([...images, image].map(({ attachment }) => attachment))) return undefined;
  waiting.set(live, [...images, image]);
  return images.length + 1;
}

/** Returns false when no queued image has this path. */
export function dropImage(live: LiveSession, path: string): boolean {
  const images = waiting.get(live) ?? [];
  const rest = images.filter((image) => image.path !== path);
  waiting.set(live, rest);
  return rest.length < images.length;
}

export function queuedImages(live: LiveSession): readonly QueuedImage[] {
  return waiting.get(live) ?? [];
}

/** Takes all queued images for a prompt. */
export function takeImages(live: LiveSession): readonly QueuedImage[] {
  const images = queuedImages(live);
  waiting.delete(live);
  return images;
}

/** Puts the images of a rejected prompt back, before those that came meanwhile. */
export function putBackImages(live: LiveSession, images: readonly QueuedImage[]): void {
  const all = [...images, ...queuedImages(live)];
  while (!fitsPrompt(all.map(({ attachment }) => attachment))) all.pop();
  if (images.length > 0) waiting.set(live, all);
}

/** Returns true when one prompt may have these attachments. */
export function fitsPrompt(attachments: readonly Attachment[]): boolean {
  const characters = attachments.reduce((sum, { data }) => sum + data.length, 0);
  return attachments.length <= MAX_QUEUED_IMAGES && (characters * 3) / 4 <= MAX_QUEUED_BYTES;
}

const PROGRAMS: readonly { readonly needs?: string; readonly words: readonly [string, ...string[]] }[] = [
  { needs: "WAYLAND_DISPLAY", words: ["wl-paste", "--no-newline", "--type", "image/png"] },
  { needs: "DISPLAY", words: ["xclip", "-selection", "clipboard", "-t", "image/png", "-o"] },
  { words: ["pngpaste", "-"] },
];
const TIMEOUT_MS = 5_000;
const MAX_BYTES = 16_777_216;

/** Returns the image in the clipboard; undefined when it has none, or no program can read it. */
export async function readClipboardImage(env: Environment, signal: AbortSignal): Promise<Buffer | undefined> {
  for (const { needs, words } of PROGRAMS) {
    if (needs !== undefined && !env[needs]) continue;
    const bytes = await output(words, env, signal);
    if (bytes !== undefined && bytes.length > 0) return bytes;
  }
  return undefined;
}

function output(
  [program, ...args]: readonly [string, ...string[]],
  env: Environment,
  signal: AbortSignal,
): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const options = {
      encoding: "buffer",
      env: { ...env },
      timeout: TIMEOUT_MS,
      maxBuffer: MAX_BYTES,
      killSignal: "SIGKILL",
      signal,
    } as const;
    execFile(program, args, options, (error, stdout) => resolve(error ? undefined : stdout));
  });
}
