import assert from "node:assert/strict";
import { gatewayRequests } from "../../../generated/gateway/rpc.gen.ts";
import type { Json, RpcHost } from "../../harness/rpc.ts";
import { openSession, rpcScenario } from "./scenario.ts";

/** Values for each parameter: wrong types, and unusual texts. */
const STRANGE: readonly Json[] = [
  null,
  true,
  -1,
  1e308,
  0.5,
  "",
  " ",
  "a\0b",
  "\uD800",
  "\u2028\u202E\u{1F600}",
  "'; DROP TABLE sessions; --",
  "../../../../etc/passwd",
  "%00%2e%2e",
  "x".repeat(100_000),
  [],
  [null],
  [{}],
  {},
  { __proto__: { a: 1 }, constructor: 1, deep: [[[[[[]]]]]] },
  Array.from({ length: 2_000 }, (_, n) => n),
];

/** Commands of agentd itself take a process each: test/contract/rpc/cli.test.ts is about them. */
const APART = new Set(["cli.exec"]);

/** What fits, for the parameters beside the one that is strange. */
const FITTING: Readonly<Record<string, Json>> = {
  text: "hello",
  key: "compact",
  value: true,
  name: "help",
  command: "help",
  word: "a",
  path: "a.png",
  request_id: "none",
  id: "none",
  answer: "",
  password: "",
  result: {},
  process_id: "none",
  subagent_id: "none",
  subagents: [{}],
  argv: ["version"],
};

rpcScenario("error -32602", "any parameter value gets an answer that the method declares", async (host) => {
  const sessionId = await openSession(host);
  for (const [method, { names, params }] of Object.entries(gatewayRequests)) {
    if (APART.has(method)) continue;
    const required = (params["required"] ?? []) as readonly string[];
    const fitting = Object.fromEntries(required.map((name) => [name, FITTING[name] ?? sessionId]));
    for (const name of names) {
      await Promise.all(STRANGE.map((value) => tryValue(host, method, { ...fitting, [name]: value })));
    }
  }
  assert.deepEqual(await host.result("ping"), { pong: true });
});

/** That an error is declared, and that its issues are whole, the host checks by itself. */
async function tryValue(host: RpcHost, method: string, params: Json): Promise<void> {
  const { error } = await host.call(method, params);
  const what = `${method} ${JSON.stringify(params).slice(0, 200)}: ${JSON.stringify(error)}`;
  assert.notEqual(error?.code, -32603, what);
  if (error?.code === -32602)
    assert.ok(
      error.data.issues.every(({ path }: Json) => path !== undefined),
      what,
    );
}
