/** A sandbox whose start fails: what it hides vanishes between the look at the machine and the mount. */
import { strict as assert } from "node:assert";
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { OutputExcerpt } from "../../../src/exec/output.ts";
import { type CommandEnd, runCommand, startCommand } from "../../../src/exec/process-group.ts";
import { commandProfile } from "../../../src/exec/sandbox/rules.ts";
import { findSandbox, type Sandbox } from "../../../src/exec/sandbox/sandbox.ts";

const found = await findSandbox();

describe("a sandboxed command", { skip: found.sandbox ? false : "bubblewrap does not work here" }, () => {
  it("runs once when a socket vanishes while its sandbox starts", async () => {
    await using machine = await Machine.make();
    await using socket = await listen(machine.path("service.sock"));
    await machine.onStart(`rm -f ${socket.path}`);
    const { end, output } = await machine.run("echo ran | tee -a runs");
    assert.deepEqual([end.exitCode, output], [0, "ran\n"]);
    assert.equal(await readFile(machine.path("work/runs"), "utf8"), "ran\n");
    assert.equal(await machine.starts(), 2);
  });

  it("runs once in the background, too, and gets the input that was written before", async () => {
    await using machine = await Machine.make();
    await using socket = await listen(machine.path("service.sock"));
    await machine.onStart(`rm -f ${socket.path}`);
    const excerpt = new OutputExcerpt(65_536);
    const command = startCommand("read -r word; echo got $word | tee -a runs", {
      ...machine.options(),
      onOutput: (bytes) => excerpt.push(bytes),
    });
    await command.write("hello\n", { close: true });
    assert.equal((await command.end).exitCode, 0);
    assert.equal(excerpt.text(), "got hello\n");
    assert.equal(await readFile(machine.path("work/runs"), "utf8"), "got hello\n");
  });

  it("leaves nothing in the place of a socket that vanishes from its working folder", async () => {
    await using machine = await Machine.make();
    await using socket = await listen(machine.path("work/dev.sock"));
    await machine.onStart(`rm -f ${socket.path}`);
    // The cover is made before the command starts, and deleted at the same time.
    const { end } = await machine.run("while [ -e dev.sock ]; do sleep 0.01; done; echo ran");
    assert.equal(end.exitCode, 0);
    assert.deepEqual(await readdir(machine.path("work")), []);
    await using again = await listen(socket.path);
    assert.equal(existsSync(again.path), true);
  });

  it("keeps an empty file that is hidden in its working folder", async () => {
    await using machine = await Machine.make({ hidden: ["work/.netrc"] });
    await writeFile(machine.path("work/.netrc"), "", { mode: 0o444 });
    await machine.run("true");
    assert.deepEqual(await readdir(machine.path("work")), [".netrc"]);
  });

  it("does not run where its sandbox never starts, and the output says why", async () => {
    await using machine = await Machine.make();
    await machine.onStart("echo 'bwrap: no more namespaces'; exit 1");
    const { end, output } = await machine.run("echo ran > runs");
    assert.deepEqual([end.hasNotRun, output], [true, "bwrap: no more namespaces\n"]);
    assert.equal(existsSync(machine.path("work/runs")), false);
    assert.equal(await machine.starts(), 3);
  });

  it("runs once when it fails and prints what a failed sandbox prints", async () => {
    await using machine = await Machine.make();
    const { end, output } = await machine.run("echo ran >> runs; echo 'bwrap: no'; exit 1");
    assert.deepEqual([end.exitCode, end.hasNotRun, output], [1, undefined, "bwrap: no\n"]);
    assert.equal(await readFile(machine.path("work/runs"), "utf8"), "ran\n");
    assert.equal(await machine.starts(), 1);
  });
});

/** Folders, and a bubblewrap that first does what a test wants. */
class Machine implements AsyncDisposable {
  readonly #root: string;
  readonly #sandbox: Sandbox;
  readonly #hidden: readonly string[];

  private constructor(root: string, sandbox: Sandbox, hidden: readonly string[]) {
    this.#root = root;
    this.#sandbox = sandbox;
    this.#hidden = hidden;
  }

  static async make({ hidden = [] }: { readonly hidden?: readonly string[] } = {}): Promise<Machine> {
    // Not below /tmp, which each sandbox replaces.
    const base = existsSync("/srv") ? "/srv" : tmpdir();
    const root = await realpath(await mkdtemp(join(base, "agentd-start-")));
    for (const name of ["service", "user", "work", "own/tmp", "own/home", "bin"]) {
      await mkdir(join(root, name), { recursive: true });
    }
    const real = (process.env["PATH"] ?? "").split(":").find((folder) => existsSync(join(folder, "bwrap")));
    const script = `#!/bin/sh\n[ -e ${root}/bin/start ] && { echo start >> ${root}/starts; . ${root}/bin/start; }\nexec ${real}/bwrap "$@"\n`;
    await writeFile(join(root, "bin/bwrap"), script);
    await chmod(join(root, "bin/bwrap"), 0o755);
    const { sandbox } = await findSandbox({ PATH: `${root}/bin:${process.env["PATH"]}` });
    await writeFile(join(root, "bin/start"), "");
    return new Machine(
      root,
      sandbox as Sandbox,
      hidden.map((name) => join(root, name)),
    );
  }

  path(name: string): string {
    return join(this.#root, name);
  }

  /** Runs `script` before each later start of bubblewrap. */
  async onStart(script: string): Promise<void> {
    await writeFile(this.path("bin/start"), `${script}\n`);
  }

  async starts(): Promise<number> {
    return (await readFile(this.path("starts"), "utf8")).split("\n").length - 1;
  }

  options() {
    const cwd = this.path("work");
    const env = { PATH: process.env["PATH"] ?? "", HOME: this.path("user"), LANG: "C.UTF-8" };
    const folders = {
      home: this.path("service"),
      userHome: this.path("user"),
      readableInHome: [],
      writable: [],
      readable: [],
      hidden: this.#hidden,
      searchPath: env.PATH,
    };
    const profile = commandProfile(folders, { writable: [cwd], own: this.path("own") });
    return {
      cwd,
      env,
      confine: (line: Parameters<Sandbox["confine"]>[0]) => this.#sandbox.confine(line, profile),
    };
  }

  async run(command: string): Promise<{ readonly end: CommandEnd; readonly output: string }> {
    const excerpt = new OutputExcerpt(65_536);
    const end = await runCommand(command, {
      ...this.options(),
      timeoutMs: 60_000,
      onOutput: (bytes) => excerpt.push(bytes),
      signal: new AbortController().signal,
    });
    return { end, output: excerpt.text() };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#root, { recursive: true, force: true });
  }
}

async function listen(path: string): Promise<AsyncDisposable & { readonly path: string }> {
  const server: Server = createServer().listen(path);
  await new Promise((resolve) => server.once("listening", resolve));
  return {
    path,
    [Symbol.asyncDispose]: () => new Promise((resolve) => void server.close(() => resolve())),
  };
}
