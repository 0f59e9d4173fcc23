import assert from "node:assert/strict";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Skills } from "../../../../src/agent/skills/skills.ts";
import { ToolError } from "../../../../src/agent/tool/tool.ts";
import { createSkill } from "../../../../src/agent/tools/skill.ts";
import { call, workspace } from "./call.ts";

function made(t: { after(clean: () => void): void }) {
  const [cwd, home] = [workspace(t), workspace(t)];
  const folder = join(home, "deploy");
  mkdirSync(folder);
  writeFileSync(
    join(folder, "SKILL.md"),
    "---\nname: deploy\ndescription: Ships it\nrequired_variables:\n  - A_TOKEN\n  - { name: B_TOKEN, prompt: The B }\n---\nRun ./ship.sh\n",
  );
  writeFileSync(join(folder, "more.md"), "the rest");
  symlinkSync("/etc/passwd", join(folder, "link"));
  return { cwd, folder, tool: createSkill(new Skills({ homeFolder: home, folders: [], disabled: [] })) };
}

const noneSet = { has: () => false, share: () => {}, shared: () => ({}) };

test("list names the skills, view returns the instructions and the folder", async (t) => {
  const { cwd, folder, tool } = made(t);
  assert.equal(await call(tool, { action: "list" }, { cwd }), "deploy: Ships it");
  const text = await call(
    tool,
    { action: "view", name: "deploy" },
    { cwd, context: { variables: { ...noneSet, has: () => true } } },
  );
  assert.ok(text.includes(folder) && text.includes("Run ./ship.sh") && !text.includes("description:"));
});

test("missing variables are asked for, set ones are shared, and no value is revealed", async (t) => {
  const { cwd, tool } = made(t);
  const asked: unknown[] = [];
  const shared: string[] = [];
  const text = await call(
    tool,
    { action: "view", name: "deploy" },
    {
      cwd,
      context: {
        variables: {
          has: (name) => name === "A_TOKEN",
          share: (name) => void shared.push(name),
          shared: () => ({}),
        },
        questions: {
          clarify: () => Promise.reject(new Error("no")),
          sudo: () => Promise.reject(new Error("no")),
          secret: async (wanted) => (asked.push(wanted), "stored"),
        },
      },
    },
  );
  assert.deepEqual(asked, [{ prompt: "The B", envVar: "B_TOKEN" }]);
  assert.deepEqual(shared, ["A_TOKEN", "B_TOKEN"]);
  assert.match(text, /A_TOKEN is set.*B_TOKEN is stored/);
});

test("when the question cannot be asked the skill is shown with its missing variables", async (t) => {
  const { cwd, tool } = made(t);
  const nobody = async () => Promise.reject(new ToolError("nobody"));
  const questions = { clarify: nobody, sudo: nobody, secret: nobody };
  const text = await call(
    tool,
    { action: "view", name: "deploy" },
    { cwd, context: { variables: noneSet, questions } },
  );
  assert.match(text, /A_TOKEN is missing; B_TOKEN is missing/);
  assert.match(text, /Run .\/ship.sh/);
});

test("another file of the skill is shown, and none outside its folder", async (t) => {
  const { cwd, tool } = made(t);
  const view = (file: string) => call(tool, { action: "view", name: "deploy", file }, { cwd });
  assert.equal(await view("more.md"), "the rest");
  for (const file of ["../../etc/passwd", "/etc/passwd", "link", "absent.md"]) {
    await assert.rejects(view(file), /has no file/);
  }
});

test("an unknown or missing name is reported", async (t) => {
  const { cwd, tool } = made(t);
  await assert.rejects(call(tool, { action: "view", name: "nope" }, { cwd }), ToolError);
  await assert.rejects(call(tool, { action: "view" }, { cwd }), /needs name/);
});
