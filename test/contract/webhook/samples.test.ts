/** Published sample payloads of code hosts, signed by their own libraries, through routes as people write them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import examples from "@octokit/webhooks-examples" with { type: "json" };
import { sign } from "@octokit/webhooks-methods";
import { Webhook } from "standardwebhooks";
import type { WebhookRouteConfig } from "../../../generated/config/types.gen.ts";
import { SECRET, type Answer, type WebhookService } from "../../harness/webhook.ts";
import { openWebhookAgent } from "../../harness/webhook-agent.ts";

// oxlint-disable-next-line typescript/no-explicit-any -- payloads of many shapes
type Payload = any;

interface Sample {
  readonly event: string;
  readonly payload: Payload;
}

const SAMPLES: readonly Sample[] = (
  examples as unknown as readonly { readonly name: string; readonly examples: readonly Payload[] }[]
).flatMap(({ name, examples: payloads }) => payloads.map((payload) => ({ event: name, payload })));

let count = 0;

/** As the first code host sends it. */
async function send(service: WebhookService, route: string, { event, payload }: Sample): Promise<Answer> {
  const body = JSON.stringify(payload);
  return service.post(route, body, {
    secret: null,
    headers: {
      "user-agent": "GitHub-Hookshot/044aadd",
      "x-github-event": event,
      "x-github-delivery": `72d3162e-cc78-11e3-81ab-${String(++count).padStart(12, "0")}`,
      "x-hub-signature-256": await sign(SECRET, body),
    },
  });
}

/** Each result in order; a few requests at once, as a busy organisation sends them. */
async function inLanes<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<readonly R[]> {
  const results: R[] = [];
  const rest = items.entries();
  const lane = async () => {
    for (const [index, item] of rest) results[index] = await work(item);
  };
  await Promise.all(Array.from({ length: 8 }, lane));
  return results;
}

test("every published sample is accepted with its event type", async () => {
  await using agent = await openWebhookAgent({ routes: { hook: {} } });
  assert.ok(SAMPLES.length > 300 && new Set(SAMPLES.map(({ event }) => event)).size > 50);
  const answers = await inLanes(SAMPLES, (sample) => send(agent.service, "hook", sample));
  answers.forEach(({ status, body }, index) => {
    assert.equal(status, 202);
    assert.equal(body.event, SAMPLES[index]?.event);
  });
  const prompts = await agent.asked(SAMPLES.length);
  for (const { event, payload } of SAMPLES) {
    const head = `Webhook event '${event}' on route 'hook':`;
    const json = JSON.stringify(payload, undefined, 2).slice(0, 4000);
    assert.ok(
      prompts.some((prompt) => prompt.includes(head) && prompt.includes(json)),
      event,
    );
  }
});

interface Recipe {
  readonly route: Partial<WebhookRouteConfig>;
  /** The same in plain words of the language. */
  readonly wants: (payload: Payload) => boolean;
  readonly says: (payload: Payload) => string;
}

/** Routes as the documentation shows them, by the event that they are for. */
const RECIPES: Readonly<Record<string, Recipe>> = {
  pull_request: {
    route: {
      filters: [
        { field: "action", in: ["opened", "reopened", "synchronize", "ready_for_review"] },
        { field: "pull_request.draft", equals: false },
        {
          any: [
            { field: "pull_request.base.ref", regex: "^(main|master)$" },
            { field: "forced", exists: true },
          ],
        },
        { not: { field: "sender.type", equals: "Bot" } },
      ],
      prompt:
        "Review #{number} of {repository.full_name} by {pull_request.user.login}: {pull_request.title}\n{pull_request.html_url}",
    },
    wants: ({ action, pull_request: pull, sender }) =>
      ["opened", "reopened", "synchronize", "ready_for_review"].includes(action) &&
      pull.draft === false &&
      ["main", "master"].includes(pull.base.ref) &&
      sender.type !== "Bot",
    says: ({ number, repository, pull_request: pull }) =>
      `Review #${number} of ${repository.full_name} by ${pull.user.login}: ${pull.title}\n${pull.html_url}`,
  },
  push: {
    route: {
      filters: [
        { field: "payload.ref", regex: "^refs/heads/" },
        { field: "deleted", equals: false },
        { field: "commits.0", exists: true },
      ],
      prompt: "{pusher.name} pushed to {ref}: {commits.0.message} ({commits.0.added})",
    },
    wants: ({ ref, deleted, commits }) => ref.startsWith("refs/heads/") && !deleted && commits.length > 0,
    says: ({ pusher, ref, commits: [first] }) =>
      `${pusher.name} pushed to ${ref}: ${first.message} (${JSON.stringify(first.added, undefined, 2)})`,
  },
  issues: {
    route: {
      filters: [
        { field: "action", not_equals: "deleted" },
        { field: "issue.labels.0.name", contains: "bug" },
        { field: "issue.assignee", not_equals: null },
      ],
      prompt:
        "{action}: {issue.title} by {issue.user.login}, closed {issue.closed_at}, {issue.comments} comments",
    },
    wants: ({ action, issue }) =>
      action !== "deleted" && (issue.labels?.[0]?.name.includes("bug") ?? false) && issue.assignee !== null,
    says: ({ action, issue }) =>
      `${action}: ${issue.title} by ${issue.user.login}, closed ${issue.closed_at}, ${issue.comments} comments`,
  },
  issue_comment: {
    route: {
      filters: [
        { field: "action", equals: "created" },
        { field: "comment.body", regex: "(?i)\\bI'LL\\b" },
        { field: "headers.X-GitHub-Event", equals: "issue_comment" },
      ],
      prompt: "{comment.user.login} says: {comment.body}",
    },
    wants: ({ action, comment }) => action === "created" && /\bI'll\b/i.test(comment.body),
    says: ({ comment }) => `${comment.user.login} says: ${comment.body}`,
  },
  workflow_run: {
    route: {
      filters: [
        { field: "action", equals: "completed" },
        { field: "workflow_run.conclusion", in: ["success", "failure"] },
      ],
      prompt: "Run {workflow_run.id} on {workflow_run.head_branch} ended as {workflow_run.conclusion}",
    },
    wants: ({ action, workflow_run: run }) =>
      action === "completed" && ["success", "failure"].includes(run.conclusion),
    says: ({ workflow_run: run }) => `Run ${run.id} on ${run.head_branch} ended as ${run.conclusion}`,
  },
};

test("published samples work with events, filters and templates", async () => {
  const routes = Object.fromEntries(
    Object.entries(RECIPES).map(([event, { route }]) => [
      event.replace("_", "-"),
      { ...route, events: [event], trusts_sender: true },
    ]),
  );
  await using agent = await openWebhookAgent({ routes });
  const pings = SAMPLES.filter(({ event }) => event === "ping");
  const expected: string[] = [];
  for (const [event, { wants, says }] of Object.entries(RECIPES)) {
    const route = event.replace("_", "-");
    const samples = SAMPLES.filter((sample) => sample.event === event);
    const wanted = samples.filter(({ payload }) => wants(payload));
    assert.ok(wanted.length > 0 && wanted.length < samples.length, `${event}: the filters have both to do`);
    const answers = await inLanes([...samples, ...pings], (sample) => send(agent.service, route, sample));
    answers.forEach(({ status, body }, index) => {
      const sample = samples[index];
      if (sample === undefined)
        return assert.deepEqual([status, body], [200, { status: "ignored", event: "ping" }]);
      if (wants(sample.payload)) return assert.deepEqual([status, body.event], [202, event]);
      assert.deepEqual([status, body], [200, { status: "ignored", reason: "filter", route }]);
    });
    expected.push(...wanted.map(({ payload }) => says(payload)));
  }
  const prompts = await agent.asked(expected.length);
  assert.deepEqual(prompts.toSorted(), expected.toSorted());
});

test("a repeated sample is a duplicate, and a sample as a form has the same meaning", async () => {
  await using agent = await openWebhookAgent({
    routes: { hook: { events: ["push"], prompt: "{ref}" }, form: { prompt: "{ref} {pusher.name}" } },
  });
  const sample = SAMPLES.find(({ event, payload }) => event === "push" && payload.commits.length > 0)!;
  const first = await send(agent.service, "hook", sample);
  count--;
  const again = await send(agent.service, "hook", sample);
  assert.deepEqual(again.body, { status: "duplicate", delivery_id: first.body.delivery_id });
  await agent.asked(1);
  const form = new URLSearchParams({ payload: JSON.stringify(sample.payload) }).toString();
  const { status } = await agent.service.post("form", form, {
    secret: null,
    headers: {
      "content-type": "application/x-www-form-urlencoded",
      "x-github-event": "push",
      "x-github-delivery": "form-1",
      "x-hub-signature-256": await sign(SECRET, form),
    },
  });
  assert.equal(status, 202);
  const { ref, pusher } = sample.payload;
  assert.deepEqual(await agent.asked(2), [ref, `${ref} ${pusher.name}`]);
});

/** Payloads of the second code host, in the shape that it documents, with what matters here. */
const project = { id: 15, name: "Diaspora", path_with_namespace: "mike/diaspora", default_branch: "master" };
const user = { id: 4, name: "John Smith", username: "jsmith" };
const SECOND_HOST: readonly Sample[] = [
  {
    event: "Push Hook",
    payload: {
      object_kind: "push",
      event_name: "push",
      before: "95790bf891e76fee5e1747ab589903a6a1f80f22",
      after: "da1560886d4f094c3e6c9ef40349f7d38b5d27d7",
      ref: "refs/heads/master",
      user_username: "jsmith",
      project,
      commits: [{ id: "b6568db1bc1dcd7f8b4d5a946b0b91f9dacd7327", message: "Update Catalan translation.\n" }],
      total_commits_count: 1,
    },
  },
  {
    event: "Merge Request Hook",
    payload: {
      object_kind: "merge_request",
      user,
      project,
      object_attributes: {
        iid: 1,
        title: "MS-Viewport",
        action: "open",
        state: "opened",
        draft: false,
        target_branch: "master",
        last_commit: { id: "da1560886d4f094c3e6c9ef40349f7d38b5d27d7", message: "fixed readme" },
      },
      labels: [{ id: 206, title: "API", type: "ProjectLabel" }],
      changes: { updated_by_id: { previous: null, current: 1 } },
    },
  },
  {
    event: "Note Hook",
    payload: {
      object_kind: "note",
      user,
      project,
      object_attributes: { id: 1241, note: "This commit doesn't work", noteable_type: "Issue" },
    },
  },
  {
    event: "Pipeline Hook",
    payload: {
      object_kind: "pipeline",
      project,
      object_attributes: { id: 31, ref: "master", tag: false, status: "failed", stages: ["build", "test"] },
      builds: [{ id: 380, stage: "deploy", name: "production", status: "skipped", allow_failure: false }],
    },
  },
];

test("events of the second code host are accepted by token and by signature, with the names that it sends", async () => {
  const key = `whsec_${btoa("the second host's signing key...")}`;
  await using agent = await openWebhookAgent({
    settings: { secrets: [key] },
    routes: {
      merges: {
        events: ["Merge Request Hook"],
        filters: [
          { field: "object_attributes.action", in: ["open", "reopen", "update"] },
          { field: "labels.0.title", equals: "API" },
        ],
        prompt:
          "!{object_attributes.iid} of {project.path_with_namespace} by {user.username}: {object_attributes.title}",
      },
      pipelines: {
        events: ["Pipeline Hook"],
        filters: [
          { field: "object_attributes.status", equals: "failed" },
          { field: "object_attributes.stages", contains: "test" },
        ],
        prompt: "Pipeline {object_attributes.id} on {object_attributes.ref} failed at {builds.0.name}",
      },
    },
  });
  const said: Record<string, string> = {
    "merges Merge Request Hook": "!1 of mike/diaspora by jsmith: MS-Viewport",
    "pipelines Pipeline Hook": "Pipeline 31 on master failed at production",
  };
  const ways = [
    () => ({ "x-gitlab-token": SECRET }),
    (body: string, id: string) => {
      const at = new Date();
      const signature = new Webhook(key).sign(id, at, body);
      return { "webhook-timestamp": String(Math.floor(at.getTime() / 1000)), "webhook-signature": signature };
    },
  ];
  let runs = 0;
  for (const way of ways) {
    for (const route of ["merges", "pipelines"]) {
      for (const { event, payload } of SECOND_HOST) {
        const body = JSON.stringify(payload);
        const id = `f5e5f430-f57b-4e6e-9fac-${String(++count).padStart(12, "0")}`;
        const headers = {
          "x-gitlab-event": event,
          "webhook-id": id,
          "idempotency-key": id,
          ...way(body, id),
        };
        const answer = await agent.service.post(route, body, { secret: null, headers });
        const expected = said[`${route} ${event}`];
        if (expected === undefined) {
          assert.deepEqual([answer.status, answer.body], [200, { status: "ignored", event }]);
          continue;
        }
        assert.deepEqual([answer.status, answer.body.event, answer.body.delivery_id], [202, event, id]);
        const prompts = await agent.asked(++runs);
        assert.equal(prompts.at(-1), expected);
      }
    }
  }
  assert.equal(runs, 4);
});

test("events signed with the Standard Webhooks library are accepted", async () => {
  const key = `whsec_${btoa("0123456789abcdef0123456789abcdef")}`;
  await using agent = await openWebhookAgent({
    routes: {
      hook: {
        secret: key,
        events: ["user.created"],
        prompt: "{type}: {data.name} ({data.roles})",
        trusts_sender: true,
      },
    },
  });
  const events = [
    {
      type: "user.created",
      timestamp: "2026-11-03T20:26:10.344522Z",
      data: { name: "Ada L.", roles: ["admin"] },
    },
    { type: "user.deleted", timestamp: "2026-11-03T20:26:11.344522Z", data: { name: "Ada L." } },
  ];
  const answers = await inLanes(events, (event) => {
    const [id, at, body] = [`msg_${++count}`, new Date(), JSON.stringify(event)];
    const signature = new Webhook(key).sign(id, at, body);
    const timestamp = String(Math.floor(at.getTime() / 1000));
    const headers = { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature };
    return agent.service.post("hook", body, { secret: null, headers });
  });
  assert.deepEqual(
    answers.map(({ status, body }) => [status, body.event]),
    [
      [202, "user.created"],
      [200, "user.deleted"],
    ],
  );
  assert.deepEqual(await agent.asked(1), ['user.created: Ada L. ([\n  "admin"\n])']);
});
