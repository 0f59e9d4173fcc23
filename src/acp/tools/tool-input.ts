/** What a tool was called with, in a size that a client can show. Pure. */

/** As JSON. */
const MAX_CHARACTERS = 262_144;
const MIN_CHARACTERS = 256;

/** Longer input has its long texts cut; one that is long for another reason is told as the start of its JSON. */
export function boundedInput(input: unknown): unknown {
  const size = sizeOf(input);
  if (size <= MAX_CHARACTERS) return input;
  for (let limit = MAX_CHARACTERS / 2; limit >= MIN_CHARACTERS; limit /= 4) {
    const shorter = cut(input, limit);
    if (sizeOf(shorter) <= MAX_CHARACTERS) return shorter;
  }
  return { truncated: true, characters: size, start: (JSON.stringify(input) ?? "").slice(0, MIN_CHARACTERS) };
}

function sizeOf(value: unknown): number {
  return JSON.stringify(value)?.length ?? 0;
}

function cut(value: unknown, limit: number): unknown {
  if (typeof value === "string") {
    const more = value.length - limit;
    return more <= 0 ? value : `${value.slice(0, limit)}[... ${more} characters cut ...]`;
  }
  if (Array.isArray(value)) return value.map((each) => cut(each, limit));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, cut(each, limit)]));
}
