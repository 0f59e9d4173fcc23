/** A gateway that the conformance kit checks, and the kit's command. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { agentd } from "../../harness/agentd.ts";
import { createGatewayPlace } from "../../harness/gateway.ts";

const CONFIG = `
platforms:
  webhook:
    enabled: true
    port: 0
    routes:
      conformance: { secret: "env:WEBHOOK_SECRET", prompt: "{zen}", deliver: log }
`;

interface Report {
  readonly passed: number;
  readonly failed: number;
  readonly scenarios: readonly {
    readonly surface: string;
    readonly title: string;
    readonly problem?: string;
  }[];
}

export const SECRET = "a-secret-of-the-conformance-test";

/** Runs the kit; the report, its exit code, and the problems that it found. */
export async function check(words: readonly string[], env: Readonly<Record<string, string>>) {
  const { code, stdout, stderr } = await agentd(["conformance", "--json", ...words], env);
  assert.notEqual(stdout, "", stderr);
  const report = JSON.parse(stdout) as Report;
  const problems = report.scenarios.flatMap(({ title, problem }) =>
    problem === undefined ? [] : [`${title}: ${problem}`],
  );
  return { code, report, problems };
}

/** A gateway with a webhook route. */
export async function startPlace() {
  const place = await createGatewayPlace({ WEBHOOK_SECRET: SECRET });
  await writeFile(join(place.home, "config.yaml"), CONFIG, { mode: 0o600 });
  const gateway = await place.start();
  const webhooks = /hooks +(http:\/\/[^/\s]+)/.exec(gateway.stdout())?.[1];
  assert.ok(webhooks, gateway.stdout());
  const env = { API_SERVER_KEY: await place.key(), WEBHOOK_SECRET: SECRET };
  return {
    home: place.home,
    url: gateway.url,
    webhooks,
    env,
    [Symbol.asyncDispose]: () => place[Symbol.asyncDispose](),
  };
}
