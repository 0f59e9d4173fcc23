/** The responses API as a client of the tests sees it. */
import assert from "node:assert/strict";
import type { ResponseObject, ResponseStreamEvent } from "../../generated/http/client/types.gen.ts";
import { specSchemas } from "../../src/http/edge/input.ts";
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
    item.type === "message"
      ? item.content.map((part) => (part.type === "output_text" ? part.text : part.refusal))
      : [],
  );
  return texts.join("|");
}

const LAST = new Set(["response.completed", "response.incomplete", "response.failed"]);

/** Holds a whole stream to the rules of the format; gives its final response. */
export function checkStream(events: readonly ResponseStreamEvent[]): ResponseObject {
  const items = new StreamItems();
  for (const [index, event] of events.entries()) {
    const issues = specSchemas.checkNamed("ResponseStreamEvent", event);
    assert.equal(issues, undefined, `${event.type} does not fit the spec: ${JSON.stringify(issues)}`);
    assert.equal(event.sequence_number, index, "numbers count from 0 without gaps");
    assert.equal(event.type === "response.created", index === 0, "created comes first, once");
    assert.equal(LAST.has(event.type), index === events.length - 1, "the final event comes last, once");
    items.take(event);
  }
  const last = events.at(-1);
  assert.ok(last && "response" in last);
  assert.deepEqual(last.response.output, items.done, "the response has the items as they were done");
  assert.deepEqual(specSchemas.checkNamed("ResponseObject", last.response), undefined);
  return last.response;
}

/** What a client's accumulator knows of the items. */
class StreamItems {
  readonly done: unknown[] = [];
  readonly #ids: string[] = [];
  readonly #texts = new Map<string, string>();

  take(event: ResponseStreamEvent): void {
    if (event.type === "response.output_item.added") {
      assert.equal(event.output_index, this.#ids.length, "items begin in the order of their places");
      assert.ok(!this.#ids.includes(event.item.id), "no id comes twice");
      this.#ids.push(event.item.id);
      this.#texts.set(event.item.id, "");
      return;
    }
    if (!("output_index" in event)) return;
    const id = this.#ids[event.output_index];
    assert.ok(id !== undefined, `${event.type} speaks of an item that has begun`);
    assert.equal(this.done[event.output_index], undefined, `${event.type} comes before its item is done`);
    if ("item_id" in event) assert.equal(event.item_id, id);
    if ("delta" in event) this.#texts.set(id, `${this.#texts.get(id)}${event.delta}`);
    if ("text" in event) assert.equal(event.text, this.#texts.get(id), "the pieces are the whole");
    if ("arguments" in event) assert.equal(event.arguments, this.#texts.get(id), "the pieces are the whole");
    if (event.type === "response.output_item.done") this.done[event.output_index] = event.item;
  }
}
