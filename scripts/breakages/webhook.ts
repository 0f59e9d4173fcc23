import type { Breakage } from "./breakage.ts";

export const webhookBreakages: readonly Breakage[] = [
  {
    name: "webhook-signature",
    guarantee: "A webhook without a valid signature is refused",
    file: "webhook/receive.ts",
    from: `if (secrets === "none")`,
    to: `if (secrets !== undefined)`,
    tests: ["contract/webhook/signatures.test.ts"],
  },
  {
    name: "webhook-timestamp",
    guarantee: "A signature that is older than the tolerance is refused",
    file: "webhook/signature.ts",
    from: "return Math.abs(Math.floor(nowMs / 1000) - Number(timestamp)) <= toleranceSeconds;",
    to: "return Number(timestamp) >= 0 && nowMs >= 0 && toleranceSeconds >= 0;",
    tests: ["unit/webhook/signature.test.ts"],
  },
  {
    name: "webhook-raw-bytes",
    guarantee: "A signature is checked over the bytes on the wire, not over the parsed body",
    file: "webhook/receive.ts",
    from: "const verdict = verifySignature({ headers, body }, {",
    to: `const text = new TextDecoder().decode(body);
  const bytes = new TextEncoder().encode(/^\\s*[{[]/.test(text) ? JSON.stringify(JSON.parse(text)) : text);
  const verdict = verifySignature({ headers, body: bytes }, {`,
    tests: ["contract/webhook/signatures.test.ts"],
  },
  {
    name: "webhook-known-id",
    guarantee: "A delivery that was taken before is not taken again",
    file: "webhook/known.ts",
    from: "key: deliveryId, keepMs: ID_KEEP_MS }",
    to: "key: `${deliveryId} ${Math.random()}`, keepMs: ID_KEEP_MS }",
    tests: ["contract/webhook/duplicate.test.ts"],
  },
  {
    name: "webhook-nonce",
    guarantee: "A signed request that is sent again under another id is not taken again",
    file: "webhook/known.ts",
    from: "if (once === undefined) return [id];",
    to: "if (once !== null) return [id];",
    tests: ["contract/webhook/duplicate.test.ts"],
  },
  {
    name: "webhook-known-before-script",
    guarantee: "The script of a route does not run again for a repeated delivery",
    file: "webhook/judge.ts",
    from: `if (first === undefined) way.passed("known");`,
    to: `if (first !== null) way.passed("known");`,
    tests: ["contract/webhook/duplicate.test.ts"],
  },
  {
    name: "webhook-answer-after-commit",
    guarantee: "A webhook is answered 202 only after it is recorded",
    file: "webhook/admit.ts",
    from: "await room.turns.submit({ ...prompt, alsoRecord: record });",
    to: "void room.turns.submit({ ...prompt, alsoRecord: record }).catch(() => {});",
    tests: ["contract/webhook/admission.test.ts"],
  },
  {
    name: "webhook-rate",
    guarantee: "A route takes no more requests a minute than it may",
    file: "base/rate-limiter.ts",
    from: "if (window.passed < this.max) {",
    to: "if (window.passed <= this.max) {",
    tests: ["contract/webhook/rate.test.ts"],
  },
  {
    name: "webhook-secret-headers",
    guarantee: "The record of a delivery does not hold what proved who sent it",
    file: "webhook/deliveries.ts",
    from: `SECRET_HEADERS.test(name) ? "[redacted]" : redact(value)`,
    to: "redact(value)",
    tests: ["contract/webhook/record.test.ts"],
  },
];
