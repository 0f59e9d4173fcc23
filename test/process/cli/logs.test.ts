/** The log of a gateway: its file, `agentd logs`, and what a terminal shows. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, open, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it } from "node:test";
import { agentd } from "../../harness/agentd.ts";
import { keptAgentd } from "../../harness/kept-agentd.ts";
import { createGatewayPlace } from "../../harness/gateway.ts";
import { agentdCommand, programEnvironment } from "../../harness/program.ts";
import { startTerminal, terminalIsMissing } from "../../harness/terminal.ts";
import { createHome } from "../../unit/config/home-folder.ts";

const FILE = "logs/gateway.log";
const COLOURED = new RegExp(`${"\u001b"}\\[36mINFO`);

/** `agentd logs --follow`, and a wait for what it prints. */
function follow(home: string) {
  const [program, ...words] = agentdCommand("logs", "--follow", "--json");
  const env = programEnvironment({ AGENTD_HOME: home });
  const child = spawn(program, words, { env, stdio: ["ignore", "pipe", "ignore"] });
  const closed = once(child, "close");
  let output = "";
  let look = () => {};
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    look();
  });
  return {
    output: () => output,
    async shows(wanted: RegExp): Promise<void> {
      const shown = Promise.withResolvers<void>();
      look = () => void (wanted.test(output) && shown.resolve());
      look();
      await Promise.race([shown.promise, closed.then(() => assert.match(output, wanted))]);
    },
    async [Symbol.asyncDispose]() {
      process.kill(child.pid ?? 0, "SIGTERM");
      await closed;
    },
  };
}

describe("the log of a gateway", () => {
  it("is in a private file with the lines of standard error, which agentd logs filters", async () => {
    await using place = await createGatewayPlace();
    const env = { AGENTD_HOME: place.home };
    const none = await keptAgentd(["logs"], env);
    assert.deepEqual([none.code, none.stdout], [1, ""]);
    assert.match(
      none.stderr,
      /^There is no log yet: \S+gateway\.log does not exist\. `agentd gateway` writes it/,
    );
    const gateway = await place.start();
    assert.equal(await gateway.kill("SIGTERM"), 0);
    const file = join(place.home, FILE);
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    const text = await readFile(file, "utf8");
    assert.equal(gateway.stderr(), text);
    const messages = text
      .trim()
      .split("\n")
      .map((line) => (JSON.parse(line) as { message: string }).message);
    assert.deepEqual(messages, ["listening", "stopping", "stopped"]);

    const shown = await keptAgentd(["logs", "-n", "2"], env);
    assert.match(
      shown.stdout,
      /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d INFO {2}stopping {2}signal=SIGTERM\n\S+ \S+ INFO {2}stopped\n$/,
    );
    assert.equal((await keptAgentd(["logs", "--json"], env)).stdout, text);
    assert.equal((await keptAgentd(["logs", "--level", "warn"], env)).stdout, "");
    assert.equal(
      (await keptAgentd(["logs", "--since", "1d", "-n", "1", "--json"], env)).stdout,
      `${text.trim().split("\n").at(-1)}\n`,
    );
    assert.equal((await keptAgentd(["logs", "--since", "2999-01-01"], env)).stdout, "");
    for (const [words, wanted] of [
      [["--since", "soon"], /^--since must be like 90m, 12h or 7d, or an ISO 8601 time, not "soon"\./],
      [["-n", "all"], /^--lines must be a number from 0 to 1000000, not "all"\./],
      [["--level", "loud"], /^--level must be one of debug, info, warn, error\./],
    ] as const) {
      const wrong = await keptAgentd(["logs", ...words], env);
      assert.equal(wrong.code, 2);
      assert.match(wrong.stderr, wanted);
    }
  });

  it("is followed across rotation and restarts", async () => {
    await using place = await createGatewayPlace();
    await writeFile(join(place.home, "config.yaml"), "log: { max_file_bytes: 400 }\n");
    await using log = follow(place.home);
    let all = "";
    for (let starts = 1; starts <= 3; starts += 1) {
      const gateway = await place.start();
      assert.equal(await gateway.kill("SIGTERM"), 0);
      all += gateway.stderr();
      await log.shows(new RegExp(`(?:"stopped"[^]*){${starts}}`));
    }
    assert.equal(log.output(), all);
    assert.ok((await stat(join(place.home, "logs/gateway.1.log"))).size <= 400);
  });

  it(
    "does not stop the gateway on a full disk",
    { skip: process.platform !== "linux" && "only Linux has /dev/full" },
    async () => {
      await using place = await createGatewayPlace();
      await mkdir(join(place.home, "logs"));
      await symlink("/dev/full", join(place.home, FILE));
      const gateway = await place.start();
      assert.equal((await fetch(`${gateway.url}/health`)).status, 200);
      assert.equal(await gateway.kill("SIGTERM"), 0);
      const problems = gateway.stderr().match(/the log file cannot be written.*ENOSPC/g);
      assert.equal(problems?.length, 1, gateway.stderr());
    },
  );

  it("is off with log.max_file_bytes 0", async () => {
    await using place = await createGatewayPlace();
    await writeFile(join(place.home, "config.yaml"), "log: { max_file_bytes: 0 }\n");
    const gateway = await place.start();
    assert.equal(await gateway.kill("SIGTERM"), 0);
    await assert.rejects(stat(join(place.home, "logs")));
  });

  it("says in the file why a gateway did not start", async () => {
    await using place = await createGatewayPlace();
    const gateway = await place.start();
    const env = { AGENTD_HOME: place.home, AGENTD_DATABASE_URL: place.database };
    const second = await agentd(["gateway", "--port", new URL(gateway.url).port], env);
    assert.equal(second.code, 1);
    const { stdout } = await keptAgentd(["logs", "--level", "error"], env);
    assert.match(
      stdout,
      /ERROR the gateway did not start {2}reason="Cannot listen on \S+: the port is in use\./,
    );
    await gateway.kill("SIGTERM");
    await writeFile(join(place.home, "config.yaml"), "log: { level: loud }\n");
    assert.equal((await agentd(["gateway"], env)).code, 1);
    assert.match(
      (await keptAgentd(["logs", "-n", "1"], env)).stdout,
      /did not start {2}reason="[^"]*log\.level/,
    );
  });

  it("follows the start message where both go to one file, and -q leaves the message out", async () => {
    for (const quiet of [[], ["-q"]]) {
      await using made = await createHome();
      const file = join(made.home, "output");
      await using output = await open(file, "w");
      const [program, ...words] = agentdCommand("gateway", "--port", "0", ...quiet);
      const env = programEnvironment({ AGENTD_HOME: made.home });
      const child = spawn(program, words, { env, stdio: ["ignore", output.fd, output.fd] });
      const closed = once(child, "close");
      // Its log has the line before the output does, which waits for the start message.
      while (!(await readFile(file, "utf8")).includes('"listening"')) await sleep(20);
      process.kill(child.pid ?? 0, "SIGTERM");
      await closed;
      const lines = (await readFile(file, "utf8")).trim().split("\n");
      const first = lines.findIndex((line) => line.startsWith("{"));
      assert.ok(
        lines.slice(first).every((line) => line.startsWith("{")),
        lines.join("\n"),
      );
      if (quiet.length > 0) assert.equal(first, 0, lines.join("\n"));
      else assert.match(lines.slice(0, first).join("\n"), /^agentd \S+ listens on /);
    }
  });

  it(
    "is text on a terminal, in colours, and JSON lines with --log-format",
    { skip: terminalIsMissing },
    async () => {
      await using made = await createHome();
      const env = { AGENTD_HOME: made.home };
      const command = agentdCommand("gateway", "--port", "0");
      await using terminal = await startTerminal({ command, env, columns: 160 });
      const screen = await terminal.shows(/INFO {2}listening {2}url=/);
      assert.match(screen, /^agentd \S+ listens on [^]*\n\d\d:\d\d:\d\d INFO {2}listening {2}url=/);
      assert.match(await terminal.styled(), COLOURED);
      await terminal.press("C-c");
      assert.equal(await terminal.ended(), 0);
      for (const [words, more, wanted] of [
        [["--log-format", "json"], {}, /^\{"time":"\S+","level":"info","message":"listening"/m],
        [[], { NO_COLOR: "1" }, /^\d\d:\d\d:\d\d INFO {2}listening/m],
      ] as const) {
        const again = agentdCommand("gateway", "--port", "0", ...words);
        await using other = await startTerminal({ command: again, env: { ...env, ...more }, columns: 160 });
        await other.shows(wanted);
        assert.doesNotMatch(await other.styled(), COLOURED);
        await other.press("C-c");
        assert.equal(await other.ended(), 0);
      }
    },
  );
});
