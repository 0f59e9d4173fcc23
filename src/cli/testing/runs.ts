/** Scenarios of runs: creation, events that can be resumed, idempotency, pages and control. */
import { randomUUID } from "node:crypto";
import { eventsOf, type HttpTarget, type Json, PROMPT } from "./http-target.ts";
import { must, mustEqual, type Scenario } from "./scenario.ts";

const FINAL = ["run.completed", "run.failed", "run.cancelled", "run.interrupted"];

async function create(
  target: HttpTarget,
  { body = { input: PROMPT }, key }: { readonly body?: unknown; readonly key?: string } = {},
): Promise<Json> {
  const headers: Record<string, string> = key === undefined ? {} : { "idempotency-key": key };
  const { status, body: accepted } = await target.request("/v1/runs", { method: "POST", body, headers });
  mustEqual(status, 202, "the status");
  return accepted;
}

const pathOf = ({ run_id: id }: Json): string => `/v1/runs/${id}`;

async function untilEnd(target: HttpTarget, run: Json): Promise<readonly Json[]> {
  return eventsOf(await target.stream(`${pathOf(run)}/events`));
}

export const scenariosOfRuns: readonly Scenario<HttpTarget>[] = [
  {
    title: "the events of a run are numbered from 1 without gaps, start once and end with one final event",
    run: async (target) => {
      const events = await untilEnd(target, await create(target));
      mustEqual(
        events.map(({ seq }) => seq),
        events.map((_, index) => index + 1),
        "the numbers",
      );
      mustEqual(events.filter(({ event }) => event === "run.started").length, 1, "the number of starts");
      const finals = events.flatMap(({ event }, index) => (FINAL.includes(event) ? [index] : []));
      mustEqual(finals, [events.length - 1], "the place of final events");
    },
  },
  {
    title: "the run says how it ended, as its last event does",
    run: async (target) => {
      const run = await create(target);
      const last = (await untilEnd(target, run)).at(-1);
      const { body } = await target.request(pathOf(run));
      mustEqual(`run.${body.status}`, last?.event, "the last event");
      mustEqual(body.last_seq, last?.seq, "last_seq");
      must(typeof body.output === "string" && body.output !== "", "the run has no output");
    },
  },
  {
    title: "the events after any number are the same when they are resumed, by header and by query",
    run: async (target) => {
      const run = await create(target);
      const whole = await untilEnd(target, run);
      for (const after of [1, Math.floor(whole.length / 2), whole.length - 1]) {
        const rest = JSON.stringify(whole.slice(after));
        const headers = { "last-event-id": String(after) };
        const byHeader = eventsOf(await target.stream(`${pathOf(run)}/events`, { headers }));
        mustEqual(JSON.stringify(byHeader) === rest, true, `the same events after Last-Event-ID ${after}`);
        const byQuery = eventsOf(await target.stream(`${pathOf(run)}/events?after=${after}`));
        mustEqual(JSON.stringify(byQuery) === rest, true, `the same events after=${after}`);
      }
    },
  },
  {
    title: "each frame has the number and the name of its event",
    run: async (target) => {
      const frames = await target.stream(`${pathOf(await create(target))}/events`);
      for (const { id, event, data } of frames) {
        const value = JSON.parse(data) as Json;
        mustEqual(id, String(value.seq), "the id of a frame");
        if (event !== undefined) mustEqual(event, value.event, "the event of a frame");
      }
    },
  },
  {
    title: "two clients that follow a run get the same events",
    run: async (target) => {
      const run = await create(target);
      const [first, second] = await Promise.all([untilEnd(target, run), untilEnd(target, run)]);
      mustEqual(JSON.stringify(first) === JSON.stringify(second), true, "the same events");
    },
  },
  {
    title: "a Last-Event-ID that is not a number is 400",
    run: async (target) => {
      const run = await create(target);
      const headers = { "last-event-id": "one" };
      const { status } = await target.request(`${pathOf(run)}/events`, { headers });
      mustEqual(status, 400, "the status");
    },
  },
  {
    title: "a run created twice with one Idempotency-Key is one run",
    run: async (target) => {
      const key = randomUUID();
      const [first, second] = await Promise.all([create(target, { key }), create(target, { key })]);
      mustEqual(second.run_id, first.run_id, "the id of the second");
      mustEqual([first.replayed, second.replayed].toSorted(), [false, true], "replayed");
    },
  },
  {
    title: "an Idempotency-Key with another body is 409 or 422",
    run: async (target) => {
      const key = randomUUID();
      await create(target, { key });
      const headers = { "idempotency-key": key };
      const body = { input: `${PROMPT} Now.` };
      const { status } = await target.request("/v1/runs", { method: "POST", body, headers });
      must([409, 422].includes(status), `the status is ${status}, expected 409 or 422`);
    },
  },
  {
    title: "pages of runs neither repeat nor skip, newest first",
    run: async (target) => {
      const session = randomUUID();
      const made: string[] = [];
      for (let count = 0; count < 3; count += 1) {
        made.unshift((await create(target, { body: { input: PROMPT, session_id: session } })).run_id);
      }
      const listed: string[] = [];
      let after = "";
      for (let pages = 0; pages < 5; pages += 1) {
        const { body } = await target.request(`/v1/runs?session_id=${session}&limit=1${after}`);
        listed.push(...body.data.map((run: Json) => run.run_id));
        if (!body.has_more) break;
        after = `&after=${encodeURIComponent(body.last_id)}`;
      }
      mustEqual(listed, made, "the runs of all pages");
    },
  },
  {
    title: "the prompts of a session run one after another, in their order",
    run: async (target) => {
      const session = randomUUID();
      const body = { input: PROMPT, session_id: session };
      const runs = [
        await create(target, { body }),
        await create(target, { body }),
        await create(target, { body }),
      ];
      const ended: Json[] = [];
      for (const run of runs) {
        await untilEnd(target, run);
        ended.push((await target.request(pathOf(run))).body);
      }
      for (const [index, run] of ended.entries()) {
        const before = ended[index - 1];
        must(
          before === undefined || run.started_at >= before.ended_at,
          "a run started before the one before it ended",
        );
      }
    },
  },
  {
    title: "a run that does not exist is 404 for every action",
    run: async (target) => {
      const path = "/v1/runs/run_unknown";
      const post = (verb: string, body: unknown) =>
        target.request(`${path}/${verb}`, { method: "POST", body });
      const answers = [
        await target.request(path),
        await target.request(`${path}/events`),
        await post("stop", {}),
        await post("steer", { text: "hello" }),
        await post("approval", { choice: "once" }),
      ];
      mustEqual(
        answers.map(({ status }) => status),
        [404, 404, 404, 404, 404],
        "the statuses",
      );
    },
  },
  {
    title: "a run that has ended can be neither steered nor approved",
    run: async (target) => {
      const run = await create(target);
      await untilEnd(target, run);
      const post = (verb: string, body: unknown) =>
        target.request(`${pathOf(run)}/${verb}`, { method: "POST", body });
      const statuses = [
        (await post("steer", { text: "hello" })).status,
        (await post("approval", { choice: "once" })).status,
      ];
      must(
        statuses.every((status) => status === 409 || status === 404),
        `the statuses are ${statuses.join(", ")}`,
      );
    },
  },
  {
    title: "a stopped run ends, and a second stop does no harm",
    run: async (target) => {
      const run = await create(target);
      const stop = () => target.request(`${pathOf(run)}/stop`, { method: "POST", body: {} });
      const statuses = [(await stop()).status, (await stop()).status];
      must(
        statuses.every((status) => status === 200 || status === 409),
        `the statuses are ${statuses.join(", ")}`,
      );
      const last = (await untilEnd(target, run)).at(-1);
      must(["run.cancelled", "run.completed"].includes(last?.event), `the run ended with ${last?.event}`);
    },
  },
];
