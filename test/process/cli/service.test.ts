/** `agentd service` with a systemctl and a launchctl that only record how they are called, and without systemd. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { agentdCommand } from "../../harness/program.ts";

/** Hard for quoting in units and XML. */
const HOME_NAME = `ho me %h $HOME "q" & <x> 'y' \\b`;

/** A user of a machine with the given service managers. */
async function createUser(programs: Readonly<Record<string, string>> = {}) {
  const folder = await mkdtemp(join(tmpdir(), "agentd-service-"));
  const [userHome, bin, calls] = [join(folder, "user"), join(folder, "bin"), join(folder, "calls")];
  await mkdir(userHome);
  await mkdir(bin);
  await writeFile(calls, "");
  for (const [name, script] of Object.entries(programs)) {
    await writeFile(join(bin, name), `#!/bin/sh\necho "${name} $*" >> '${calls}'\n${script}\n`);
    await chmod(join(bin, name), 0o755);
  }
  const env = { HOME: userHome, AGENTD_HOME: join(folder, HOME_NAME), PATH: `${bin}:/usr/bin:/bin` };
  return {
    env,
    unit: join(userHome, ".config/systemd/user/agentd.service"),
    calls: async () => (await readFile(calls, "utf8")).trim().split("\n"),
    service: (...words: string[]) => keptAgentd(["service", ...words], env),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

const RUNNING = `[ "$2" = show ] && printf 'ActiveState=active\\nSubState=running\\nMainPID=4711\\n'; exit 0`;
const onLinux = { skip: process.platform !== "linux" && "systemd is on Linux only" };

describe("agentd service under systemd", () => {
  it("writes the unit, starts it, shows it and removes it", onLinux, async () => {
    await using user = await createUser({ systemctl: RUNNING });
    const installed = await user.service("install");
    assert.equal(installed.code, 0, installed.stderr);
    assert.match(
      installed.stdout,
      /^Wrote \S+agentd\.service\.\nThe service agentd\.service is active \(running\)\.\n/,
    );
    assert.match(installed.stdout, /loginctl enable-linger/);
    assert.match(installed.stderr, /does not get these variables of this shell: AGENTD_SANDBOX\./);
    assert.deepEqual(await user.calls(), [
      "systemctl --user daemon-reload",
      "systemctl --user enable agentd.service",
      "systemctl --user restart agentd.service",
      "systemctl --user show agentd.service --property=ActiveState,SubState,MainPID",
    ]);
    assert.equal((await stat(user.env.AGENTD_HOME)).mode & 0o777, 0o700);
    const printed = await user.service("install", "--print");
    assert.equal(await readFile(user.unit, "utf8"), printed.stdout);
    const shown = await user.service("status", "--json");
    assert.deepEqual(
      [shown.code, JSON.parse(shown.stdout)],
      [
        0,
        {
          manager: "systemd",
          file: user.unit,
          installed: true,
          current: true,
          active: true,
          state: "active (running)",
          pid: 4711,
        },
      ],
    );
    const removed = await user.service("uninstall");
    assert.deepEqual([removed.code, removed.stdout], [0, `Removed ${user.unit}.\n`]);
    assert.deepEqual((await user.calls()).slice(-2), [
      "systemctl --user disable --now agentd.service",
      "systemctl --user daemon-reload",
    ]);
    await assert.rejects(stat(user.unit));
    const again = await user.service("uninstall");
    assert.deepEqual([again.code, again.stdout], [0, `Nothing to remove: ${user.unit} does not exist.\n`]);
    assert.equal((await user.service("status")).code, 1);
  });

  it("writes the unit and says how to start it where systemd does not run", onLinux, async () => {
    await using user = await createUser({
      systemctl: "echo 'Failed to connect to bus: No medium found' >&2; exit 1",
    });
    const { code, stdout, stderr } = await user.service("install");
    assert.deepEqual([code, stdout], [1, `Wrote ${user.unit}.\n`]);
    assert.match(
      stderr,
      /The service was not started: systemctl --user daemon-reload: Failed to connect to bus: No medium found\.\nStart it when systemd runs for your user: systemctl --user enable --now agentd\.service\n$/,
    );
    const shown = await user.service("status");
    assert.equal(shown.code, 1);
    assert.match(shown.stdout, /^agentd\.service: unknown, systemd does not run for this user\n/);
    const removed = await user.service("uninstall");
    assert.equal(removed.code, 0);
    assert.match(removed.stderr, /could not be stopped/);
    await assert.rejects(stat(user.unit));
  });

  it("starts nothing with --no-start, and writes nothing with --print", onLinux, async () => {
    await using user = await createUser({ systemctl: RUNNING });
    assert.equal((await user.service("install", "--print")).code, 0);
    await assert.rejects(stat(user.unit));
    const { code, stdout } = await user.service("install", "--no-start");
    assert.deepEqual(
      [code, stdout],
      [0, `Wrote ${user.unit}.\nStart it with: systemctl --user enable --now agentd.service\n`],
    );
    assert.deepEqual(await user.calls(), [""]);
  });

  it("keeps a unit that someone else wrote", onLinux, async () => {
    await using user = await createUser({ systemctl: RUNNING });
    await mkdir(join(user.unit, ".."), { recursive: true });
    await writeFile(user.unit, "[Service]\nExecStart=/mine\n");
    for (const word of ["install", "uninstall"]) {
      const { code, stderr } = await user.service(word);
      assert.equal(code, 1);
      assert.match(stderr, /was not written by `agentd service install`\. Pass --force/);
    }
    assert.match(await readFile(user.unit, "utf8"), /\/mine/);
    assert.equal((await user.service("install", "--force")).code, 0);
    assert.doesNotMatch(await readFile(user.unit, "utf8"), /\/mine/);
  });

  it("has a service of its own for each profile", onLinux, async () => {
    await using user = await createUser({ systemctl: RUNNING });
    const { stdout } = await user.service("install", "--profile", "work");
    assert.match(stdout, /Wrote \S+agentd-work\.service\./);
    const unit = await readFile(join(user.unit, "../agentd-work.service"), "utf8");
    assert.match(unit, /^Environment="AGENTD_HOME=.*\/profiles\/work"$/m);
  });

  it("writes a unit that systemd accepts, with absolute paths", onLinux, async (t) => {
    if (spawnSync("systemd-analyze", ["--version"]).status !== 0)
      return t.skip("systemd-analyze is not installed (Debian: systemd)");
    await using user = await createUser();
    const { stdout } = await user.service("install", "--print");
    assert.match(stdout, /^ExecStart=\/\S+ .*\/\S+ gateway --log-format json$/m);
    const folder = join(user.env.HOME, "units");
    await mkdir(folder);
    const file = join(folder, "agentd.service");
    await writeFile(file, stdout);
    const env = { ...user.env, XDG_RUNTIME_DIR: folder };
    const { status, stderr } = spawnSync("systemd-analyze", ["--user", "verify", file], {
      encoding: "utf8",
      env,
    });
    const own = stderr.split("\n").filter((line) => line.includes("agentd.service"));
    assert.deepEqual([status, own], [0, []], stderr);
  });
});

describe("agentd service under launchd", () => {
  it("writes a property list with the same program and home", async (t) => {
    await using user = await createUser();
    const { code, stdout, stderr } = await user.service("install", "--print", "--manager", "launchd");
    assert.equal(code, 0, stderr);
    const script = "import json, plistlib, sys; print(json.dumps(plistlib.loads(sys.stdin.buffer.read())))";
    const read = spawnSync("python3", ["-c", script], { input: stdout, encoding: "utf8" });
    if (read.error) return t.skip("python3, which reads property lists, is not installed");
    const list = JSON.parse(read.stdout) as Readonly<Record<string, unknown>>;
    const words = list["ProgramArguments"] as readonly string[];
    assert.deepEqual(words.slice(-3), ["gateway", "--log-format", "json"]);
    assert.ok(
      agentdCommand()
        .slice(0, 1)
        .includes(words[0] ?? ""),
      words[0],
    );
    assert.deepEqual(
      [list["Label"], list["RunAtLoad"], list["KeepAlive"], list["Umask"]],
      ["agentd.gateway", true, { SuccessfulExit: false }, 0o077],
    );
    const variables = list["EnvironmentVariables"] as Readonly<Record<string, string>>;
    assert.equal(variables["AGENTD_HOME"], user.env.AGENTD_HOME);
    assert.match(variables["PATH"] ?? "", /:\/usr\/bin:\/bin$/);
  });

  it("loads, shows and unloads the list", async () => {
    const launchctl = `[ "$1" = print ] && printf '\\tstate = running\\n\\tpid = 99\\n'; exit 0`;
    await using user = await createUser({ launchctl });
    const manager = ["--manager", "launchd"];
    const file = join(user.env.HOME, "Library/LaunchAgents/agentd.gateway.plist");
    const installed = await user.service("install", ...manager);
    assert.equal(installed.code, 0, installed.stderr);
    const shown = await user.service("status", ...manager);
    assert.equal(shown.stdout, `agentd.gateway: running, pid 99\nDefined in ${file}.\n`);
    assert.equal((await user.service("uninstall", ...manager)).stdout, `Removed ${file}.\n`);
    const domain = `gui/${process.getuid?.() ?? 0}`;
    assert.deepEqual(await user.calls(), [
      `launchctl bootout ${domain}/agentd.gateway`,
      `launchctl bootstrap ${domain} ${file}`,
      `launchctl print ${domain}/agentd.gateway`,
      `launchctl print ${domain}/agentd.gateway`,
      `launchctl bootout ${domain}/agentd.gateway`,
    ]);
  });
});
