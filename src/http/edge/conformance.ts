import type { OperationMeta } from "../../../generated/http/contract.gen.ts";
import { specSchemas } from "./schemas.ts";

/** Answers and events that differ from the spec are bugs of ours: found in tests, not paid for in production. */
export function checkAnswer(
  id: string,
  operation: OperationMeta,
  result: {
    readonly status: number;
    readonly headers?: object;
    readonly body?: unknown;
    readonly stream?: object;
    readonly raw?: unknown;
    readonly contentType?: string;
  },
): void {
  const declared = operation.responses[String(result.status)];
  if (!declared) throw new Error(`${id} answered ${result.status}, which the spec does not list`);
  for (const name of Object.keys(result.headers ?? {})) {
    if (!declared.headers.includes(name))
      throw new Error(`${id} ${result.status} sent the undeclared header ${name}`);
  }
  if (result.stream) {
    if (!declared.sse) throw new Error(`${id} ${result.status} streams, which the spec does not list`);
    return;
  }
  if (result.raw !== undefined) {
    if (declared.raw !== result.contentType) {
      throw new Error(`${id} ${result.status} is ${result.contentType}, which the spec does not list`);
    }
    return;
  }
  if (!declared.json) throw new Error(`${id} ${result.status} has a body, which the spec does not list`);
  complain(`the body of ${id} ${result.status}`, specSchemas.check(declared.json, plain(result.body)));
}

/** As {@link checkAnswer}, for the data of one event. */
export function checkEvent(id: string, operation: OperationMeta, data: unknown): void {
  const schema = operation.responses["200"]?.sse;
  if (!schema) throw new Error(`${id} streams, which the spec does not list`);
  complain(`an event of ${id}`, specSchemas.check(schema, plain(data)));
}

const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value ?? null));

function complain(what: string, issues: ReturnType<typeof specSchemas.check>): void {
  if (!issues) return;
  throw new Error(
    `${what} does not fit the spec: ${issues.map((issue) => `${issue.path} ${issue.message}`).join("; ")}`,
  );
}
