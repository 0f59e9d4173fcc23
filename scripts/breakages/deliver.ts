import type { Breakage } from "./breakage.ts";

export const deliverBreakages: readonly Breakage[] = [
  {
    name: "retry-of-5xx",
    guarantee: "A message is tried again after the platform answered 5xx",
    file: "deliver/platform/call.ts",
    from: "status === 425 || status >= 500",
    to: "status === 425 || status >= 600",
    tests: ["unit/deliver/http-outcome.test.ts"],
  },
  {
    name: "retry-after-unknown-outcome",
    guarantee:
      "A message that may have arrived is not sent again where the platform cannot recognise a repeat",
    file: "deliver/outbox/outcome.ts",
    from: "return target?.supportsIdempotency && !outcome.isFinal",
    to: "return !outcome.isFinal",
    tests: ["unit/deliver/decision.test.ts"],
  },
  {
    name: "in-flight-at-a-kill",
    guarantee:
      "A message in flight when its process is killed is not sent again where the platform cannot recognise a repeat",
    file: "deliver/outbox/dispatch.ts",
    from: `if (!isSafe && waiting.started_at !== null) return "unknown";`,
    to: `if (!isSafe && waiting.started_at !== null) return "again";`,
    tests: ["unit/deliver/in-flight.test.ts"],
  },
  {
    name: "not-begun-at-a-kill",
    guarantee: "A message whose request had not begun when its process was killed is sent",
    file: "deliver/outbox/dispatch.ts",
    from: `if (!isSafe && target !== undefined) return "unsent";`,
    to: `if (!isSafe && target !== undefined) return "unknown";`,
    tests: ["unit/deliver/in-flight.test.ts"],
  },
  {
    name: "begin-before-request",
    guarantee: "The start of a request is on record before it is made",
    file: "deliver/outbox/attempt.ts",
    from: `if (start && !(await start())) return { status: "lost" };`,
    to: `void start?.();`,
    tests: ["unit/deliver/in-flight.test.ts"],
  },
  {
    name: "last-attempt",
    guarantee: "A message is given up after its last attempt",
    file: "deliver/outbox/outcome.ts",
    from: "return row.attempts >= attemptsOf(row, rules);",
    to: "return row.attempts > attemptsOf(row, rules);",
    tests: ["unit/deliver/decision.test.ts"],
  },
  {
    name: "mentions",
    guarantee: "A mention such as @everyone in an answer addresses nobody",
    file: "deliver/text/source.ts",
    from: "if (mentions.length === 0) return text;",
    to: "if (mentions.length >= 0) return text;",
    tests: ["unit/deliver/text.test.ts"],
  },
  {
    name: "part-limit",
    guarantee: "No part of a long text is longer than the platform takes",
    file: "deliver/text/parts.ts",
    from: "lengthIn(form, unit) <= limit",
    to: "lengthIn(form, unit) <= limit + 1",
    tests: ["unit/deliver/text-parts.test.ts"],
  },
  {
    name: "part-limit-used",
    guarantee: "A text of exactly the platform's limit is one part",
    file: "deliver/text/parts.ts",
    from: "lengthIn(form, unit) <= limit",
    to: "lengthIn(form, unit) < limit",
    tests: ["unit/deliver/text-parts.test.ts"],
  },
  {
    name: "no-loopback",
    guarantee: "An outgoing request of the agent cannot reach this machine",
    file: "base/net/guard.ts",
    from: `return range === "unicast" ? undefined : (words[range] ?? "reserved");
  if (range`,
    to: `return range === "unicast" || range === "loopback" ? undefined : (words[range] ?? "reserved");
  if (range`,
    tests: ["unit/base/net-guard.test.ts"],
  },
  {
    name: "every-address-checked",
    guarantee: "A name with one private address among public ones is refused",
    file: "base/net/guard.ts",
    from: "for (const address of addresses) {",
    to: "for (const address of addresses.slice(0, 1)) {",
    tests: ["unit/base/net-guard.test.ts"],
  },
  {
    name: "no-metadata-service",
    guarantee: "The metadata service of a cloud cannot be reached by its name",
    file: "base/net/guard.ts",
    from: `if (metadataNames.has(host)) return "a metadata service";`,
    to: `if (metadataNames.has(host)) return undefined;`,
    tests: ["unit/base/net-guard.test.ts"],
  },
];
