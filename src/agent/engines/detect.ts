import { isListening } from "../../base/net/port.ts";

/** A model server that answers on this machine. */
export interface LocalServer {
  readonly name: string;
  readonly baseUrl: string;
  readonly models: readonly string[];
}

/** The usual addresses of servers that speak OpenAI's protocol. */
const CANDIDATES: readonly (readonly [name: string, baseUrl: string])[] = [
  ["ollama", "http://127.0.0.1:11434/v1"],
  ["lmstudio", "http://127.0.0.1:1234/v1"],
  ["llamacpp", "http://127.0.0.1:8080/v1"],
  ["vllm", "http://127.0.0.1:8000/v1"],
  ["jan", "http://127.0.0.1:1337/v1"],
];
const TIMEOUT_MS = 300;
const MAX_BODY_BYTES = 1_048_576;
const MAX_MODELS = 100;

/** Asks the loopback addresses at once; those that list models within 300 ms are there. Never rejects. */
export async function detectLocalModels(
  options: { readonly candidates?: typeof CANDIDATES; readonly timeoutMs?: number } = {},
): Promise<readonly LocalServer[]> {
  const { candidates = CANDIDATES, timeoutMs = TIMEOUT_MS } = options;
  const found = await Promise.all(candidates.map(([name, baseUrl]) => ask(name, baseUrl, timeoutMs)));
  return found.filter((server) => server !== undefined);
}

async function ask(name: string, baseUrl: string, timeoutMs: number): Promise<LocalServer | undefined> {
  const address = URL.parse(baseUrl);
  if (!address) return undefined;
  // Usually nobody is there, and to load what `fetch` stands on takes longer than the rest of a start.
  const { hostname, protocol, port } = address;
  const usualPort = protocol === "https:" ? 443 : 80;
  if (!(await isListening({ hostname, port: Number(port) || usualPort }, timeoutMs))) return undefined;
  try {
    const response = await fetch(`${baseUrl}/models`, {
      signal: AbortSignal.timeout(timeoutMs),
      redirect: "error",
    });
    const models = response.ok ? modelIds(await boundedText(response)) : undefined;
    if (!response.ok) await response.body?.cancel();
    return models && { name, baseUrl, models };
  } catch {
    return undefined; // nobody there, or somebody else: either way no model server
  }
}

async function boundedText(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > MAX_BODY_BYTES) throw new RangeError("the list of models is too long");
    chunks.push(chunk);
  }
  return new Blob(chunks as BlobPart[]).text();
}

function modelIds(text: string): readonly string[] | undefined {
  const { data } = JSON.parse(text) as { data?: unknown };
  if (!Array.isArray(data)) return undefined;
  const ids = data.map((entry: { id?: unknown } | null) => entry?.id);
  return ids.filter((id): id is string => typeof id === "string" && id !== "").slice(0, MAX_MODELS);
}
