/** What tells a platform that it was sent the same thing before. Pure. */
import { sha256 } from "../../base/digest.ts";
import type { Delivery } from "../target.ts";

/** The same for every attempt at one part of a message, of letters, digits, `_` and `.`; at most `maxLength` characters. */
export function repeatMark({ id }: Pick<Delivery, "id">, part: number, maxLength: number): string {
  const mark = `${id}.${part}`;
  return mark.length <= maxLength ? mark : sha256(mark).slice(0, maxLength);
}
