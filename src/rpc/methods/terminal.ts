/** Methods about the host's screen, and about images for the next prompt. Touches the machine. */
import { execFile } from "node:child_process";
import { basename } from "node:path";
import type { Environment } from "../../config/home.ts";
import { ServiceError } from "../../base/errors.ts";
import type { RpcGroup, RpcContext, RpcPeer } from "../deps.ts";
import { storePaste } from "../session/saved-files.ts";
import {
  mayUseMachine,
  findTypedPath,
  looksLikePath,
  type TypedPath,
  attachImage,
  attachOptions,
  checkImageSize,
  readImage,
} from "../session/files.ts";
import { dropImage, queuedImages, liveSession } from "../session/session.ts";

type Names =
  | "terminal.resize"
  | "clipboard.paste"
  | "image.attach"
  | "image.attach_bytes"
  | "image.detach"
  | "input.detect_drop"
  | "paste.collapse";

export const terminalMethods: RpcGroup<Names, RpcContext> = {
  "terminal.resize": async ({ params, ctx }) => {
    await liveSession(ctx, params.session_id);
    return { cols: params.cols };
  },

  "clipboard.paste": async ({ params, ctx, signal }) => {
    const session = await liveSession(ctx, params.session_id);
    if (!mayUseMachine(ctx)) {
      return { attached: false, message: "The server cannot read your clipboard. Use image.attach_bytes." };
    }
    const bytes = await readClipboardImage(ctx.deps.config.env, signal);
    if (!bytes) return { attached: false, message: "The clipboard holds no image." };
    const image = await readImage(dataUrl(bytes.toString("base64")), attachOptions(ctx, session)).catch(
      (cause: unknown) => {
        throw new ServiceError("attach_failed", "The clipboard's content cannot be attached.", { cause });
      },
    );
    const name = freeName(queuedImages(session.live), "clipboard", "png");
    return attachImage(session, image, { path: name, name });
  },

  "image.attach": async ({ params, ctx }) => {
    const session = await liveSession(ctx, params.session_id);
    if (params.path.trim() === "") throw pathRequired("path");
    const options = attachOptions(ctx, session);
    const found = await findTypedPath(params.path, options);
    if (!found) {
      throw new ServiceError("not_found_or_unsupported", "No such file exists.", { param: "path" });
    }
    checkImageSize(found.sizeBytes);
    const image = await readImage(found.path, options);
    const name = basename(found.path);
    const { remainder } = found;
    const attached = attachImage(session, image, { path: found.path, name });
    return { ...attached, remainder, text: remainder === "" ? `[User attached image: ${name}]` : remainder };
  },

  "image.attach_bytes": async ({ params, ctx }) => {
    const session = await liveSession(ctx, params.session_id);
    const given = params.content_base64 ?? params.data ?? "";
    if (given.trim() === "") throw pathRequired("content_base64");
    const base64 = given.replace(/^data:[^,]*;base64,/, "").replace(/\s+/g, "");
    checkImageSize(Math.floor((base64.length * 3) / 4) - 2);
    if (!/^[A-Za-z0-9+/]+={0,2}$/.test(base64) || base64.length % 4 === 1) {
      throw new ServiceError("bad_data", "The image is not valid base64.", { param: "content_base64" });
    }
    const image = await readImage(dataUrl(base64), attachOptions(ctx, session));
    const waiting = queuedImages(session.live);
    const wanted = basename((params.filename ?? "").replaceAll("\\", "/"));
    const extension =
      /^\.?([a-z0-9]{1,8})$/i.exec(params.ext ?? "")?.[1] ?? image.attachment.mediaType.slice(6);
    const isFree = wanted !== "" && !waiting.some(({ path }) => path === wanted);
    const name = isFree ? wanted : freeName(waiting, wanted === "" ? "image" : stemOf(wanted), extension);
    return { ...attachImage(session, image, { path: name, name }), text: `[User attached image: ${name}]` };
  },

  "image.detach": async ({ params, ctx }) => {
    const { live } = await liveSession(ctx, params.session_id);
    if (params.path.trim() === "") throw pathRequired("path");
    const detached = dropImage(live, params.path);
    return { detached, count: queuedImages(live).length };
  },

  "paste.collapse": async ({ params, ctx: { deps, peer } }) => {
    const { path, lines } = await storePaste(deps, params.text);
    const number = (pastes.get(peer) ?? 0) + 1;
    pastes.set(peer, number);
    return { placeholder: `[Pasted text #${number}: ${lines} lines → ${path}]`, path, lines };
  },

  "input.detect_drop": async ({ params, ctx }) => {
    const session = await liveSession(ctx, params.session_id);
    if (!looksLikePath(params.text)) return { matched: false };
    const options = attachOptions(ctx, session);
    const found = await findDrop(params.text, options, ctx);
    if (!found) return { matched: false };
    const { path, remainder } = found;
    const name = basename(path);
    const about = { matched: true, path, name };
    try {
      checkImageSize(found.sizeBytes);
      const image = attachImage(session, await readImage(path, options), { path, name });
      const text = remainder === "" ? `[User attached image: ${name}]` : remainder;
      const { count, width, height, token_estimate } = image;
      const size = { ...(width === undefined ? {} : { width }), ...(height === undefined ? {} : { height }) };
      return {
        ...about,
        is_image: true,
        text,
        count,
        ...size,
        ...(token_estimate === undefined ? {} : { token_estimate }),
      };
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      // The agent's own tools may read it.
      return { ...about, is_image: false, text: `[User attached file: ${path}]\n${remainder}`.trim() };
    }
  },
};

/** How many texts each connection pasted. */
const pastes = new WeakMap<RpcPeer, number>();

/**
 * Finds a dropped file. Users at this machine may drop files from anywhere; others must not learn which files
 * exist.
 */
async function findDrop(
  text: string,
  { cwd, userHome, roots }: ReturnType<typeof attachOptions>,
  ctx: RpcContext,
): Promise<TypedPath | undefined> {
  try {
    return await findTypedPath(text, { cwd, userHome, ...(mayUseMachine(ctx) ? {} : { roots }) });
  } catch (error) {
    if (error instanceof ServiceError && error.code === "path_outside_root") return undefined;
    throw error;
  }
}

const dataUrl = (base64: string): string => `data:application/octet-stream;base64,${base64}`;

function freeName(waiting: readonly { readonly path: string }[], stem: string, extension: string): string {
  for (let number = waiting.length + 1; ; number++) {
    const name = `${stem}-${number}.${extension}`;
    if (!waiting.some(({ path }) => path === name)) return name;
  }
}

const stemOf = (name: string): string => name.replace(/\.[^.]*$/, "");

const pathRequired = (param: string) =>
  new ServiceError("path_required", `${param} must not be empty.`, { param });

const PROGRAMS: readonly { readonly needs?: string; readonly words: readonly [string, ...string[]] }[] = [
  { needs: "WAYLAND_DISPLAY", words: ["wl-paste", "--no-newline", "--type", "image/png"] },
  { needs: "DISPLAY", words: ["xclip", "-selection", "clipboard", "-t", "image/png", "-o"] },
  { words: ["pngpaste", "-"] },
];
const TIMEOUT_MS = 5_000;
const MAX_BYTES = 16_777_216;

/** Returns the image in the clipboard; undefined when it has none, or no program can read it. */
async function readClipboardImage(env: Environment, signal: AbortSignal): Promise<Buffer | undefined> {
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
