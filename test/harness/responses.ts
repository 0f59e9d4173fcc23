/** The responses API as a client of the tests sees it. */
import assert from "node:assert/strict";
import type {
  Response as ResponseObject,
  ResponseStreamEvent,
} from "../../generated/http/client/types.gen.ts";
import type { TestService } from "./service.ts";
import { readFrames } from "./sse.ts";

export interface RespondOptions {
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
}

/** POST /v1/responses */
export function respond(
  service: TestService,
  body: unknown,
  { headers, signal }: RespondOptions = {},
): Promise<Response> {
  return service.request("/v1/responses", {
    method: "POST",
    body: JSON.stringify(body),
    ...(signal ? { signal } : {}),
    headers: { "content-type": "application/json", ...headers },
  });
}

/** As {@link respond}, for an answer that is to be a response. */
export async function responseOf(
  service: TestService,
  body: unknown,
  options: RespondOptions = {},
): Promise<ResponseObject> {
  return objectOf(await respond(service, body, options));
}

/** The response of a 200. */
export async function objectOf(answer: Response): Promise<ResponseObject> {
  const body = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(body));
  return body as ResponseObject;
}

/** GET /v1/responses/{id} */
export function getResponse(service: TestService, id: string, query = ""): Promise<Response> {
  return service.request(`/v1/responses/${id}${query}`);
}

/** The events of a stream to its `[DONE]`, each held to the form of its frame. */
export async function eventsOf(answer: Response): Promise<ResponseStreamEvent[]> {
  assert.equal(answer.status, 200, answer.status === 200 ? "" : await answer.text());
  const events: ResponseStreamEvent[] = [];
  let isDone = false;
  for await (const frame of readFrames(answer)) {
    if (frame.data === undefined) continue;
    assert.equal(isDone, false, "an event after [DONE]");
    assert.equal(frame.id, undefined, "this format has no ids on its events");
    isDone = frame.data === "[DONE]";
    if (isDone) continue;
    const event = JSON.parse(frame.data) as ResponseStreamEvent;
    assert.equal(frame.event, event.type);
    events.push(event);
  }
  assert.ok(isDone, "the stream ended without [DONE]");
  return events;
}

/** The visible text of a response. */
export function outputText(response: ResponseObject): string {
  const texts = response.output.flatMap((item) =>
    item.type === "message" ? item.content.map(({ text }) => text) : [],
  );
  return texts.join("|");
}
