/** Runs over real HTTP, as a client of the Runs API sees them. */
import assert from "node:assert/strict";
import type { Run, RunAccepted, RunEvent } from "../../generated/http/client/types.gen.ts";
import type { Script } from "../../src/agent/engines/scripted.ts";
import type { TestService } from "./service.ts";
import { readFrames } from "./sse.ts";

export function post(
  service: TestService,
  path: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return service.request(path, {
    method: "POST",
    body: typeof body === "string" ? body : JSON.stringify(body),
    headers: { "content-type": "application/json", ...headers },
  });
}

/** Starts a run that must be accepted. */
export async function startRun(
  service: TestService,
  body: Readonly<Record<string, unknown>> = {},
  headers: Readonly<Record<string, string>> = {},
): Promise<RunAccepted> {
  const response = await post(service, "/v1/runs", { input: "hi", ...body }, headers);
  const accepted = (await response.json()) as RunAccepted;
  assert.equal(response.status, 202, JSON.stringify(accepted));
  return accepted;
}

export async function fetchRun(service: TestService, id: string, wait = 0): Promise<Run> {
  const response = await service.request(`/v1/runs/${id}?wait=${wait}`);
  const run = (await response.json()) as Run;
  assert.equal(response.status, 200, JSON.stringify(run));
  return run;
}

/** The events of a run, as they come, to the end of the stream. */
export async function* runEvents(
  service: TestService,
  id: string,
  headers: Readonly<Record<string, string>> = {},
): AsyncGenerator<RunEvent> {
  const response = await service.request(`/v1/runs/${id}/events`, { headers });
  assert.equal(response.status, 200);
  for await (const { data } of readFrames(response)) if (data !== undefined) yield JSON.parse(data);
}

export async function allEvents(service: TestService, id: string): Promise<RunEvent[]> {
  const events = [];
  for await (const event of runEvents(service, id)) events.push(event);
  return events;
}

/** Waits for the first event of a name. */
export async function runEvent<N extends RunEvent["event"]>(
  service: TestService,
  id: string,
  name: N,
): Promise<Extract<RunEvent, { event: N }>> {
  for await (const event of runEvents(service, id)) {
    if (event.event === name) return event as Extract<RunEvent, { event: N }>;
  }
  throw new Error(`the run ended without ${name}`);
}

/** A model that says `before ` and then waits until it is let go, or stopped. */
export interface Gate {
  readonly script: Script;
  open(): void;
}

export function createGate(text = "after"): Gate {
  const { promise, resolve } = Promise.withResolvers<void>();
  async function* speak(signal: AbortSignal): AsyncGenerator<string> {
    yield "before ";
    const stopped = Promise.withResolvers<void>();
    signal.addEventListener("abort", () => stopped.resolve(), { once: true });
    if (!signal.aborted) await Promise.race([promise, stopped.promise]);
    yield text;
  }
  return { script: ({ signal }) => ({ text: speak(signal) }), open: resolve };
}
