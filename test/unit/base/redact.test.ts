import assert from "node:assert/strict";
import { test } from "node:test";
import { forgetSecret, redact, redactValue, registerSecret } from "../../../src/base/observe.ts";

const MASK = "[redacted]";
const letters = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ3lM6oP9rS2uV5xY8";

test("a registered secret is replaced wherever it appears", () => {
  registerSecret("swordfish-with-(regex)*+?^$|[chars]\\");
  const secret = "swordfish-with-(regex)*+?^$|[chars]\\";
  assert.equal(redact(`<${secret}${secret}>`), `<${MASK}${MASK}>`);
  assert.equal(redact(secret.slice(0, -1)), secret.slice(0, -1));
});

test("a registered secret is replaced in its JSON form too", () => {
  const secret = 'quo"te\\back\nline\ttab\u0001';
  registerSecret(secret);
  const text = JSON.stringify({ value: `x${secret}y` });
  assert.deepEqual(JSON.parse(redact(text)), { value: `x${MASK}y` });
});

test("a registered secret is replaced percent-encoded too", () => {
  const secret = "p/ss w+rd=&?";
  registerSecret(secret);
  assert.equal(redact(`q=${encodeURIComponent(secret)}&r`), `q=${MASK}&r`);
  assert.equal(redact(`${new URLSearchParams({ q: secret }).toString()}&r`), `q=${MASK}&r`);
  registerSecret("lone surrogate \ud800");
  assert.equal(redact("lone surrogate \ud800"), MASK);
});

test("a one-time password may be as short as four characters, and is hidden only while it is used", () => {
  registerSecret("abc", { minLength: 1 });
  registerSecret("hq7z", { minLength: 4 });
  assert.equal(redact("abc hq7z"), `abc ${MASK}`);
  forgetSecret("hq7z");
  assert.equal(redact("abc hq7z"), "abc hq7z");
});

test("a secret that contains another is redacted as a whole", () => {
  registerSecret("inner-secret");
  registerSecret("outer-inner-secret-outer");
  registerSecret("inner-secret-tail");
  assert.equal(redact("outer-inner-secret-outer inner-secret-tail inner-secret"), `${MASK} ${MASK} ${MASK}`);
});

test("secrets shorter than 8 characters are ignored, since they would redact words", () => {
  registerSecret("");
  registerSecret("the");
  registerSecret("seven77");
  assert.equal(redact("the seven77"), "the seven77");
});

const shapes: Readonly<Record<string, string>> = {
  "an OpenAI key": `sk-proj-${letters}`,
  "an Anthropic key": `sk-ant-api03-${letters}_${letters}-AA`,
  "an OpenRouter key": `sk-or-v1-${letters}`,
  "a GitHub token": `ghp_${letters.slice(0, 36)}`,
  "a GitHub app token": `ghs_${letters.slice(0, 36)}`,
  "a fine-grained GitHub token": `github_pat_11ABC_${letters}`,
  "a GitLab token": `glpat-${letters.slice(0, 20)}`,
  "a Slack token": "xoxb-123456789012-abcdefABCDEF",
  "an AWS key id": "AKIAIOSFODNN7EXAMPLE",
  "a Google key": `AIza${letters.slice(0, 35)}`,
  "an npm token": `npm_${letters.slice(0, 36)}`,
  "a JSON Web Token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
};

for (const [name, value] of Object.entries(shapes)) {
  test(`${name} is recognised in any surroundings`, () => {
    for (const [before, after] of [
      ["", ""],
      ["key=", " "],
      ['{"key":"', '"}'],
      ["export KEY='", "'\n"],
      ["(", ")"],
      ["\n", "\r\n"],
      ["https://host/?token=", "&next=1"],
      ["日本", "語"],
    ]) {
      const clean = redact(`${before}${value}${after}`);
      assert.equal(clean, `${before}${MASK}${after}`);
    }
  });
}

test("authorization headers lose their credential and keep their scheme", () => {
  assert.equal(redact("Authorization: Bearer abcDEF123.456-789_~+/="), `Authorization: Bearer ${MASK}`);
  assert.equal(redact("authorization: basic QWxhZGRpbjpvcGVuU2VzYW1l"), `authorization: basic ${MASK}`);
  assert.equal(redact("BEARER  0123456789abcdef rest"), `BEARER  ${MASK} rest`);
});

test("passwords are removed from URLs, and the rest stays", () => {
  assert.equal(redact("postgres://me:hunter2@db:5432/x"), `postgres://me:${MASK}@db:5432/x`);
  assert.equal(redact("see https://u:p%40ss@host/path?q=1."), `see https://u:${MASK}@host/path?q=1.`);
  assert.equal(redact("redis://:only-password@cache"), `redis://:${MASK}@cache`);
});

const pemBody = `${`${letters}${letters}`.slice(0, 64)}\n`.repeat(20);
for (const kind of ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY"]) {
  test(`a PEM block of ${kind} goes as a whole, also as JSON and when it is cut`, () => {
    const pem = `-----BEGIN ${kind}-----\n${pemBody}-----END ${kind}-----`;
    assert.equal(redact(`before\n${pem}\nafter`), `before\n${MASK}\nafter`);
    assert.deepEqual(JSON.parse(redact(JSON.stringify({ pem, after: "kept" }))), {
      pem: MASK,
      after: "kept",
    });
    assert.equal(redact(pem.slice(0, 500)), MASK);
    assert.equal(redact(`${pem}\n${pem}`), `${MASK}\n${MASK}`);
    assert.equal(redact(pem.replaceAll("\n", "\r\n")), MASK);
  });
}

test("a PEM key with headers and a PGP block are redacted as a whole", () => {
  const headers = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123ABCD\n\n";
  assert.equal(
    redact(`-----BEGIN RSA PRIVATE KEY-----\n${headers}${pemBody}-----END RSA PRIVATE KEY-----`),
    MASK,
  );
  const pgp = `-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n${pemBody}-----END PGP PRIVATE KEY BLOCK-----`;
  assert.equal(redact(pgp), MASK);
});

test("text that only resembles a credential is kept", () => {
  for (const text of [
    "Basic authentication and bearer authentication are described in RFC 7617.",
    "basic functionality, BASIC UNDERSTANDING, basic well-known.configuration.",
    "The risk-based task-force asked for sk-learn.",
    "ghp_short npm_config AKIA AIza eyJ eyJhbGci.x.y",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "https://example.com:8080/a@b http://[::1]:8642/ mailto:a@b.c",
    "at file:///src/a.ts:10:3 and node:internal/x:1@2",
    "xoxo hugs, 12:34@noon, skin-care-routine-for-everyone",
    "f81d4fae-7dec-11d0-a765-00a0c91e6bf6 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
  ]) {
    assert.equal(redact(text), text);
  }
});

test("text that merely mentions a private key's header is kept", () => {
  const code = 'if (text.startsWith("-----BEGIN PRIVATE KEY-----")) throw new Error("no keys, please");';
  assert.equal(redact(code), code.replace(/-----BEGIN.*?KEY-----/, MASK));
});

test("hostile text of a megabyte is handled at once", () => {
  const hostile = [
    "-eyJ",
    "eyJaaaaaaaaaaaa.",
    "-----BEGIN PRIVATE KEY-----",
    `-----BEGIN PRIVATE KEY-----${"x".repeat(100)}!`,
    "-----BEGIN ",
    "bearer ",
    `basic${" ".repeat(200)}`,
    `basic ${"a.".repeat(2000)}1 `,
    "aa://",
    `aa://a:${"b".repeat(250)}`,
    "-sk",
    "xoxb-",
  ];
  // A search that is not linear takes seconds to minutes for each of these.
  for (const piece of hostile) {
    const text = piece.repeat(Math.ceil(1_000_000 / piece.length));
    assert.equal(typeof redact(text), "string");
  }
});

test("redacting what is redacted changes nothing", () => {
  for (const value of [...Object.values(shapes), "Bearer abcDEF123456789", "postgres://a:bcd@e"]) {
    assert.equal(redact(redact(value)), redact(value));
  }
});

test("redactValue masks strings under secret names, at every depth, and copies the rest", () => {
  const value = {
    password: "x",
    db_password: "x",
    API_KEY: "x",
    apiKey: "x",
    "x-api-key": "x",
    access_token: "x",
    client_secret: "x",
    privateKey: "x",
    nested: [{ passwd: "x", note: `a ${shapes["a GitHub token"]} b` }],
    password_hint: "stays",
    max_tokens: 5,
    secretary: "Ann",
    nothing: null,
    yes: true,
  };
  const before = structuredClone(value);
  const clean = redactValue(value) as Record<string, unknown>;
  for (const name of ["password", "db_password", "API_KEY", "apiKey", "x-api-key", "access_token"]) {
    assert.equal(clean[name], MASK, name);
  }
  assert.equal(clean["client_secret"], MASK);
  assert.equal(clean["privateKey"], MASK);
  assert.deepEqual(clean["nested"], [{ passwd: MASK, note: `a ${MASK} b` }]);
  assert.partialDeepStrictEqual(clean, { password_hint: "stays", max_tokens: 5, secretary: "Ann" });
  assert.partialDeepStrictEqual(clean, { nothing: null, yes: true });
  assert.deepEqual(value, before);
});

test("redactValue keeps an object with a hostile name an object of the same names", () => {
  const value = JSON.parse('{"__proto__":{"password":"x"},"constructor":"y"}');
  const clean = redactValue(value) as object;
  assert.deepEqual(Object.keys(clean), ["__proto__", "constructor"]);
  assert.equal(Object.getPrototypeOf(clean), Object.prototype);
});

test("a known secret inside a longer credential leaves nothing of the credential", (t) => {
  registerSecret("abcdefgh");
  t.after(() => forgetSecret("abcdefgh"));
  assert.equal(redact("key sk-proj-0123456789abcdefghijklmnop, abcdefgh"), `key ${MASK}, ${MASK}`);
});
