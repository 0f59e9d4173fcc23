import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeClock } from "../../harness/fake-clock.ts";
import { ServiceError } from "../../../src/base/errors.ts";
import { Tickets } from "../../../src/config/keys.ts";
import { admit, isGatewayPath, type AdmissionRules } from "../../../src/rpc/connection/admission.ts";
import type { RpcIdentity } from "../../../src/rpc/deps.ts";

const KEY = "key-0123456789abcdef";
const clock = new FakeClock();

function rules(more: Partial<AdmissionRules> = {}): AdmissionRules {
  return {
    keys: {
      required: true,
      find: (presented) => (presented === KEY ? { name: "ann", scopes: ["chat"] } : undefined),
    },
    tickets: new Tickets<RpcIdentity>(clock),
    hosts: ["127.0.0.1", "localhost"],
    origins: [],
    ...more,
  };
}

function attempt(target: string, headers: Record<string, string> = {}, from = rules()): string {
  const all = new Headers({ host: "127.0.0.1:8642", ...headers });
  try {
    return (admit({ target, header: (name) => all.get(name) }, from) as RpcIdentity).owner;
  } catch (error) {
    assert.ok(error instanceof ServiceError);
    return error.code;
  }
}

test("the gateway has exactly two paths", () => {
  for (const path of ["/api/ws", "/v1/tui/ws", "/api/ws?token=x"]) assert.ok(isGatewayPath(path), path);
  for (const path of ["/", "/api/wsx", "/api/ws/", "/x/api/ws"]) assert.ok(!isGatewayPath(path), path);
});

test("a key is read from the header or the query", () => {
  assert.equal(attempt("/api/ws", { authorization: `Bearer ${KEY}` }), "ann");
  assert.equal(attempt(`/api/ws?token=${KEY}`), "ann");
  assert.equal(attempt("/api/ws"), "missing_api_key");
  assert.equal(attempt("/api/ws?token="), "missing_api_key");
  assert.equal(attempt("/api/ws?token=wrong"), "invalid_api_key");
  assert.equal(attempt("/api/ws", { authorization: "Bearer wrong" }), "invalid_api_key");
});

test("a ticket works once, within 30 s", () => {
  const from = rules();
  const holder = { owner: "bob", scopes: ["chat"] };
  const { ticket, lifeMs } = from.tickets.make(holder);
  assert.equal(lifeMs, 30_000);
  assert.equal(attempt(`/api/ws?ticket=${ticket}`, {}, from), "bob");
  assert.equal(attempt(`/api/ws?ticket=${ticket}`, {}, from), "invalid_api_key");
  const late = from.tickets.make(holder).ticket;
  clock.tick(30_000);
  assert.equal(attempt(`/api/ws?ticket=${late}`, {}, from), "invalid_api_key");
  assert.equal(attempt("/api/ws?ticket=", {}, from), "invalid_api_key");
});

test("an attempt uses up its ticket, even when it is refused", () => {
  const wrong: Record<string, string>[] = [{ origin: "https://evil.example" }, { host: "evil.example" }];
  for (const headers of wrong) {
    const from = rules();
    const { ticket } = from.tickets.make({ owner: "bob", scopes: ["chat"] });
    const target = `/api/ws?ticket=${ticket}`;
    assert.match(attempt(target, headers, from), /^(?:origin|host)_not_allowed$/);
    assert.equal(attempt(target, {}, from), "invalid_api_key");
  }
});

test("the number of open tickets is limited; the oldest is dropped", () => {
  const tickets = new Tickets<number>(clock);
  const made = Array.from({ length: 1025 }, (_, n) => tickets.make(n).ticket);
  assert.equal(tickets.take(made[0]!), undefined);
  assert.equal(tickets.take(made[1]!), 1);
  assert.equal(tickets.take(made[1024]!), 1024);
});

test("the host must be a name of this server, whatever the key", () => {
  const authorization = `Bearer ${KEY}`;
  for (const host of ["evil.example", "127.0.0.1.evil.example:8642", ""]) {
    assert.equal(attempt("/api/ws", { authorization, host }), "host_not_allowed", host);
  }
  assert.equal(attempt("/api/ws", { authorization, host: "LOCALHOST:1" }), "ann");
  assert.equal(
    attempt("/api/ws", { authorization, host: "any.example" }, rules({ hosts: undefined })),
    "ann",
  );
});

test("a page may connect from this server or from a listed origin", () => {
  const authorization = `Bearer ${KEY}`;
  const from = rules({ origins: ["https://app.example"] });
  for (const origin of ["http://127.0.0.1:8642", "https://app.example"]) {
    assert.equal(attempt("/api/ws", { authorization, origin }, from), "ann", origin);
  }
  for (const origin of [
    "null",
    "http://127.0.0.1:9",
    "https://app.example.evil",
    "file://",
    "http://localhost:8642",
  ]) {
    assert.equal(attempt("/api/ws", { authorization, origin }, from), "origin_not_allowed", origin);
  }
  assert.equal(attempt("/api/ws", { authorization, origin: "null" }, rules({ origins: ["null"] })), "ann");
});

test("without keys, every local client connects, and foreign pages do not", () => {
  const from = rules({ keys: { required: false, find: () => undefined } });
  assert.equal(attempt("/api/ws", {}, from), "anonymous");
  assert.equal(attempt("/api/ws", { origin: "https://evil.example" }, from), "origin_not_allowed");
});
