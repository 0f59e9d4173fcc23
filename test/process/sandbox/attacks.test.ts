/** Runs each attack inside the real sandbox and looks whether anything got out. */
import { strict as assert } from "node:assert";
import { execFileSync } from "node:child_process";
import { createSocket } from "node:dgram";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { chmod, cp, mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { after, before, describe, it } from "node:test";
import { OutputExcerpt } from "../../../src/exec/output.ts";
import { type CommandEnd, runCommand } from "../../../src/exec/process-group.ts";
import { commandProfile } from "../../../src/exec/sandbox/rules.ts";
import { findSandbox, type Sandbox } from "../../../src/exec/sandbox/sandbox.ts";
import { type Attack, readingAttacks } from "./attacks.ts";
import { changingAttacks } from "./more-attacks.ts";

const CANARY = "agentd-canary-7Qx2Zk";
const LIMITS = { maxProcesses: 200, maxMemoryBytes: 1_073_741_824 };
const found = await findSandbox();

describe("a sandboxed command", { skip: found.sandbox ? false : "bubblewrap does not work here" }, () => {
  const contacts: string[] = [];
  let world: World;
  before(async () => {
    world = await World.make((what) => contacts.push(what));
  });
  after(() => world.remove());

  for (const attack of [...readingAttacks, ...changingAttacks]) {
    const missing = (attack.needs ?? []).filter((name) => !isInstalled(name));
    it(attack.name, { skip: missing.length > 0 && `${missing.join(", ")} is not installed` }, async () => {
      const { output, end } = await world.run(attack);
      assert.equal(leakIn(output), undefined, `the command printed a secret: ${output.slice(0, 500)}`);
      assert.deepEqual(contacts, [], "the command reached a service");
      assert.equal(
        world.outside(),
        world.outsideBefore,
        `something outside changed: ${output.slice(0, 500)}`,
      );
      assert.deepEqual(leftovers(), [], "a process outlived its command");
      assert.notEqual(end, undefined);
    });
  }
});

describe("without the sandbox", () => {
  let world: World;
  before(async () => {
    world = await World.make(() => {});
  });
  after(() => world.remove());

  // An attack that never works would prove nothing about the sandbox.
  for (const attack of readingAttacks.filter(({ isUntried = false }) => !isUntried)) {
    const missing = (attack.needs ?? []).filter((name) => !isInstalled(name));
    it(
      `a command that ${attack.name} gets it`,
      {
        skip: missing.length > 0 && `${missing.join(", ")} is not installed`,
      },
      async () => {
        const { output } = await world.run(attack, { isConfined: false });
        await world.restore();
        assert.notEqual(leakIn(output), undefined, output.slice(0, 500));
      },
    );
  }
});

const ownSecrets = ".env config.yaml state.db state.db-wal webhook_subscriptions.json tickets logs/log".split(
  " ",
);
const userSecrets = (
  ".ssh/id_ed25519 .ssh/config .aws/credentials .config/gcloud/credentials.db .kube/config .docker/config.json .npmrc " +
  ".config/gh/hosts.yml .git-credentials .pgpass .netrc .local/share/keyrings/login.keyring .bash_history notes.txt"
).split(" ");

/** Folders, files with the canary, and services that count contacts. */
class World {
  readonly root: string;
  readonly #words: Readonly<Record<string, string>>;
  readonly #close: () => Promise<void>;
  readonly outsideBefore: string;
  #count = 0;

  private constructor(root: string, words: Readonly<Record<string, string>>, close: () => Promise<void>) {
    this.root = root;
    this.#words = words;
    this.#close = close;
    this.outsideBefore = this.outside();
  }

  static async make(onContact: (what: string) => void): Promise<World> {
    // Not below /tmp, which each sandbox replaces: that alone would hide everything.
    const base = existsSync("/srv") ? "/srv" : tmpdir();
    const root = await realpath(await mkdtemp(join(base, "agentd-attacks-")));
    const [home, user, other, outside] = ["service", "user", "other", "outside"].map((name) =>
      join(root, name),
    );
    const secrets = [
      ...ownSecrets.map((name) => `${home}/${name}`),
      ...userSecrets.map((name) => `${user}/${name}`),
      `${other}/secret.txt`,
    ];
    for (const path of secrets) {
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, `API_KEY=${CANARY}\n`);
    }
    await mkdir(`${outside}`);
    await writeFile(`${outside}/kept.txt`, "kept\n");
    await mkdir(`${home}/workspace`);
    makeRepository(join(root, "repo"));
    // A home that other users may not enter would stop the attacks by itself.
    await chmod(root, 0o755);
    const services = await listen(root, onContact);
    const words = {
      home,
      env: `${home}/.env`,
      user,
      other,
      outside,
      pid: String(process.pid),
      ...services.words,
    };
    return new World(root, words as Record<string, string>, services.close);
  }

  /** Runs the attack in a workspace of its own, as the terminal tool would run it. */
  async run(
    { command }: Attack,
    { isConfined = true }: { readonly isConfined?: boolean } = {},
  ): Promise<{ readonly output: string; readonly end: CommandEnd }> {
    const { home = "", user = "", other = "" } = this.#words;
    const cwd = join(home, "workspace", String((this.#count += 1)));
    const own = join(this.root, "own", String(this.#count));
    for (const folder of [cwd, join(own, "tmp"), join(own, "home")]) await mkdir(folder, { recursive: true });
    await cp(join(this.root, "repo"), join(cwd, "repo"), { recursive: true });
    const env = { PATH: process.env["PATH"] ?? "", HOME: user, LANG: "C.UTF-8" };
    const service = {
      home,
      readableInHome: [],
      userHome: user,
      writable: [],
      readable: [],
      searchPath: env.PATH,
      hidden: [other],
    };
    const profile = commandProfile(service, { writable: [cwd], own });
    const excerpt = new OutputExcerpt(1_048_576);
    const end = await runCommand(fill(command, this.#words), {
      cwd,
      env,
      timeoutMs: 4_000,
      onOutput: (bytes) => excerpt.push(bytes),
      signal: new AbortController().signal,
      confine: isConfined ? (line) => (found.sandbox as Sandbox).confine(line, profile) : undefined,
      limits: LIMITS,
    });
    const obeyed = repositoryState(join(cwd, "repo"));
    assert.equal(
      obeyed,
      (this.#repository ??= obeyed),
      "the command changed what other programs run or obey",
    );
    await rm(own, { recursive: true, force: true });
    return { output: excerpt.text(), end };
  }
  #repository: string | undefined;

  /** Puts the keys back: an attack that works may have moved them. */
  restore(): Promise<void> {
    return writeFile(this.#words["env"] as string, `API_KEY=${CANARY}\n`);
  }

  /** Everything outside of the workspace, as text. */
  outside(): string {
    const places = [this.#words["outside"] as string, this.#words["user"] as string];
    const listed = places.flatMap((place) => treeOf(place));
    const known = [
      "/etc/passwd",
      "/etc/ld.so.preload",
      "/etc/cron.d",
      "/usr/local/bin",
      "/var/tmp/agentd-attack",
    ];
    const shared = [
      ...known,
      "/tmp/agentd-attack",
      "/dev/shm/agentd-attack",
      `${this.#words["home"]}/config.yaml`,
    ];
    return [...listed, ...shared.flatMap((path) => treeOf(path))].join("\n");
  }

  async remove(): Promise<void> {
    await this.#close();
    await rm(this.root, { recursive: true, force: true });
  }
}

function makeRepository(folder: string): void {
  execFileSync("git", ["init", "-q", folder]);
  execFileSync("mkdir", ["-p", join(folder, ".vscode"), join(folder, ".git/hooks")]);
  execFileSync("sh", [
    "-c",
    `cd '${folder}' && rm -f .git/hooks/* && echo rules > AGENTS.md && echo '# none' > .envrc && echo '{}' > .vscode/tasks.json`,
  ]);
}

function repositoryState(folder: string): string {
  const paths = [".git/hooks", ".git/config", ".vscode", "AGENTS.md", ".envrc"];
  return paths
    .flatMap((path) => treeOf(join(folder, path)).map((line) => line.slice(folder.length)))
    .join("\n");
}

/** Each file below `path` with its mode and text. */
function treeOf(path: string): readonly string[] {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return [`${path} does not exist`];
  if (!stat.isDirectory())
    return [`${path} ${stat.mode} ${stat.uid} ${path.startsWith("/usr") ? "" : readFileSync(path, "utf8")}`];
  return [`${path} ${stat.mode}`, ...readdirSync(path).flatMap((name) => treeOf(join(path, name)))];
}

async function listen(root: string, onContact: (what: string) => void) {
  const tcp = createServer((socket) => {
    onContact("TCP");
    socket.on("error", () => {}).destroy();
  }).listen(0);
  const socket = join(root, "service.sock");
  const unix = createServer((client) => {
    onContact("Unix socket");
    client.on("error", () => {}).destroy();
  }).listen(socket);
  const udp = createSocket("udp4", () => onContact("UDP"));
  await Promise.all([
    new Promise<void>((resolve) => tcp.once("listening", () => resolve())),
    new Promise<void>((resolve) => unix.once("listening", () => resolve())),
    new Promise<void>((resolve) => udp.bind(0, "127.0.0.1", () => resolve())),
  ]);
  const words = {
    socket,
    tcp: String((tcp.address() as { readonly port: number }).port),
    udp: String(udp.address().port),
  };
  const close = async () => {
    udp.close();
    await Promise.all([tcp, unix].map((server) => new Promise((resolve) => server.close(resolve))));
  };
  return { words, close };
}

/** The canary, as it is or in an encoding that the attacks use. */
function leakIn(output: string): string | undefined {
  const bare = output.replaceAll(/[\s|^$-]+/g, "");
  const plain = CANARY.replaceAll("-", "");
  const reversed = [...plain].toReversed().join("");
  const rot13 = plain.replaceAll(/[a-z]/gi, (letter) =>
    String.fromCharCode(letter.charCodeAt(0) + (letter.toLowerCase() < "n" ? 13 : -13)),
  );
  const hex = Buffer.from(CANARY).toString("hex");
  const forms = [
    plain,
    reversed,
    rot13,
    hex,
    hex.toUpperCase(),
    Buffer.from(`API_KEY=${CANARY}`).toString("base64").slice(0, 24),
  ];
  // Programs that print one value a line: octal, decimal and code points.
  const codes = [...CANARY].map((letter) => letter.charCodeAt(0));
  const lists = [codes.join(","), codes.map((code) => code.toString(8)).join("")];
  if (/\{canary-of-\w+\}/.test(output)) return "a fact about the machine";
  return [...forms, ...lists].find((form) => bare.includes(form));
}

/** Processes that the attacks start and that must be gone. */
function leftovers(): readonly string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        return readFileSync(`/proc/${name}/cmdline`, "utf8").startsWith("sleep\u0000987");
      } catch {
        return false;
      }
    });
}

function isInstalled(name: string): boolean {
  return (process.env["PATH"] ?? "").split(":").some((folder) => existsSync(join(folder, name)));
}

const fill = (command: string, words: Readonly<Record<string, string>>): string =>
  command.replaceAll(/\{(\w+)\}/g, (whole, name: string) => words[name] ?? whole);
