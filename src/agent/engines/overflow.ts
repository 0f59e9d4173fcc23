/** As much of a refusal as is looked at. */
const MAX_CHARACTERS = 4_000;
/** Statuses that a refused context comes with; none at all when the refusal comes inside of a stream. */
const STATUSES = [undefined, 200, 400, 413, 422];

/** What providers say of a context that is too long. Limits of rate are told in other words, and are no overflow. */
const WORDS: readonly RegExp[] = [
  /context_length_exceeded/, // OpenAI, Groq
  /maximum context length (?:is|of)\b/i, // OpenAI, vLLM, DeepSeek, Mistral
  /\bprompt is too long\b/i, // Anthropic
  /input length and `?max_tokens`? exceed context limit/i, // Anthropic
  /input token count.{0,40}exceeds the maximum number of tokens/i, // Google
  /exceed_context_size_error|exceeds the available context size/i, // llama.cpp
  /greater than the context length/i, // LM Studio
  /maximum prompt length is \d/i, // xAI
  /exceeds? the (?:model's )?(?:maximum )?context (?:window|length)/i,
];

/**
 * Whether a provider refused a call because its context is too long. This is the only place that reads what providers write
 * with their refusals, and nothing of it leaves here.
 */
export function isContextTooLong(error: unknown): boolean {
  if (!(error instanceof Error)) return typeof error === "string" && hasWords(error);
  const { statusCode, responseBody, data } = error as Error & {
    readonly statusCode?: number;
    readonly responseBody?: unknown;
    readonly data?: unknown;
  };
  if (!STATUSES.includes(statusCode)) return false;
  return [error.message, responseBody, textOf(data)].some(hasWords);
}

function hasWords(text: unknown): boolean {
  if (typeof text !== "string") return false;
  const start = text.slice(0, MAX_CHARACTERS);
  return WORDS.some((pattern) => pattern.test(start));
}

function textOf(data: unknown): string | undefined {
  try {
    return data === undefined ? undefined : JSON.stringify(data);
  } catch {
    return undefined;
  }
}
