/** Methods about the host's screen, and about images for the next prompt. Touches the machine. */
import { basename } from "node:path";
import { ServiceError } from "../../base/errors.ts";
import type { RpcGroup, RpcContext } from "../deps.ts";
import { mayUseMachine, findTypedPath, looksLikePath, type TypedPath } from "../session/paths.ts";
import {
  readClipboardImage,
  attachImage,
  attachOptions,
  checkImageSize,
  readImage,
  dropImage,
  queuedImages,
} from "../session/images.ts";
import { liveSession } from "../session/address.ts";

type Names =
  | "terminal.resize"
  | "clipboard.paste"
  | "image.attach"
  | "image.attach_bytes"
  | "image.detach"
  | "input.detect_drop";

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
      const { count } = attachImage(session, await readImage(path, options), { path, name });
      const text = remainder === "" ? `[User attached image: ${name}]` : remainder;
      return { ...about, is_image: true, text, count };
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      // The agent's own tools may read it.
      return { ...about, is_image: false, text: `[User attached file: ${path}]\n${remainder}`.trim() };
    }
  },
};

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
