/** What the tests of the control API share: sessions, open questions, changes and lists. */
import assert from "node:assert/strict";
import type { Job, Occurrence, Question, Session } from "../../generated/http/client/types.gen.ts";
import { callsOnce, testTool } from "./agent.ts";
import type { FakeClock } from "./fake-clock.ts";
import { post } from "./runs.ts";
import type { TestService } from "./service.ts";
import { untilVisible } from "./changes.ts";

type Headers = Readonly<Record<string, string>>;

/** A model that asks for approval of each command, at once. */
export function asking(...commands: string[]) {
  return { script: callsOnce(...commands), tools: [testTool(async ({ command }) => `ran ${command}`)] };
}

/** Makes a session with one prompt and its answer, and waits for the title that the server gives it in the background. */
export async function createSession(service: TestService, id: string, headers: Headers = {}): Promise<void> {
  const hi = { messages: [{ role: "user", content: `hi from ${id}` }] };
  const response = await service.chat(hi, { headers: { "x-agent-session-id": id, ...headers } });
  assert.equal(response.status, 200, await response.clone().text());
  await response.text();
  while ((await getSession(service, id, headers)).title === null);
}

export async function getSession(service: TestService, id: string, headers: Headers = {}): Promise<Session> {
  const response = await service.request(`/v1/sessions/${id}`, { headers });
  assert.equal(response.status, 200, await response.clone().text());
  return (await response.json()) as Session;
}

export function patch(
  service: TestService,
  path: string,
  body: unknown,
  headers: Headers = {},
): Promise<Response> {
  return service.request(path, {
    method: "PATCH",
    body: JSON.stringify(body),
    headers: { "content-type": "application/merge-patch+json", ...headers },
  });
}

/** Starts a run that asks, and waits for its question. */
export async function askQuestion(service: TestService, headers: Headers = {}): Promise<Question> {
  const started = await post(service, "/v1/runs", { input: "hi" }, headers);
  const { run_id: id } = await started.json();
  await (await service.request(`/v1/runs/${id}?wait=30`, { headers })).json();
  const [question] = await list<Question>(service, `/v1/questions?run_id=${id}`, headers);
  assert.ok(question, "the run asks");
  return question;
}

/** Every row of a list, page by page. */
export async function list<T>(service: TestService, path: string, headers: Headers = {}): Promise<T[]> {
  const rows: T[] = [];
  const page = new URL(path, service.url);
  for (;;) {
    const response = await service.request(page.pathname + page.search, { headers });
    const body = await response.json();
    assert.equal(response.status, 200, JSON.stringify(body));
    rows.push(...body.data);
    if (!body.has_more) return rows;
    page.searchParams.set("after", body.last_id);
  }
}

/** Makes a job: every hour, unless the body says otherwise. */
export async function createJob(
  service: TestService,
  body: Readonly<Record<string, unknown>> = {},
  headers: Headers = {},
): Promise<Job> {
  const response = await post(
    service,
    "/v1/jobs",
    { schedule: "every 1h", prompt: "make tea", ...body },
    headers,
  );
  assert.equal(response.status, 201, await response.clone().text());
  return (await response.json()) as Job;
}

/** Resolves to the first occurrence that fits, once there is one. A clock that stands still is moved on meanwhile. */
export async function occurrenceThat(
  service: TestService,
  fits: (each: Occurrence) => boolean = ({ ended_at: at }) => at !== null,
  { headers = {}, clock }: { readonly headers?: Headers; readonly clock?: FakeClock } = {},
): Promise<Occurrence> {
  for (;;) {
    const found = (await list<Occurrence>(service, "/v1/occurrences", headers)).find(fits);
    if (found) return found;
    clock?.tick(1_000);
  }
}

/** Makes a job that has run and has no runs left. */
export async function completedJob(service: TestService): Promise<Job> {
  const job = await createJob(service);
  const over = { state: "completed", next_run_at: null, due_at: null };
  await service.service.store.write((tx) => tx.update("cron_jobs", { id: job.id }, over));
  return job;
}

/** Every stored event. In PostgreSQL an event can be read once all older transactions of the server have ended. */
export async function storedEvents<T>(service: TestService, query = "", headers: Headers = {}): Promise<T[]> {
  await untilVisible(service.service.store);
  return list<T>(service, `/v1/events${query}`, { accept: "application/json", ...headers });
}
