import { parseFrames } from "./event-frames.ts";

/** The texts of a streamed chat, one a frame. Throws unless the stream ended as a chat ends, without an error. */
export function chatTexts(stream: string): readonly string[] {
  const frames = parseFrames(stream);
  if (frames.at(-1)?.data !== "[DONE]") throw new Error(`a chat was cut: ${stream.slice(-SHOWN_CHARACTERS)}`);
  const texts = frames.slice(0, -1).flatMap(({ data }) => {
    const { choices, error } = JSON.parse(data) as ChatFrame;
    if (error !== undefined || choices === undefined) throw new Error(`a chat failed: ${data}`);
    return choices.map(({ delta }) => delta.content ?? "");
  });
  return texts.filter((text) => text !== "");
}

const SHOWN_CHARACTERS = 1_000;

interface ChatFrame {
  readonly choices?: readonly { readonly delta: { readonly content?: string | null } }[];
  readonly error?: unknown;
}
