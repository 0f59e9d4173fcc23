/** Images that are attached to the next prompt of a session. Touches the machine. */
import { tmpdir } from "node:os";
import type { AttachResult } from "../../../generated/gateway/types/types.gen.ts";
import {
  readAttachment,
  type AttachmentOptions,
  type ReadAttachment,
} from "../../agent/attachments/attachment.ts";
import { checkRead } from "../../agent/question/policy/paths.ts";
import { ServiceError } from "../../base/errors.ts";
import { mayUseMachine, rootsOf } from "../session/folder.ts";
import { QUEUED_LIMIT, queueImage } from "./queued-images.ts";
import type { RpcContext } from "../deps.ts";
import { hasScope } from "../connection/scope.ts";
import type { SessionPlace } from "../session/address.ts";
import { cwdOf } from "../session/session-view.ts";

export const MAX_IMAGE_BYTES = 10_485_760;

/** Where the host's paths begin, and what may be attached from there. */
export function attachPlaces(ctx: RpcContext, place: SessionPlace) {
  const { userHome } = ctx.deps.agent.deps.settings;
  const cwd = cwdOf(ctx.deps, { row: place.row, seed: place.live.seed });
  return { cwd, userHome, roots: shownRoots(ctx, cwd), refuse: (path: string) => refusal(ctx, path) };
}

/** What the agent itself would ask for may be attached by those who may give it leave. */
function refusal({ deps, peer }: RpcContext, path: string): string | undefined {
  const { workspace, userHome: home, agentHome } = deps.agent.deps.settings;
  const found = checkRead(path, { workspace, home, agentHome });
  const mayGiveLeave = hasScope(peer.identity, "approvals");
  return found && (found.outcome === "deny" || !mayGiveLeave) ? found.reason : undefined;
}

/** Folders that a host may look into: those that sessions work in; of people at this machine also their own. */
export function shownRoots(ctx: RpcContext, cwd: string): readonly string[] {
  const own = mayUseMachine(ctx) ? [ctx.deps.agent.deps.settings.userHome, tmpdir()] : [];
  return [cwd, ...rootsOf(ctx), ...own];
}

/** The image of `source`, a path or a data URL. ServiceError `not_found_or_unsupported`, `too_large`. */
export async function readImage(
  source: string,
  places: Pick<AttachmentOptions, "cwd" | "roots" | "refuse">,
): Promise<ReadAttachment> {
  const read = await readAttachment(source, { ...places, maxImageBytes: MAX_IMAGE_BYTES }).catch(
    (cause: unknown) => {
      if (!(cause instanceof ServiceError)) throw cause;
      throw new ServiceError("not_found_or_unsupported", cause.message, { param: "path", cause });
    },
  );
  if (read.attachment.type === "image") return read;
  throw new ServiceError(
    "not_found_or_unsupported",
    "Only images in PNG, JPEG, GIF or WebP can be attached.",
    {
      param: "path",
    },
  );
}

/** Lets the image wait for the next prompt. ServiceError `too_large` when too many wait. */
export function attachImage(
  place: SessionPlace,
  image: ReadAttachment,
  named: { readonly path: string; readonly name: string },
): AttachResult & { readonly count: number } {
  const { width, height, tokenEstimate } = image;
  const count = queueImage(place.live, {
    path: named.path,
    attachment: { ...image.attachment, name: named.name },
  });
  if (count === undefined) {
    throw new ServiceError("too_large", `At most ${QUEUED_LIMIT}, wait for a prompt. Detach one.`);
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

/** ServiceError `too_large`. */
export function checkImageSize(sizeBytes: number): void {
  if (sizeBytes <= MAX_IMAGE_BYTES) return;
  throw new ServiceError("too_large", `The image has ${sizeBytes} bytes; the limit is ${MAX_IMAGE_BYTES}.`);
}
