/** Model calls of chat completions as OpenAI defined them and most servers offer them. */
import { JSONParseError } from "@ai-sdk/provider";
import { createParser } from "eventsource-parser";
import { type PostedAnswer, postStream } from "../../../base/net/post-stream.ts";
import type { ModelCallRequest } from "../model-request.ts";
import type { StallGuard } from "../stall-guard.ts";
import type { StepReader } from "../step.ts";
import { AnswerReader } from "./answer.ts";
import { toBody } from "./body.ts";
import { toBrokenAnswer, toConnectionError, toRefusal } from "./errors.ts";
import { callParser } from "./tool-call.ts";

/** A frame holds one piece of an answer. Larger ones are not read, because they are kept in memory until they end. */
const MAX_FRAME_CHARACTERS = 16_777_216;

const OPENROUTER_URL = "https://openrouter.ai/api/v1";

interface CallPorts {
  readonly guard: StallGuard;
  readonly reader: StepReader;
}

/** Makes one model call and passes its answer to `reader`. Rejects with the guard's reason once it aborts. */
export function callCompatible(request: ModelCallRequest, ports: CallPorts): Promise<void> {
  return ports.guard.run(call(request, ports));
}

async function call(request: ModelCallRequest, { guard, reader }: CallPorts): Promise<void> {
  const url = `${(request.provider.baseUrl ?? OPENROUTER_URL).replace(/\/$/, "")}/chat/completions`;
  const body = toBody(request);
  const answer = await post(url, { headers: toHeaders(request), body, signal: guard.signal });
  if (answer.status < 200 || answer.status > 299) throw await toRefusal(url, body, answer);
  const parts = new AnswerReader({
    provider: request.provider.name,
    take: (part) => reader.take(part),
    parseCall: callParser(request),
  });
  for await (const frames of framesOf(url, answer)) {
    if (frames.length > 0) guard.alive();
    for (const frame of frames) {
      const pending = parts.read(frame);
      if (pending) await pending;
      if (reader.isFull) return;
    }
    const waiting = guard.drained();
    if (waiting) await waiting;
  }
  parts.end();
}

async function post(url: string, options: Parameters<typeof postStream>[1]): Promise<PostedAnswer> {
  try {
    return await postStream(url, options);
  } catch (error) {
    throw toConnectionError(url, error);
  }
}

function toHeaders({ provider, traceparent }: ModelCallRequest): Readonly<Record<string, string>> {
  const { apiKey, headers = {} } = provider;
  const own = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const);
  return {
    "content-type": "application/json",
    accept: "*/*",
    "user-agent": "agentd",
    ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}),
    ...Object.fromEntries(own),
    ...(traceparent === undefined ? {} : { traceparent }),
  };
}

/** Yields the data of the frames of each piece of the body. A frame that does not end is dropped, as browsers do. */
async function* framesOf(url: string, answer: PostedAnswer): AsyncGenerator<readonly string[]> {
  const decoder = new TextDecoder();
  let frames: string[] = [];
  const parser = createParser({
    onEvent: ({ data }) => void frames.push(data),
    onError: (error) => {
      if (error.type !== "max-buffer-size-exceeded") return;
      throw new JSONParseError({ text: "", cause: error });
    },
    maxBufferSize: MAX_FRAME_CHARACTERS,
  });
  for await (const chunk of piecesOf(url, answer)) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    yield frames;
    frames = [];
  }
}

async function* piecesOf(url: string, answer: PostedAnswer): AsyncGenerator<Uint8Array> {
  try {
    yield* answer.body as AsyncIterable<Uint8Array>;
  } catch (error) {
    throw toBrokenAnswer(url, answer, error);
  }
}
