import assert from "node:assert/strict";
import { test } from "node:test";
import gateway from "../../../generated/specs/gateway.openrpc.json" with { type: "json" };
import host from "../../../generated/specs/host.openrpc.json" with { type: "json" };

/** `session.events.since` becomes `SessionEventsSince`, as generators of clients name the method. */
function pascalCase(method: string): string {
  return method.replace(/(?:^|[._])([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

test("no type of the gateway's documents has the name that a generated client gives a method", () => {
  for (const { methods, components } of [gateway, host]) {
    const names = new Set(methods.map(({ name }) => pascalCase(name)));
    const titles = Object.values(components.schemas).flatMap((schema) =>
      "title" in schema ? [schema.title] : [],
    );
    assert.ok(titles.length > 0 && names.size > 0);
    assert.deepEqual(
      titles.filter((title) => names.has(title)),
      [],
    );
  }
});
