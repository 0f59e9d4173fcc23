import { cleanText, EMPTY_ANSWER } from "./text.ts";
import type { Part, PartsOptions } from "./text-part.ts";

export type { Part, PartsOptions };

/** The messages that `markdown` makes on a platform: at least one, each rendering on its own. */
export function renderParts(markdown: string, options: PartsOptions): readonly Part[] {
  const text = cleanText(markdown) || EMPTY_ANSWER;
  const size = Math.min(options.limit, text.length);
  const count = Math.min(Math.ceil(text.length / size), options.maxParts ?? 40);
  return Array.from({ length: count }, (_, index) => {
    const plain = text.slice(index * size, (index + 1) * size);
    return { text: plain, plain };
  });
}
