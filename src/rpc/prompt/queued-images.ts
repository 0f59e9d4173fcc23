import type { Attachment } from "../../agent/message.ts";
import type { LiveSession } from "../../agent/session/live-sessions.ts";

/** An image that waits for the next prompt. */
export interface QueuedImage {
  /** As it was attached; names it for taking it away. */
  readonly path: string;
  readonly attachment: Attachment;
}

export const MAX_QUEUED_IMAGES = 32;
const MAX_QUEUED_BYTES = 33_554_432;
/** For people. */
export const QUEUED_LIMIT = `${MAX_QUEUED_IMAGES} images, with ${MAX_QUEUED_BYTES} bytes in all`;

/** They go with the open session. */
const waiting = new WeakMap<LiveSession, QueuedImage[]>();

/** Resolves to how many wait now; undefined when there are too many. */
export function queueImage(live: LiveSession, image: QueuedImage): number | undefined {
  const images = waiting.get(live) ?? [];
  if (!mayRide([...images, image].map(({ attachment }) => attachment))) return undefined;
  waiting.set(live, [...images, image]);
  return images.length + 1;
}

/** False when no image of this path waits. */
export function dropImage(live: LiveSession, path: string): boolean {
  const images = waiting.get(live) ?? [];
  const rest = images.filter((image) => image.path !== path);
  waiting.set(live, rest);
  return rest.length < images.length;
}

export function queuedImages(live: LiveSession): readonly QueuedImage[] {
  return waiting.get(live) ?? [];
}

/** Those that wait go with a prompt; none waits then. */
export function takeImages(live: LiveSession): readonly QueuedImage[] {
  const images = queuedImages(live);
  waiting.delete(live);
  return images;
}

/** The prompt was not taken: they wait as before, ahead of those that came meanwhile. */
export function putBackImages(live: LiveSession, images: readonly QueuedImage[]): void {
  const all = [...images, ...queuedImages(live)];
  while (!mayRide(all.map(({ attachment }) => attachment))) all.pop();
  if (images.length > 0) waiting.set(live, all);
}

/** Whether one prompt takes so many, and so much. */
export function mayRide(attachments: readonly Attachment[]): boolean {
  const characters = attachments.reduce((sum, { data }) => sum + data.length, 0);
  return attachments.length <= MAX_QUEUED_IMAGES && (characters * 3) / 4 <= MAX_QUEUED_BYTES;
}
