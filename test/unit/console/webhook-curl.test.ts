import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { curlOf, type CurlRequest } from "../../../src/console/pages/webhooks/curl.ts";

const SECRETS = [{ fingerprint: "0123456789ab", from: "inline", expires_at: null }] as const;
const ROUTE: CurlRequest["route"] = {
  name: "pushes",
  url: "http://127.0.0.1:8644/webhooks/pushes",
  auth: "signature",
  scheme: "auto",
  secrets: [...SECRETS],
};

/** Runs the command in a shell in which curl prints its arguments, one a line. */
function argumentsOf(command: string): readonly string[] {
  const script = `curl() { for each in "$@"; do printf '%s\\0' "$each"; done; }\n${command}`;
  return execFileSync("sh", ["-c", script], { encoding: "utf8" }).split("\0").slice(0, -1);
}

test("the command signs the body as GitHub does", () => {
  const sent = argumentsOf(curlOf({ route: ROUTE, event: "push", body: '{"a":1}', secret: "s" }));
  assert.ok(sent.includes(ROUTE.url!));
  assert.ok(sent.includes("x-github-event: push"));
  // printf '{"a":1}' | openssl dgst -sha256 -hmac s
  assert.ok(
    sent.includes(
      "x-hub-signature-256: sha256=37beaf650f70b40ec9706929c2e9d835cbd63729988f48781e6383a147215f07",
    ),
  );
  assert.equal(sent.at(-1), '{"a":1}');
});

test("quotes, dollars and backticks of a sender are sent as they are, and run nothing", () => {
  const body = `{"a": "it's $(touch /tmp/never) \`id\` $HOME \\ \\n"}`;
  const event = "push'; touch /tmp/never; '";
  const headers = { "x-note": "$(id) 'quoted'" };
  const sent = argumentsOf(curlOf({ route: ROUTE, event, body, headers, secret: "it's" }));
  assert.equal(sent.at(-1), body);
  assert.ok(sent.includes(`x-github-event: ${event}`));
  assert.ok(sent.includes("x-note: $(id) 'quoted'"));
});

test("headers of one request, and redacted ones, are left out", () => {
  const headers = {
    host: "example.org",
    "content-length": "12",
    "x-hub-signature-256": "[redacted]",
    "x-github-delivery": "1",
    "x-gitlab-token": "[redacted]",
    "x-github-event": "issues",
    "content-type": "application/json",
  };
  const command = curlOf({ route: ROUTE, event: "issues", body: "{}", headers });
  assert.ok(!/example\.org|content-length|redacted|x-github-delivery/.test(command), command);
  assert.equal(command.split("x-github-event").length, 2);
});

test("a route is sent its secret as it wants it", () => {
  const to = (auth: string) =>
    argumentsOf(curlOf({ route: { ...ROUTE, auth }, event: "e", body: "{}", secret: "s3" }));
  assert.ok(to("bearer").includes("authorization: Bearer s3"));
  assert.ok(to("basic").includes("sender:s3"));
  assert.ok(to("path").includes(`${ROUTE.url}/s3`));
  const open = argumentsOf(curlOf({ route: { ...ROUTE, secrets: [] }, event: "e", body: "{}" }));
  assert.ok(!open.some((each) => /signature|authorization/.test(each)));
});

test("for a scheme of its own, or without a receiver, agentd signs the request", () => {
  const command = curlOf({ route: { ...ROUTE, scheme: "stripe" }, event: "e", body: "{}" });
  assert.equal(command, "agentd webhook test pushes --event 'e' --payload '{}'");
  assert.match(
    curlOf({ route: { ...ROUTE, url: null }, event: "e", body: "{}" }),
    /^agentd webhook test pushes/,
  );
});
