/** Where the folders of a service, a user and a session may lie, and what a command then sees. */
import { strict as assert } from "node:assert";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { OutputExcerpt } from "../../../src/exec/output.ts";
import { runCommand } from "../../../src/exec/process-group.ts";
import type { SandboxFolders } from "../../../src/exec/sandbox/rules.ts";
import { findSandbox } from "../../../src/exec/sandbox/sandbox.ts";
import { SandboxService } from "../../../src/exec/sandbox/service.ts";

const SECRET = "agentd-canary-4Tz81";
const { sandbox } = await findSandbox();

describe(
  "the places of a sandboxed command",
  { skip: sandbox ? false : "bubblewrap does not work here" },
  () => {
    it("a link that a command leaves under a protected name shows nothing of its target", async () => {
      await using place = await Place.open({
        "service/.env": SECRET,
        "user/.ssh/id": SECRET,
        "work/.git/config": "",
      });
      const links = {
        "AGENTS.md": "service/.env",
        ".husky": "service",
        ".vscode": "user/.ssh",
        "sub/.envrc": "user/.ssh/id",
      };
      const make = Object.entries(links).map(([name, to]) => `ln -s ${place.path(to)} ${name}`);
      await place.run(
        "work",
        `mkdir sub; ${make.join("; ")}; mv .git git; ln -s ${place.path("service")} .git`,
      );
      const { output } = await place.run(
        "work",
        "cat AGENTS.md .husky/.env .vscode/id sub/.envrc .git/.env 2>&1",
      );
      assert.doesNotMatch(output, new RegExp(SECRET));
    });

    it("a folder that was named for commands and became a link to a secret shows nothing", async () => {
      await using place = await Place.open(
        { "service/.env": SECRET, "user/.ssh/id": SECRET, "work/other/file": "" },
        (path) => ({
          writable: [path("work/cache")],
          readable: [path("work/docs")],
          readableInHome: [path("work/skills")],
        }),
      );
      const links = `ln -s ${place.path("service")} cache; ln -s ${place.path("user/.ssh")} docs; ln -s ${place.path("service")} skills`;
      await place.run("work", `${links}; rm -r other; ln -s ${place.path("service")} other`);
      const { output } = await place.run(
        "work",
        "cat cache/.env docs/id skills/.env 2>&1; echo x > cache/new",
      );
      const nested = await place.run("work/other", "ls -A; cat .env; echo x > new");
      assert.doesNotMatch(output + nested.output, new RegExp(SECRET));
      assert.equal(existsSync(place.path("service/new")), false);
    });

    it("where a session's folder is the user's home, credentials below it stay hidden and cannot be moved", async () => {
      const secrets = [
        ".ssh/id",
        ".config/gh/hosts.yml",
        ".claude/auth.json",
        ".aws/credentials",
        ".cargo/credentials",
      ];
      await using place = await Place.open(
        {
          ...Object.fromEntries(secrets.map((path) => [`user/${path}`, SECRET])),
          "user/data/agentd/.env": SECRET,
          "user/data/agentd/AGENTS.md": SECRET,
          "user/notes.txt": "notes\n",
        },
        (path) => ({
          home: path("user/data/agentd"),
          searchPath: `${process.env["PATH"]}:${path("user/.local/bin")}`,
        }),
      );
      const attempt = await place.run(
        "user",
        "cat notes.txt; echo more >> notes.txt; mv .config c; mv data d; mv .cargo g; mv .claude e; mkdir -p .local; ln -s ../.aws .local/bin; ln -s .ssh .nvm",
      );
      assert.match(attempt.output, /^notes\n/);
      const { output } = await place.run(
        "user",
        "cat $(find . -type f) 2>/dev/null; cat .nvm/id .local/bin/credentials; echo x > data/agentd/new",
      );
      assert.match(output, /notes\nmore\n/);
      assert.doesNotMatch(attempt.output + output, new RegExp(SECRET));
      assert.equal(existsSync(place.path("user/data/agentd/new")), false);
    });

    it("the service's home is empty and cannot be changed where it is the session's folder", async () => {
      await using place = await Place.open({ "service/.env": SECRET });
      const { output } = await place.run("service", "ls -A; cat .env; echo x > new");
      assert.doesNotMatch(output, new RegExp(SECRET));
      assert.equal(existsSync(place.path("service/new")), false);
    });

    it("a home of the user that does not exist is replaced by a private folder", async () => {
      await using place = await Place.open({ "work/file": "" }, (path) => ({
        userHome: path("missing/user"),
      }));
      const { output, exitCode } = await place.run("work", 'cd && pwd && echo x > "$HOME/made" && cat made');
      assert.deepEqual([exitCode, output], [0, "/tmp\nx\n"]);
      assert.equal(existsSync(place.path("missing")), false);
    });

    it("a home of the user on a read-only file system is replaced by a private folder", async () => {
      // A part of the machine that nobody can write to, not even root.
      await using place = await Place.open({ "work/file": "" }, () => ({ userHome: "/proc/sys/kernel" }));
      const { output, exitCode } = await place.run(
        "work",
        'echo x > "$HOME/made" && cat "$HOME/made"; ls "$HOME"',
      );
      assert.deepEqual([exitCode, output], [0, "x\nmade\n"]);
    });

    it(
      "a command of a service that runs as root has no rights of root",
      { skip: process.getuid?.() !== 0 && "not root" },
      async () => {
        await using place = await Place.open({ "work/file": "" });
        const { output } = await place.run(
          "work",
          "grep CapEff /proc/self/status; chown 1 file; mount -t tmpfs none /mnt; cat /etc/shadow; echo x > /etc/agentd-attack",
        );
        assert.match(output, /CapEff:\s+0000000000000000\n/);
        assert.doesNotMatch(output, /root:[^x]/);
        assert.equal(existsSync("/etc/agentd-attack"), false);
      },
    );

    it("two services of one user see nothing of each other's sessions and homes", async () => {
      const homes = {
        "user/a/.env": SECRET,
        "user/b/.env": SECRET,
        "user/a/workspace/file": "a\n",
        "user/b/workspace/file": "b\n",
      };
      await using one = await Place.open(homes, (path) => ({ home: path("user/a") }));
      await using other = await one.beside((path) => ({ home: path("user/b") }));
      const look = (name: string) =>
        `echo ${name} > /tmp/note; echo ${name} > ~/note; cat file /tmp/note ~/note ../.env ../../*/.env; ls -A ../..`;
      const [a, b] = await Promise.all([
        one.run("user/a/workspace", look("a")),
        other.run("user/b/workspace", look("b")),
      ]);
      assert.match(a.output, /^a\na\na\n/);
      assert.match(b.output, /^b\nb\nb\n/);
      assert.doesNotMatch(a.output + b.output, new RegExp(SECRET));
      assert.doesNotMatch(a.output, /^b$/m);
      assert.doesNotMatch(b.output, /^a$/m);
    });

    it("sessions see nothing of each other's private folders, wherever the temporary folder is", async (t) => {
      await using place = await Place.open({ "work/file": "", "scratch/file": "" });
      const { TMPDIR } = process.env;
      process.env["TMPDIR"] = place.path("scratch");
      t.after(() => {
        if (TMPDIR === undefined) delete process.env["TMPDIR"];
        else process.env["TMPDIR"] = TMPDIR;
      });
      const made = await place.run(
        "work",
        `echo ${SECRET} | tee /tmp/note ~/note > /dev/null; cat /tmp/note`,
      );
      assert.match(made.output, new RegExp(SECRET));
      const { output } = await place.run(
        "work",
        `cat /tmp/note; grep -r canary ${place.path("scratch")}; echo end`,
        "ses_2",
      );
      assert.doesNotMatch(output, new RegExp(SECRET));
      assert.match(output, /end/);
    });

    it("a working folder that is reached by a link can be changed", async () => {
      await using place = await Place.open({ "real/file": "" });
      await symlink(place.path("real"), place.path("link"));
      assert.equal((await place.run("link", "echo x > made")).exitCode, 0);
      assert.equal(await readFile(place.path("real/made"), "utf8"), "x\n");
    });
  },
);

type Change = (path: (name: string) => string) => Partial<SandboxFolders>;

/** Folders with files, and a service over them. */
class Place implements AsyncDisposable {
  readonly #root: string;
  readonly #service: SandboxService;
  readonly #userHome: string;
  readonly #isOwner: boolean;

  private constructor(from: {
    readonly root: string;
    readonly service: SandboxService;
    readonly userHome: string;
    readonly isOwner: boolean;
  }) {
    this.#root = from.root;
    this.#service = from.service;
    this.#userHome = from.userHome;
    this.#isOwner = from.isOwner;
  }

  static async open(files: Readonly<Record<string, string>>, change: Change = () => ({})): Promise<Place> {
    // Not below /tmp, which each sandbox replaces.
    const root = await realpath(
      await mkdtemp(join(existsSync("/srv") ? "/srv" : tmpdir(), "agentd-places-")),
    );
    for (const name of ["service", "user", "work"]) await mkdir(join(root, name));
    for (const [name, text] of Object.entries(files)) {
      await mkdir(dirname(join(root, name)), { recursive: true });
      await writeFile(join(root, name), text);
    }
    return Place.#start(root, change, true);
  }

  static async #start(root: string, change: Change, isOwner: boolean): Promise<Place> {
    const folders: SandboxFolders = {
      home: join(root, "service"),
      userHome: join(root, "user"),
      readableInHome: [],
      writable: [],
      readable: [],
      hidden: [],
      searchPath: process.env["PATH"] ?? "",
      ...change((name) => join(root, name)),
    };
    const limits = { maxProcesses: 200, maxMemoryBytes: 1_073_741_824 };
    const service = await SandboxService.start({
      setting: "required",
      hosts: [],
      allowedPrivateHosts: [],
      limits,
      folders,
    });
    return new Place({ root, service, userHome: folders.userHome, isOwner });
  }

  /** Another service over the same folders. */
  beside(change: Change): Promise<Place> {
    return Place.#start(this.#root, change, false);
  }

  path(name: string): string {
    return join(this.#root, name);
  }

  /** Runs a command with the working folder `cwd`, as the terminal tool does it. */
  async run(
    cwd: string,
    command: string,
    sessionId = "ses_1",
  ): Promise<{ readonly output: string; readonly exitCode: number | undefined }> {
    const folder = this.path(cwd);
    const open = await this.#service.open({ sessionId, writable: [folder] });
    const excerpt = new OutputExcerpt(65_536);
    const { exitCode } = await runCommand(command, {
      cwd: folder,
      env: { PATH: process.env["PATH"] ?? "", HOME: this.#userHome, LANG: "C.UTF-8" },
      timeoutMs: 30_000,
      onOutput: (bytes) => excerpt.push(bytes),
      signal: new AbortController().signal,
      confine: open?.confine,
      limits: open?.limits,
    });
    await open?.close();
    return { output: excerpt.text(), exitCode };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#service.close();
    if (this.#isOwner) await rm(this.#root, { recursive: true, force: true });
  }
}
