/** One server-sent event: its data as text, and its id when it has one. */
export interface StreamFrame {
  readonly data: string;
  readonly id: string | undefined;
}

/** Most characters of one frame: beyond it something else than the server must be speaking. */
const MAX_FRAME_CHARACTERS = 64_000_000;

/** The events of an answer (WHATWG HTML, 9.2.6); comments are left out. Leaving the loop lets the connection go. */
export async function* readFrames(response: Response): AsyncGenerator<StreamFrame> {
  if (!response.body) return;
  const decoder = new TextDecoder();
  let buffer = "";
  for await (const bytes of response.body) {
    buffer += decoder.decode(bytes, { stream: true });
    for (;;) {
      const end = /\r?\n\r?\n|\r\r/.exec(buffer);
      if (!end) break;
      const frame = parseFrame(buffer.slice(0, end.index));
      buffer = buffer.slice(end.index + end[0].length);
      if (frame) yield frame;
    }
    if (buffer.length > MAX_FRAME_CHARACTERS) throw new Error("A frame of the stream is too long.");
  }
}

function parseFrame(text: string): StreamFrame | undefined {
  let id: string | undefined;
  const data: string[] = [];
  for (const line of text.split(/\r\n|\r|\n/)) {
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") data.push(value);
    if (field === "id") id = value;
  }
  return data.length === 0 ? undefined : { data: data.join("\n"), id };
}
