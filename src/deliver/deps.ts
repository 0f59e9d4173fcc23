import type { Delivery, SendOptions, SendOutcome } from "./target.ts";

/**
 * Sends the parts of a long message one after the other, from the first that has not arrived yet; what has is noted
 * before the next one goes. The outcome is that of the part that did not get through. Where more have arrived than there
 * are now, the text is cut otherwise than before, as with another limit: then all of it goes again, since nobody knows
 * what is missing.
 */
export async function sendParts<Part>(
  parts: readonly Part[],
  { delivery, options }: { readonly delivery: Delivery; readonly options: SendOptions },
  sendPart: (part: Part, index: number) => Promise<SendOutcome>,
): Promise<SendOutcome> {
  // The last part is never noted: with it the message has arrived.
  const firstDue = delivery.partsSent < parts.length ? delivery.partsSent : 0;
  for (const [index, part] of parts.entries()) {
    if (index < firstDue) continue;
    options.signal.throwIfAborted();
    const outcome = await sendPart(part, index);
    if (outcome.status !== "delivered") return outcome;
    if (index + 1 < parts.length) await options.progress(index + 1);
  }
  return { status: "delivered" };
}
