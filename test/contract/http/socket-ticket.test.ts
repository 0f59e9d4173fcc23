import assert from "node:assert/strict";
import { scenario } from "../../harness/scenario.ts";

scenario("createSocketTicket", 201, { title: "returns a ticket that works for 30 s" }, async (service) => {
  const ask = () => service.request("/api/auth/ws-ticket", { method: "POST" });
  const [one, other] = await Promise.all([ask(), ask()]);
  assert.equal(one.status, 201);
  const { ticket, expires_in: seconds } = await one.json();
  assert.match(ticket, /^[\w-]{43}$/);
  assert.equal(seconds, 30);
  assert.notEqual((await other.json()).ticket, ticket);
});
