/** Scenarios of a webhook receiver that verifies GitHub's signature. */
import { createHmac, randomUUID } from "node:crypto";
import { must, mustEqual, type Scenario } from "./scenario.ts";

/** A route that accepts the event `ping` and starts no more work than its owner wants. */
export interface WebhookTarget {
  /** The whole address of the route. */
  readonly url: string;
  readonly secret: string;
}

const REQUEST_MS = 60_000;
const payload = (): string =>
  JSON.stringify({ zen: "Keep it logically awesome.", hook_id: 1, event: "ping" });

interface Sent {
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly method?: string;
  readonly url?: string;
}

async function send(target: WebhookTarget, { body, headers = {}, method = "POST", url = target.url }: Sent) {
  const response = await fetch(url, {
    method,
    redirect: "manual",
    signal: AbortSignal.timeout(REQUEST_MS),
    headers: { "content-type": "application/json", "x-github-event": "ping", ...headers },
    ...(body === undefined ? {} : { body }),
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

const signature = ({ secret }: WebhookTarget, body: string): string =>
  `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;

const signed = (target: WebhookTarget, body: string, delivery: string = randomUUID()) => ({
  "x-hub-signature-256": signature(target, body),
  "x-github-delivery": delivery,
});

export const webhookScenarios: readonly Scenario<WebhookTarget>[] = [
  {
    title: "a signed request is accepted",
    run: async (target) => {
      const body = payload();
      const { status, text } = await send(target, { body, headers: signed(target, body) });
      must([200, 202].includes(status), `a signed request answers ${status}: ${text.slice(0, 200)}`);
    },
  },
  {
    title: "a request without a signature is 401",
    run: async (target) => mustEqual((await send(target, { body: payload() })).status, 401, "the status"),
  },
  {
    title: "a request with the signature of another secret is 401",
    run: async (target) => {
      const body = payload();
      const headers = signed({ ...target, secret: `${target.secret}x` }, body);
      mustEqual((await send(target, { body, headers })).status, 401, "the status");
    },
  },
  {
    title: "a body that was changed after it was signed is 401",
    run: async (target) => {
      const body = payload();
      const { status } = await send(target, { body: `${body} `, headers: signed(target, body) });
      mustEqual(status, 401, "the status");
    },
  },
  {
    title: "an empty or cut signature is 401",
    run: async (target) => {
      const body = payload();
      const whole = signature(target, body);
      for (const value of ["", "sha256=", whole.slice(0, -1), whole.replace("sha256", "sha1")]) {
        const headers = { "x-hub-signature-256": value };
        mustEqual(
          (await send(target, { body, headers })).status,
          401,
          `the status for "${value.slice(0, 12)}"`,
        );
      }
    },
  },
  {
    title: "a delivery that is sent again is recognised, and not accepted a second time",
    run: async (target) => {
      const body = payload();
      const headers = signed(target, body);
      await send(target, { body, headers });
      const { status, text } = await send(target, { body, headers });
      mustEqual(status, 200, "the status of the repetition");
      must(/duplicate/i.test(text), `the answer does not say that it is a duplicate: ${text.slice(0, 200)}`);
    },
  },
  {
    title: "a signed body that is not JSON is 400",
    run: async (target) => {
      const body = '{"zen": ';
      mustEqual((await send(target, { body, headers: signed(target, body) })).status, 400, "the status");
    },
  },
  {
    title: "an unknown route is 404",
    run: async (target) => {
      const body = payload();
      const url = target.url.replace(/\/[^/]*$/, "/no-such-route");
      mustEqual((await send(target, { url, body, headers: signed(target, body) })).status, 404, "the status");
    },
  },
  {
    title: "GET is 405",
    run: async (target) => mustEqual((await send(target, { method: "GET" })).status, 405, "the status"),
  },
];
