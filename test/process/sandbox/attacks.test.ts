/** Runs each attack inside the real sandbox and looks whether anything got out. */
import { strict as assert } from "node:assert";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import {
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmdirSync,
  type Stats,
  writeFileSync,
} from "node:fs";
import { chmod, cp, mkdir, mkdtemp, realpath, rm, utimes, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { after, before, describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { OutputExcerpt } from "../../../src/exec/output.ts";
import { type CommandEnd, runCommand } from "../../../src/exec/process-group.ts";
import { commandProfile } from "../../../src/exec/sandbox/rules.ts";
import { type ConfinedLine, findSandbox, type Sandbox } from "../../../src/exec/sandbox/sandbox.ts";
import { type Attack, readingAttacks } from "./attacks.ts";
import { changingAttacks } from "./more-attacks.ts";

const CANARY = "agentd-canary-7Qx2Zk";
/** More than any attack takes on a busy machine. */
const PATIENCE_MS = 200_000;
/** How long an attack may go on that would never end. */
const ENDLESS_MS = 1_000;
/** Of memory what the largest program of the attacks takes, Java, with room: what fills it takes longer to reach a higher limit. */
const LIMITS = { maxProcesses: 200, maxMemoryBytes: 402_653_184 };
/** Several times as many as agentd allows: on a busy machine it sees late that an attack starts processes without end. */
const MAX_TASKS = 1_500;
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
      const { output, obeyed, end } = await world.run(attack);
      assert.equal(leakIn(output), undefined, `the command printed a secret: ${output.slice(0, 500)}`);
      assert.deepEqual(contacts, [], "the command reached a service");
      const now = { ...world.outside(), obeyed };
      assert.deepEqual(now, world.before, `something outside changed: ${output.slice(0, 500)}`);
      assert.deepEqual(leftovers(), [], "a process outlived its command");
      assert.equal(end.stoppedBy === "timeout", attack.isEndless === true, "its time limit ended it");
    });
  }
});

const MAX_LOOKS = 100;

describe("without the sandbox", () => {
  const contacts: string[] = [];
  let world: World;
  before(async () => {
    world = await World.make((what) => contacts.push(what));
  });
  after(() => world.remove());

  // An attack that never works would prove nothing about the sandbox.
  for (const attack of [...readingAttacks, ...changingAttacks]) {
    if (attack.isUntried) continue;
    const missing = (attack.needs ?? []).filter((name) => !isInstalled(name));
    const isLeftOut = attack.isForRoot === true && process.getuid?.() !== 0;
    const skip = missing.length > 0 ? `${missing.join(", ")} is not installed` : isLeftOut && "not root";
    it(`this attack works: ${attack.name}`, { skip }, async () => {
      contacts.length = 0;
      const { output, obeyed } = await world.run(attack, { isConfined: false });
      const happened = () =>
        leakIn(output) !== undefined ||
        contacts.length > 0 ||
        leftovers().length > 0 ||
        !isDeepStrictEqual({ ...world.outside(), obeyed }, world.before);
      // A process that was killed may need a moment to die.
      for (let looks = 0; !happened() && looks < MAX_LOOKS; looks += 1)
        await new Promise((resolve) => setTimeout(resolve, 20));
      const hasWorked = happened();
      for (const pid of leftovers()) process.kill(pid, "SIGKILL");
      await world.restore();
      assert.ok(hasWorked, `nothing happened: ${output.slice(0, 500)}`);
    });
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
  readonly before: Outside & { readonly obeyed: string };
  readonly #fence = openFence();
  #service: ChildProcess;
  #count = 0;

  private constructor(root: string, words: Readonly<Record<string, string>>, close: () => Promise<void>) {
    this.root = root;
    this.#words = words;
    this.#close = close;
    this.#service = startService(words);
    this.before = { ...this.outside(), obeyed: repositoryState(join(root, "repo")) };
  }

  static async make(onContact: (what: string) => void): Promise<World> {
    // Not below /tmp, which each sandbox replaces: that alone would hide everything.
    const base = existsSync("/srv") ? "/srv" : tmpdir();
    const root = await realpath(await mkdtemp(join(base, "agentd-attacks-")));
    const [home, user, other, outside] = ["service", "user", "other", "outside"].map((name) =>
      join(root, name),
    );
    await makeFiles({ home, user, other, outside } as Homes);
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
      ...services.words,
    };
    return new World(root, words as Record<string, string>, services.close);
  }

  /** Runs the attack in a workspace of its own, as the terminal tool would run it. */
  async run(
    { command, isEndless = false }: Attack,
    { isConfined = true }: { readonly isConfined?: boolean } = {},
  ): Promise<{ readonly output: string; readonly obeyed: string; readonly end: CommandEnd }> {
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
    const end = await runCommand(fill(command, { ...this.#words, pid: String(this.#service.pid) }), {
      cwd,
      env,
      timeoutMs: isEndless ? ENDLESS_MS : PATIENCE_MS,
      onOutput: (bytes) => excerpt.push(bytes),
      signal: new AbortController().signal,
      confine: isConfined
        ? (line) => fenced((found.sandbox as Sandbox).confine(line, profile), this.#fence)
        : undefined,
      limits: LIMITS,
    });
    const obeyed = repositoryState(join(cwd, "repo"));
    await rm(own, { recursive: true, force: true });
    return { output: excerpt.text(), obeyed, end };
  }

  /** Puts everything back that an attack changed which works. */
  async restore(): Promise<void> {
    const { home = "", user = "", outside = "" } = this.#words;
    for (const path of [user, outside, `${home}/skills`, `${home}/scripts`, ...SHARED]) {
      await rm(path, { recursive: true, force: true });
    }
    await makeFiles(this.#words as unknown as Homes);
    const { shm, msg } = leftSegments();
    const { segments } = this.before;
    for (const id of shm) if (!segments.shm.includes(id)) execFileSync("ipcrm", ["-m", id]);
    for (const id of msg) if (!segments.msg.includes(id)) execFileSync("ipcrm", ["-q", id]);
    this.#service.kill("SIGKILL");
    this.#service = startService(this.#words);
  }

  /** Everything outside of the workspace, as text. */
  outside(): Outside {
    const { home = "", user = "", outside = "" } = this.#words;
    const known = ["/etc/passwd", "/etc/ld.so.preload", "/etc/cron.d", "/usr/local/bin", ...SHARED];
    const own = ["config.yaml", ".env", "skills", "scripts"].map((name) => `${home}/${name}`);
    return {
      files: [outside, user, ...known, ...own].flatMap((path) => treeOf(path)).join("\n"),
      service: stateOf(this.#service.pid as number),
      segments: leftSegments(),
    };
  }

  async remove(): Promise<void> {
    this.#service.kill("SIGKILL");
    if (this.#fence !== undefined) rmdirSync(this.#fence);
    await this.#close();
    await rm(this.root, { recursive: true, force: true });
  }
}

/** A control group in which few tasks may be, for the sake of the machine; undefined where these tests may make none. */
function openFence(): string | undefined {
  for (const groups of ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"]) {
    const folder = join(groups, `agentd-attacks-${process.pid}`);
    try {
      mkdirSync(folder);
      writeFileSync(join(folder, "pids.max"), String(MAX_TASKS), { flag: "r+" });
      return folder;
    } catch {
      if (existsSync(folder)) rmdirSync(folder);
    }
  }
  return undefined;
}

function fenced(line: ConfinedLine, fence: string | undefined): ConfinedLine {
  if (fence === undefined) return line;
  const enter = 'echo $$ > "$0/cgroup.procs"; exec "$@"';
  return { ...line, program: "/bin/sh", args: ["-c", enter, fence, line.program, ...line.args] };
}

/** What an attack must not change. */
interface Outside {
  readonly files: string;
  readonly service: string;
  readonly segments: ReturnType<typeof leftSegments>;
}

type Homes = Readonly<Record<"home" | "user" | "other" | "outside", string>>;

const SHARED = ["/var/tmp/agentd-attack", "/tmp/agentd-attack", "/dev/shm/agentd-attack"];

async function makeFiles({ home, user, other, outside }: Homes): Promise<void> {
  const secrets = [
    ...ownSecrets.map((name) => `${home}/${name}`),
    ...userSecrets.map((name) => `${user}/${name}`),
    `${other}/secret.txt`,
  ];
  for (const path of secrets) {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, `API_KEY=${CANARY}\n`);
  }
  await mkdir(outside, { recursive: true });
  await writeFile(`${outside}/kept.txt`, "kept\n");
  await utimes(`${outside}/kept.txt`, 1_000_000_000, 1_000_000_000);
}

/** A process with the key in a variable, in an argument and in an open file. */
function startService({ home = "", env = "" }: Readonly<Record<string, string>>): ChildProcess {
  const file = openSync(env, "r");
  const service = spawn("sh", ["-c", "read -r _; exit", CANARY.replace("7Qx2Zk", "service")], {
    cwd: home,
    env: { PATH: process.env["PATH"] ?? "", API_KEY: CANARY },
    stdio: ["pipe", "ignore", "ignore", file],
  });
  closeSync(file);
  service.unref();
  return service;
}

/** Whether a process lives, is stopped, and how many files it may open. */
function stateOf(pid: number): string {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const state = /^State:\s+(\S)/m.exec(status)?.[1] ?? "";
    const limit = /^Max open files.*$/m.exec(readFileSync(`/proc/${pid}/limits`, "utf8"))?.[0];
    return `${/[TtZX]/.test(state) ? state : "lives"} ${limit}`;
  } catch {
    return "is gone";
  }
}

/** Segments and queues such as the attacks make: proc(5), /proc/sysvipc. */
function leftSegments() {
  const rows = (kind: string) =>
    readFileSync(`/proc/sysvipc/${kind}`, "utf8")
      .trim()
      .split("\n")
      .slice(1)
      .map((row) => row.trim().split(/\s+/));
  const shm = rows("shm").filter(([, , , size, , , attached]) => size === "4096" && attached === "0");
  return { shm: shm.map(([, id = ""]) => id), msg: rows("msg").map(([, id = ""]) => id) };
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

/** Times of other files change when programs of the machine use them. */
function describeFile(path: string, { mode, uid, mtimeMs }: Stats): string {
  const text = path.startsWith("/usr") ? "" : readFileSync(path, "utf8");
  return `${path} ${mode} ${uid} ${path.endsWith("kept.txt") ? mtimeMs : ""} ${text}`;
}

/** Each file below `path` with its mode and text. */
function treeOf(path: string): readonly string[] {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat?.isSymbolicLink()) return [`${path} leads to ${readlinkSync(path)}`];
  if (stat === undefined) return [`${path} does not exist`];
  if (!stat.isDirectory()) return [describeFile(path, stat)];
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
function leftovers(): readonly number[] {
  const isLeft = (pid: number) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("sleep\u0000987");
    } catch {
      return false;
    }
  };
  return readdirSync("/proc").map(Number).filter(Number.isInteger).filter(isLeft);
}

function isInstalled(name: string): boolean {
  return (process.env["PATH"] ?? "").split(":").some((folder) => existsSync(join(folder, name)));
}

const fill = (command: string, words: Readonly<Record<string, string>>): string =>
  command.replaceAll(/\{(\w+)\}/g, (whole, name: string) => words[name] ?? whole);
