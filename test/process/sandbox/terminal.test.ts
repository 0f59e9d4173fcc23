/** The terminal tool in the real sandbox: what it tells the model, and how a command gets out of it. */
import { strict as assert } from "node:assert";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, describe, it } from "node:test";
import type { ToolIntent } from "../../../src/agent/tool/tool.ts";
import { decide } from "../../../src/agent/question/policy/policy.ts";
import { Processes } from "../../../src/agent/tools/process/processes.ts";
import { createTerminal } from "../../../src/agent/tools/process/terminal.ts";
import { findSandbox } from "../../../src/exec/sandbox/sandbox.ts";
import { SandboxRequiredError, SandboxService } from "../../../src/exec/sandbox/service.ts";
import { callWhole, inspect } from "../../unit/agent/tools/call.ts";

const found = await findSandbox();
const skip = found.sandbox ? false : "bubblewrap does not work here";

describe("the terminal tool in the sandbox", { skip }, () => {
  let root: string;
  let cwd: string;
  let service: SandboxService;
  before(async () => {
    root = await realpath(await mkdtemp(join(existsSync("/srv") ? "/srv" : tmpdir(), "agentd-terminal-")));
    cwd = join(root, "home/workspace");
    await mkdir(cwd, { recursive: true });
    await mkdir(join(root, "user"));
    await writeFile(join(root, "home/.env"), "API_KEY=agentd-canary\n");
    service = await SandboxService.start(optionsOf(root));
  });
  after(async () => {
    await service.close();
    await rm(root, { recursive: true, force: true });
  });
  const tool = () =>
    createTerminal({
      timeoutMs: 30_000,
      maxOutputBytes: 20_000,
      envPassthrough: [],
      sandbox: service,
    });
  const run = (input: object, context = {}) => callWhole(tool(), input, { cwd, context });
  const decisionOn = (input: object, mode: "ask" | "plan" = "ask") =>
    decide(
      inspect(tool(), input, cwd) as ToolIntent,
      {
        workspace: cwd,
        home: join(root, "user"),
        agentHome: join(root, "home"),
        mode: "ask",
        ...(mode === "plan" ? { sessionMode: "plan" } : {}),
      },
      "terminal",
    );

  it("a command changes the workspace and cannot see the keys", async () => {
    const { text } = await run({ command: "echo made > file; read P <<< ../.env; base64 $P; ls -A .." });
    assert.equal(await readFile(join(cwd, "file"), "utf8"), "made\n");
    assert.doesNotMatch(text, /QVBJX0tFWT1/);
    assert.match(text, /workspace/);
    assert.doesNotMatch(text, /\.env\n/);
  });

  it("a command that the sandbox stopped says what was stopped and how to go on", async () => {
    const outside = await run({ command: `touch ${root}/outside` });
    assert.match(outside.text, /The sandbox stopped writing .*\/outside, outside the workspace\./);
    assert.match(outside.text, /`outside_sandbox`/);
    assert.equal(existsSync(join(root, "outside")), false);
    const network = await run({ command: "curl -sS http://example.com" });
    assert.match(network.text, /The sandbox stopped the network\./);
  });

  it("a command that the sandbox stopped says which path it could not read or write", async () => {
    const file = `${root}/outside`;
    const errors = {
      "a shell": `echo x > ${file}`,
      Python: `python3 -c 'open("${file}", "w")'`,
      Node: `node -e 'require("fs").writeFileSync("${file}", "")'`,
      mkdir: `LC_ALL=C.UTF-8 mkdir ${file}`,
    };
    for (const [program, command] of Object.entries(errors)) {
      const { text } = await run({ command });
      assert.ok(text.includes(`writing ${file}, outside the workspace`), `${program}: ${text}`);
    }
    const secret = join(root, "home/.env");
    const { text } = await run({ command: `cat ${secret} ${cwd}/missing` });
    assert.ok(text.includes(`The sandbox stopped reading ${secret}, which is hidden.`), text);
  });

  it("a folder that the command must change needs an approval that covers this folder", async () => {
    const folder = join(root, "elsewhere");
    await mkdir(folder);
    const input = {
      command: `echo made > ${folder}/file; echo x > ${root}/other`,
      writable_folders: [folder],
    };
    const decision = decisionOn(input);
    assert.deepEqual(
      [decision.outcome, decision.signature, decision.remember],
      ["ask", `command:folder ${folder}`, "always"],
    );
    await run(input, { approvedPaths: [folder] });
    assert.equal(await readFile(join(folder, "file"), "utf8"), "made\n");
    assert.equal(existsSync(join(root, "other")), false);
    assert.equal(decisionOn({ command: "ls", writable_folders: ["src"] }).outcome, "allow");
    assert.equal(decisionOn(input, "plan").outcome, "deny");
  });

  it("no approval opens the keys, a whole home or a folder of the system to a command", async () => {
    for (const folder of ["/", "/etc", "/usr", join(root, "home"), join(root, "user")]) {
      assert.equal(decisionOn({ command: "ls", writable_folders: [folder] }).outcome, "deny", folder);
    }
    await symlink(join(root, "home"), join(cwd, "link"));
    assert.equal(decisionOn({ command: "ls", writable_folders: ["link"] }).outcome, "deny");
    const own = decisionOn({ command: "ls", writable_folders: [join(root, "home/skills")] });
    assert.deepEqual([own.outcome, own.remember], ["ask", "never"]);
    await rm(join(cwd, "link"));
  });

  it("a folder that became another one after the approval is not opened", async () => {
    for (const name of ["asked", "victim"]) await mkdir(join(root, name));
    await symlink(join(root, "victim"), join(cwd, "link"));
    const input = { command: `echo x > link/file`, writable_folders: ["link"] };
    await assert.rejects(
      run(input, { approvedPaths: [join(root, "asked")] }),
      /is not the folder that was approved/,
    );
    assert.equal(existsSync(join(root, "victim/file")), false);
    await rm(join(cwd, "link"));
  });

  it("further folders of the session, such as those that an editor adds, can be changed", async () => {
    const more = join(root, "user/more");
    await mkdir(more);
    await writeFile(join(more, "given"), "given\n");
    const command = `cat ${more}/given; echo made > ${more}/file`;
    assert.match((await run({ command })).text, /No such file/);
    assert.match((await run({ command }, { roots: [more] })).text, /given/);
    assert.equal(await readFile(join(more, "file"), "utf8"), "made\n");
    const planned = await run(
      { command: `cat ${more}/file; echo x > ${more}/new` },
      { roots: [more], isPlanning: true },
    );
    assert.match(planned.text, /made/);
    assert.equal(existsSync(join(more, "new")), false);
  });

  it("a command that fails by itself is not blamed on the sandbox", async () => {
    assert.doesNotMatch((await run({ command: "exit 3" })).text, /sandbox/i);
  });

  it("with outside_sandbox a command runs as without a sandbox", async () => {
    await run({ command: `touch ${root}/outside`, outside_sandbox: true });
    assert.equal(existsSync(join(root, "outside")), true);
  });

  it("unknown programs need no approval inside, and need it outside", () => {
    assert.equal(decisionOn({ command: "frobnicate --all" }).outcome, "allow");
    assert.equal(decisionOn({ command: "frobnicate --all", outside_sandbox: true }).outcome, "ask");
  });

  it("what destroys files of the workspace, reads its secrets or changes what later sessions obey still asks", () => {
    for (const command of [
      "rm -rf .",
      "cat .env",
      "echo x >> AGENTS.md",
      "agentd config set approvals.mode yolo",
    ]) {
      assert.equal(decisionOn({ command }).outcome, "ask", command);
    }
  });

  it("a host that is not allowed needs an approval that covers this host", () => {
    const decision = decisionOn({ command: "npm install", hosts: ["registry.npmjs.org"] });
    assert.equal(decision.outcome, "ask");
    assert.match(decision.reason, /registry\.npmjs\.org/);
    assert.equal(decision.signature, "command:host registry.npmjs.org");
    assert.equal(decision.remember, "always");
  });

  it("a command that reaches an allowed host needs no approval", async () => {
    const allowing = await SandboxService.start({ ...optionsOf(root), hosts: ["*.npmjs.org"] });
    assert.equal(allowing.allows("registry.npmjs.org"), true);
    assert.equal(allowing.allows("npmjs.org.example.com"), false);
    await allowing.close();
  });

  it("in plan mode a command may read and cannot write, whatever its text says", async () => {
    assert.equal(decisionOn({ command: "frobnicate; ls" }, "plan").outcome, "allow");
    const { text } = await run({ command: "ls; eval 'echo x > planned'" }, { isPlanning: true });
    assert.match(text, /Read-only file system/);
    assert.equal(existsSync(join(cwd, "planned")), false);
    assert.equal(decisionOn({ command: "touch x", outside_sandbox: true }, "plan").outcome, "deny");
  });

  it("a background command is in the sandbox too, and ends with the service", async () => {
    const processes = new Processes({ maxRunning: 1 });
    const background = createTerminal({
      timeoutMs: 30_000,
      maxOutputBytes: 20_000,
      envPassthrough: [],
      sandbox: service,
      processes,
    });
    const command = `touch ${root}/background; echo tried; sleep 600`;
    const { text } = await callWhole(background, { command, background: true }, { cwd });
    assert.match(text, /is running in the background/);
    assert.equal(await processes.killAll(), 1);
    assert.equal(existsSync(join(root, "background")), false);
    await processes.close();
  });

  it("a command that starts too many processes is stopped", async () => {
    const small = await SandboxService.start({
      ...optionsOf(root),
      limits: { maxProcesses: 20, maxMemoryBytes: 1e9 },
    });
    const bounded = createTerminal({
      timeoutMs: 30_000,
      maxOutputBytes: 20_000,
      envPassthrough: [],
      sandbox: small,
    });
    const command = "for i in $(seq 100); do sleep 60 & done; wait";
    const { text } = await callWhole(bounded, { command }, { cwd });
    assert.match(text, /exceeded the sandbox's limit of processes/);
    await small.close();
  });

  it("commands of one session share a private temporary folder, and sessions do not", async () => {
    await run({ command: "echo mine > /tmp/note" });
    assert.match((await run({ command: "cat /tmp/note" })).text, /mine/);
    const other = await run({ command: "cat /tmp/note" }, { sessionId: "ses_other" });
    assert.match(other.text, /No such file/);
  });

  it("without a sandbox the tool has no parameters of it", async () => {
    const off = await SandboxService.start({ ...optionsOf(root), setting: "off" });
    const plain = createTerminal({ timeoutMs: 1, maxOutputBytes: 4096, envPassthrough: [], sandbox: off });
    assert.doesNotMatch(JSON.stringify(plain.parameters), /sandbox/);
    assert.equal(inspect(plain, { command: "ls" }, cwd).sandbox, undefined);
    await off.close();
  });
});

describe("a machine without bubblewrap", () => {
  it("auto runs commands without a sandbox and says why; required refuses to start", async (t) => {
    const { PATH } = process.env;
    process.env["PATH"] = "/nonexistent";
    t.after(() => void (process.env["PATH"] = PATH));
    const options = optionsOf("/nonexistent");
    const auto = await SandboxService.start(options);
    assert.deepEqual(auto.status, {
      active: false,
      reason: "bubblewrap (the program bwrap) is not installed",
    });
    assert.equal(await auto.open({ sessionId: "ses_1", writable: [] }), undefined);
    await assert.rejects(SandboxService.start({ ...options, setting: "required" }), SandboxRequiredError);
  });
});

function optionsOf(root: string) {
  return {
    setting: "auto",
    hosts: [],
    allowedPrivateHosts: [],
    limits: { maxProcesses: 512, maxMemoryBytes: 4_294_967_296 },
    folders: {
      home: join(root, "home"),
      userHome: join(root, "user"),
      readableInHome: [],
      writable: [],
      readable: [],
      hidden: [],
      searchPath: process.env["PATH"] ?? "",
    },
  } as const;
}
