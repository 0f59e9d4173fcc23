import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { SpecError } from "../../../scripts/lib/document.ts";
import { emitAcp, readAcpSpec, type AcpSpec } from "../../../scripts/lib/emit-acp.ts";
import { acpReference } from "../../../scripts/lib/reference-acp.ts";
import { printMarkdown } from "../../../scripts/lib/reference-markdown.ts";

const SPEC = `
protocolVersion: 1
title: thing
agentCapabilities: { loadSession: true }
authMethods: { key: { id: key, name: Key, description: Looks for a key. } }
requests: [initialize, session/new]
notifications: [session/cancel]
extensions: [_thing/do]
docs:
  methods: { session/new: Begins \`one\`., session/load: Is not claimed. }
  client: { session/update: As it comes. }
  errors: [{ code: -32002, when: No such session., data: "{sessionId}" }]
`;

async function read(text: string): Promise<AcpSpec | undefined> {
  const folder = await mkdtemp(join(tmpdir(), "agentd-acp-spec-"));
  try {
    await writeFile(join(folder, "acp.yaml"), text);
    return await readAcpSpec(join(folder, "acp.yaml"));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function valid(): Promise<AcpSpec> {
  const spec = await read(SPEC);
  assert.ok(spec);
  return spec;
}

test("the constant has what is claimed, and nothing of the documentation", async () => {
  const source = emitAcp(await valid());
  assert.match(source, /requests: \["initialize", "session\/new"\]/);
  assert.doesNotMatch(source, /docs|Begins/);
});

test("the reference has every claimed method, and no line of one that is not", async () => {
  const text = printMarkdown(acpReference(await valid(), "1.0.0"));
  for (const row of [
    "| `initialize` | request |  |",
    "| `session/new` | request | Begins `one`. |",
    "| `session/cancel` | notification |  |",
    "| `_thing/do` | extension |  |",
    "| `session/update` | As it comes. |",
    "| `key` | `agent` | Looks for a key. |",
    "| `-32002` | No such session. | `{sessionId}` |",
  ]) {
    assert.ok(text.includes(row), `${row}\nis not in\n${text}`);
  }
  assert.doesNotMatch(text, /not claimed/);
});

test("what is missing is named, and a missing spec claims nothing", async () => {
  await assert.rejects(read("title: thing\n"), (error) => {
    assert.ok(error instanceof SpecError);
    assert.match(error.message, /acp\.yaml: requests is missing/);
    return true;
  });
  assert.equal(await readAcpSpec(join(tmpdir(), "no such folder", "acp.yaml")), undefined);
});
