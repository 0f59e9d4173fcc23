/** Ids that were written as numbers. Pure. */

const KEYS = ["chat_id", "message_thread_id", "thread_id"];

/**
 * What is wrong with ids in `deliver_extra` that no number holds exactly, as they come from YAML without quotes: digits of
 * them are lost, and the message would go elsewhere. Undefined when nothing is.
 */
export function inexactIdFlaw(extra: Readonly<Record<string, unknown>>): string | undefined {
  const key = KEYS.find((each) => typeof extra[each] === "number" && !Number.isSafeInteger(extra[each]));
  return key === undefined
    ? undefined
    : `Write deliver_extra.${key} in quotes: as a number it has lost digits.`;
}
