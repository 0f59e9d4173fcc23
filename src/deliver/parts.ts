import type { Delivery, SendOptions, SendOutcome } from "./target.ts";

/**
 * Sends the parts of a long message one after the other, from the first that has not arrived yet; what has is noted
 * before the next one goes. The outcome is that of the part that did not get through.
 */
export async function sendParts<Part>(
  parts: readonly Part[],
  { delivery, options }: { readonly delivery: Delivery; readonly options: SendOptions },
  sendPart: (part: Part, index: number) => Promise<SendOutcome>,
): Promise<SendOutcome> {
  for (const [index, part] of parts.entries()) {
    if (index < delivery.partsSent) continue;
    options.signal.throwIfAborted();
    const outcome = await sendPart(part, index);
    if (outcome.status !== "delivered") return outcome;
    if (index + 1 < parts.length) await options.progress(index + 1);
  }
  return { status: "delivered" };
}
