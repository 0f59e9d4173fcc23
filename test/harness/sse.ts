/** Reads a stream of server-sent events as a client would. */
export interface Frame {
  readonly id?: string;
  readonly event?: string;
  readonly data?: string;
  readonly comment?: string;
}

/** The frames of a response, as they arrive. */
export async function* readFrames(response: Response): AsyncGenerator<Frame> {
  let buffer = "";
  const decoder = new TextDecoder();
  for await (const bytes of response.body!) {
    buffer += decoder.decode(bytes, { stream: true });
    for (let end = buffer.indexOf("\n\n"); end >= 0; end = buffer.indexOf("\n\n")) {
      yield parseFrame(buffer.slice(0, end));
      buffer = buffer.slice(end + 2);
    }
  }
  if (buffer !== "") throw new Error(`the stream ended inside a frame: ${JSON.stringify(buffer)}`);
}

/** The data of all frames that have any, parsed; `[DONE]` stays text. */
export async function readData(response: Response): Promise<unknown[]> {
  const data: unknown[] = [];
  for await (const frame of readFrames(response)) {
    if (frame.data !== undefined) data.push(frame.data === "[DONE]" ? frame.data : JSON.parse(frame.data));
  }
  return data;
}

function parseFrame(text: string): Frame {
  const frame: { -readonly [K in keyof Frame]: Frame[K] } = {};
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    const field = line.slice(0, colon);
    const value = line.slice(colon + 1).trimStart();
    if (field === "") frame.comment = value;
    if (field === "id" || field === "event") frame[field] = value;
    if (field === "data") frame.data = frame.data === undefined ? value : `${frame.data}\n${value}`;
  }
  return frame;
}
