import assert from "node:assert/strict";
import { test } from "node:test";
import { RedactStream, forgetSecret, redact, registerSecret } from "../../../src/base/observe.ts";

const key = `-----BEGIN RSA PRIVATE KEY-----\n${"QUJDREVGR0hJSktMTU5PUFFS\n".repeat(8)}-----END RSA PRIVATE KEY-----`;

const shown = (pieces: readonly string[]): string => {
  const stream = new RedactStream();
  return pieces.map((piece) => stream.push(piece)).join("") + stream.end();
};

/** Numbers that are the same in every run. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

test("a secret or a credential is hidden wherever the text is split", () => {
  registerSecret("split pass phrase");
  registerSecret("split pass phrase, longer");
  for (const text of [
    "before split pass phrase, longer after",
    "split pass phrase, long",
    "split split pass phrase",
    "a ghp_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ3lM6 b",
    'x="sk-proj-aB3dE6gH9jK2mN5pQ8sT1v" task-force-of-everybody-here',
    "Authorization: Bearer \t abcDEF123.456-789 rest",
    "postgres://me:hunter2hunter2@db:5432/x and https://example.com/",
    "t=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N.",
    `key:\n${key}\nafter -----BEGIN CERTIFICATE-----\nMII\n`,
    JSON.stringify({ key, after: 1 }),
  ]) {
    const whole = redact(text);
    assert.equal(shown([...text]), whole, text);
    for (let at = 0; at <= text.length; at += 1)
      assert.equal(shown([text.slice(0, at), text.slice(at)]), whole, `${text} at ${at}`);
  }
});

test("random secrets in random texts, split at random, are shown as redact shows the whole", () => {
  const next = random(7);
  const letters = 'ab -_.:/"\\%\nxgk';
  const some = (length: number) => Array.from({ length }, () => letters[next(letters.length)]).join("");
  for (let round = 0; round < 400; round += 1) {
    const secrets = Array.from({ length: 3 }, () => some(8 + next(12)));
    for (const secret of secrets) registerSecret(secret);
    const text = Array.from({ length: 8 }, () => (next(2) ? some(next(12)) : secrets[next(3)])).join("");
    const pieces: string[] = [];
    for (let at = 0; at < text.length;) {
      const to = at + 1 + next(6);
      pieces.push(text.slice(at, to));
      at = to;
    }
    const out = shown(pieces);
    const whole = redact(text);
    for (const secret of secrets) forgetSecret(secret);
    assert.equal(out, whole, JSON.stringify({ secrets, pieces }));
  }
});

test("ordinary progress is shown at once", () => {
  const stream = new RedactStream();
  for (const piece of [
    "one line\n",
    "...",
    "....",
    "#####",
    " 50% ",
    "12/40 ",
    "日本語 ",
    "Continue? [y/N] ",
  ])
    assert.equal(stream.push(piece), piece);
  assert.equal(stream.push("half a wor"), "half a ");
  assert.equal(stream.push("d\n"), "word\n");
});

test("a long run without whitespace costs no more than its length", () => {
  const stream = new RedactStream();
  const out = stream.push(`${"a".repeat(1_000_000)}\n`) + stream.push(`${"eyJ.".repeat(250_000)}\n`);
  assert.equal(out.length, 2_000_002);
});

test("an unfinished credential is not buffered forever", () => {
  const stream = new RedactStream();
  let out = "";
  for (let round = 0; round < 40; round += 1) out += stream.push(`https://${"a".repeat(1_000)}`);
  assert.ok(out.length > 30_000, String(out.length));
  out = stream.push("-----BEGIN RSA PRIVATE KEY-----\n");
  for (let round = 0; round < 40; round += 1) out += stream.push(`${"A".repeat(1_000)}\n`);
  assert.ok(out.includes("[redacted]"));
});
