import assert from "node:assert/strict";
import { test } from "node:test";
import { checkServers, serverSecrets } from "../../../src/acp/session/attach.ts";

const entry = (name: string, value: string) => ({ name, value });
const stdio = (...env: { name: string; value: string }[]) => ({ name: "s", command: "sh", args: [], env });
const http = (...headers: { name: string; value: string }[]) => ({
  type: "http" as const,
  name: "s",
  url: "https://example.com/mcp",
  headers,
});

test("secrets are recognized by their names and by random-looking values", () => {
  const random = "Zm9vYmFyMTIzNDU2Nzg5MGFiY2Q";
  const secrets = serverSecrets(
    stdio(
      entry("GITHUB_TOKEN", "t1"),
      entry("DB_PASSWORD", "p1"),
      entry("GH_PAT", "p2"),
      entry("PLAIN", random),
      entry("SSH_AUTH_SOCK", "/tmp/ssh-1/agent.2"),
      entry("PATH", "/usr/local/bin:/usr/bin"),
      entry("HOME", "/home/anna"),
      entry("REGION", "eu-central-1-frankfurt-zone-b"),
    ),
  );
  assert.deepEqual(secrets, ["t1", "p1", "p2", random]);
});

test("all headers except protocol headers are secrets, also the part after a scheme", () => {
  const secrets = serverSecrets(
    http(
      entry("Authorization", "Bearer abc"),
      entry("X-Whatever", "def"),
      entry("Content-Type", "application/json"),
      entry("accept-language", "en"),
    ),
  );
  assert.deepEqual(secrets, ["Bearer abc", "abc", "def"]);
});

test("servers of unsupported types, invalid URLs and too many servers are rejected by name", () => {
  const url = "http://127.0.0.1:1/";
  assert.throws(() => checkServers([{ type: "acp", name: "own", serverId: "1" }]), /own .*acp/);
  assert.throws(() => checkServers([{ ...http(), name: "file", url: "file:///etc" }]), /url .*file/);
  assert.throws(() => checkServers(Array.from({ length: 33 }, () => stdio())), /at most 32/);
  assert.equal(checkServers([http(), stdio(), { type: "sse", name: "old", url, headers: [] }]).length, 3);
});

test("metadata of a server does not change its identity", () => {
  const _meta = { traceparent: "00-1" };
  const told = [
    { ...stdio({ ...entry("A", "1"), _meta } as never), _meta },
    { ...http({ ...entry("B", "2"), _meta } as never), _meta },
  ];
  assert.deepEqual(checkServers(told), [stdio(entry("A", "1")), http(entry("B", "2"))]);
});
