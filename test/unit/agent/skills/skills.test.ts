import assert from "node:assert/strict";
import { mkdirSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import {
  bundledSkillsFolder,
  readSkillText,
  Skills,
  skillsIntroduction,
} from "../../../../src/agent/skills/skills.ts";
import { subscribeCommand } from "../../../../src/cli/webhook/subscribe.ts";
import { testCommand } from "../../../../src/cli/webhook/test.ts";
import { workspace } from "../tools/call.ts";

function put(root: string, folder: string, text: string | Uint8Array): string {
  const path = join(root, folder);
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, "SKILL.md"), text);
  return path;
}

const skill = (name: string, description = `About ${name}`) =>
  `---\nname: ${name}\ndescription: ${description}\n---\n# ${name}\nDo it.\n`;

function rooms(t: { after(clean: () => void): void }) {
  const [cwd, home, extra] = [workspace(t), workspace(t), workspace(t)];
  const make = (disabled: readonly string[] = []) =>
    new Skills({ homeFolder: home, folders: [extra], disabled });
  return { cwd, home, extra, make };
}

test("the project's skill wins over a configured folder's, and that over the home's", async (t) => {
  const { cwd, home, extra, make } = rooms(t);
  put(home, "a", skill("a", "home"));
  put(home, "b", skill("b", "home"));
  put(home, "c", skill("c", "home"));
  put(extra, "a", skill("a", "extra"));
  put(extra, "b", skill("b", "extra"));
  put(join(cwd, ".agents/skills"), "a", skill("a", "project"));
  const { skills, problems } = await make().list(cwd);
  assert.deepEqual(
    skills.map(({ name, description }) => [name, description]),
    [
      ["a", "project"],
      ["b", "extra"],
      ["c", "home"],
    ],
  );
  assert.deepEqual(problems, []);
});

test("folders of skills are searched, and disabled skills are not offered", async (t) => {
  const { cwd, home, make } = rooms(t);
  put(home, "git/rebase", skill("rebase"));
  put(home, "plain", skill("plain"));
  const found = await make(["plain"]).list(cwd);
  assert.deepEqual(
    found.skills.map(({ name }) => name),
    ["rebase"],
  );
});

const broken: readonly (readonly [string, string | Uint8Array, RegExp])[] = [
  ["no front matter", "# Just text\n", /front matter .* is missing/],
  ["front matter without an end", "---\nname: x\n", /front matter .* is missing/],
  ["front matter that is not YAML", "---\nname: [\n---\n", /not YAML/],
  ["front matter that is a list", "---\n- a\n---\n", /keys and values/],
  ["an invalid name", "---\nname: ../x\ndescription: d\n---\n", /name must be/],
  ["no description", "---\nname: x\n---\n", /description is missing/],
  ["invalid variables", "---\nname: x\ndescription: d\nrequired_variables: [1]\n---\n", /required_variables/],
  ["bytes that are not text", new Uint8Array([0x2d, 0xff, 0xfe]), /not UTF-8/],
  ["more than 256 KiB", `${skill("x")}${"y".repeat(300_000)}`, /limit is 262144/],
  ["an alias bomb", `---\na: &a [1,1]\nname: x\ndescription: d\nb: [*a,*a]\n---\n`, /not YAML/],
];
for (const [what, text, message] of broken) {
  test(`a skill with ${what} is reported as a problem and hides no other skill`, async (t) => {
    const { cwd, home, make } = rooms(t);
    put(home, "bad", text);
    put(home, "good", skill("good"));
    const { skills, problems } = await make().list(cwd);
    assert.deepEqual(
      skills.map(({ name }) => name),
      ["good"],
    );
    assert.equal(problems.length, 1);
    assert.match(problems[0]?.message ?? "", message);
    assert.match(problems[0]?.path ?? "", /bad$/);
  });
}

test("a link that leads out of its folder is not a skill", async (t) => {
  const { cwd, home, extra, make } = rooms(t);
  put(workspace(t), "x", skill("outside"));
  const outside = workspace(t);
  put(outside, "secret", skill("secret"));
  symlinkSync(join(outside, "secret"), join(home, "link"));
  put(extra, "fine", skill("fine"));
  symlinkSync(join(extra, "fine"), join(extra, "same"));
  const { skills } = await make().list(cwd);
  assert.deepEqual(
    skills.map(({ name }) => name),
    ["fine"],
  );
});

test("a changed file is read again", async (t) => {
  const { cwd, home, make } = rooms(t);
  const path = put(home, "a", skill("a", "one"));
  const skills = make();
  assert.equal((await skills.find("a", cwd))?.description, "one");
  put(home, "a", skill("a", "two"));
  utimesSync(join(path, "SKILL.md"), 1, 1);
  assert.equal((await skills.find("a", cwd))?.description, "two");
});

test("missing folders contain no skills", async () => {
  const skills = new Skills({ homeFolder: "/nowhere/skills", folders: ["/nowhere/too"], disabled: [] });
  assert.deepEqual(await skills.list("/nowhere/at/all"), { skills: [], problems: [] });
  assert.equal(skillsIntroduction([]), "");
});

test("the introduction is bounded and says how many skills it omits", () => {
  const many = Array.from({ length: 300 }, (_, n) => ({
    name: `s${n}`,
    description: "x".repeat(100),
    path: "/",
    requiredVariables: [],
  }));
  const text = skillsIntroduction(many);
  assert.ok(text.length < 9_000);
  assert.match(text, /\(2\d\d more/);
});

test("bundled skills are found from the source, after a user's own of the same name", async (t) => {
  const { cwd, home } = rooms(t);
  const bundledFolder = bundledSkillsFolder();
  const skills = new Skills({ homeFolder: home, folders: [], bundledFolder, disabled: [] });
  const found = await skills.list(cwd);
  assert.deepEqual(found.problems, []);
  assert.ok(found.skills.some(({ name }) => name === "webhook-subscriptions"));
  put(home, "own", skill("webhook-subscriptions", "mine"));
  assert.equal((await skills.find("webhook-subscriptions", cwd))?.description, "mine");
  const off = new Skills({
    homeFolder: home,
    folders: [],
    bundledFolder,
    disabled: ["webhook-subscriptions"],
  });
  assert.equal(await off.find("webhook-subscriptions", cwd), undefined);
});

test("the skill about webhooks names only existing commands and options", async () => {
  const text = await readSkillText(join(bundledSkillsFolder() ?? "", "webhook-subscriptions"));
  const known = { ...subscribeCommand.args, ...testCommand.args };
  const options = new Set(Array.from(text.matchAll(/(?<![\w-])--([a-z]+[a-z-]*)/g), ([, name = ""]) => name));
  const missing = [...options].filter((name) => !(name in known) && !["route", "help"].includes(name));
  assert.deepEqual(missing, []);
  assert.ok(options.size >= 10);
});
