import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceError } from "../../../src/base/errors.ts";
import { Cors } from "../../../src/http/edge/access.ts";

const PAGE = "https://app.example";
const of = (headers: Record<string, string>) => new Headers({ host: "127.0.0.1:8642", ...headers });
const refused = (error: unknown) => error instanceof ServiceError && error.code === "origin_not_allowed";
const preflightOf = (more: Record<string, string> = {}) =>
  of({ origin: PAGE, "access-control-request-method": "POST", ...more });

describe("CORS that is off", () => {
  const off = new Cors({ origins: [], requiresKey: true });

  it("adds no header, refuses no origin and answers no preflight", () => {
    for (const origin of [PAGE, "null", "http://127.0.0.1:8642"]) {
      assert.deepEqual(off.headers(of({ origin })), {});
      off.check(of({ origin }));
    }
    assert.equal(off.preflight("OPTIONS", preflightOf()), undefined);
  });

  it("accepts only its own pages while keys are off", () => {
    const open = new Cors({ origins: [], requiresKey: false });
    open.check(of({}));
    open.check(of({ origin: "http://127.0.0.1:8642" }));
    for (const origin of [PAGE, "null", "http://127.0.0.1", "http://127.0.0.1:9999", "file://", ""]) {
      assert.throws(() => open.check(of({ origin })), refused, origin);
    }
    assert.deepEqual(open.headers(of({ origin: PAGE })), {});
  });
});

describe("CORS for named origins", () => {
  const cors = new Cors({ origins: [PAGE, "HTTP://Other.example:80"], requiresKey: true });

  it("accepts a listed page and exposes the headers it may read", () => {
    const headers = cors.headers(of({ origin: PAGE }));
    cors.check(of({ origin: PAGE }));
    assert.equal(headers["access-control-allow-origin"], PAGE);
    assert.equal(headers["vary"], "Origin");
    const exposed = headers["access-control-expose-headers"]?.split(", ") ?? [];
    for (const name of ["X-Request-Id", "X-Agent-Run-Id", "X-Agent-Session-Id", "X-Agent-Session-Key"]) {
      assert.ok(exposed.includes(name), name);
    }
    for (const name of ["X-Agent-Model", "Idempotency-Replayed", "Retry-After", "x-should-retry"]) {
      assert.ok(exposed.includes(name), name);
    }
  });

  it("never allows credentials", () => {
    for (const origins of [[PAGE], ["*"]]) {
      const each = new Cors({ origins, requiresKey: true });
      for (const headers of [
        each.headers(of({ origin: PAGE })),
        each.preflight("OPTIONS", preflightOf()) ?? {},
      ])
        assert.ok(!("access-control-allow-credentials" in headers));
    }
  });

  it("normalizes configured origins as browsers write them", () => {
    cors.check(of({ origin: "http://other.example" }));
    assert.equal(
      cors.headers(of({ origin: "http://other.example" }))["access-control-allow-origin"],
      "http://other.example",
    );
  });

  for (const origin of [
    "https://app.example.evil",
    "https://evil-app.example",
    "http://app.example",
    "https://app.example:8443",
    "https://app.example/",
    "null",
    "*",
    "",
  ]) {
    it(`refuses ${JSON.stringify(origin)} and sends its browser only Vary`, () => {
      assert.throws(() => cors.check(of({ origin })), refused);
      assert.deepEqual(cors.headers(of({ origin })), { vary: "Origin" });
    });
  }

  it("accepts programs, which send no origin, and pages of the server itself", () => {
    cors.check(of({}));
    cors.check(of({ origin: "http://127.0.0.1:8642" }));
    cors.check(of({ origin: "https://agent.example", host: "Agent.example" }));
  });

  it("truncates a long origin in the error", () => {
    const origin = `https://${"x".repeat(5000)}`;
    assert.throws(
      () => cors.check(of({ origin })),
      (error: Error) => error.message.length < 500,
    );
  });
});

describe("CORS for all origins", () => {
  it("answers any page with *", () => {
    const all = new Cors({ origins: ["*"], requiresKey: true });
    for (const origin of [PAGE, "null", "http://x"]) {
      all.check(of({ origin }));
      assert.equal(all.headers(of({ origin }))["access-control-allow-origin"], "*");
    }
  });
});

describe("a preflight", () => {
  const cors = new Cors({ origins: [PAGE, "*"], requiresKey: true });

  it("of any page gets the methods, the cache time, and the headers that OpenAI's clients set", () => {
    const asked =
      "Authorization,content-type, X-Agent-Session-Id,x-stainless-lang,cookie, x-evil,x-agent-,idempotency-key, last-event-id,x-request-id,authorization,user-agent,openai-beta,openai-organization,http-referer,x-title,x-agent-\r";
    const headers = cors.preflight(
      "OPTIONS",
      preflightOf({ "access-control-request-headers": asked.trim(), origin: "https://other.example" }),
    );
    assert.deepEqual(headers, {
      "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE, OPTIONS",
      "access-control-allow-headers":
        "authorization, content-type, x-agent-session-id, x-stainless-lang, idempotency-key, last-event-id, x-request-id, user-agent, openai-beta, openai-organization, http-referer, x-title",
      "access-control-allow-private-network": undefined,
      "access-control-max-age": "600",
    });
  });

  it("of a listed page gets every well-formed header that it asks for", () => {
    const asked = { "access-control-request-headers": "x-custom, user-agent,bad name,, x-custom" };
    const headers = cors.preflight("OPTIONS", preflightOf(asked));
    assert.equal(headers?.["access-control-allow-headers"], "x-custom, user-agent");
  });

  it("without requested headers gets none", () => {
    assert.equal(cors.preflight("OPTIONS", preflightOf())?.["access-control-allow-headers"], undefined);
  });

  it("needs the OPTIONS method, an origin and a requested method", () => {
    assert.equal(cors.preflight("GET", preflightOf()), undefined);
    assert.equal(cors.preflight("OPTIONS", of({ origin: PAGE })), undefined);
    assert.equal(cors.preflight("OPTIONS", of({ "access-control-request-method": "POST" })), undefined);
  });

  it("from a public page reaches a private network only for listed origins", () => {
    const questions = { "access-control-request-private-network": "true" };
    const name = "access-control-allow-private-network";
    assert.equal(cors.preflight("OPTIONS", preflightOf(questions))?.[name], "true");
    assert.equal(cors.preflight("OPTIONS", preflightOf())?.[name], undefined);
    const other = preflightOf({ ...questions, origin: "https://other.example" });
    assert.equal(cors.preflight("OPTIONS", other)?.[name], undefined);
  });
});
