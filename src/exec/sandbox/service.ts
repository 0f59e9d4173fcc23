/** The sandbox of one service: a private folder for each session, a proxy for each command that may use the network. */
import { mkdir, mkdtemp, realpath, rm } from "node:fs/promises";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, dirname } from "node:path";
import type { SandboxProfile } from "./profile.ts";
import { commandProfile, type SandboxFolders } from "./rules.ts";
import {
  type Confine,
  findSandbox,
  type Sandbox,
  type SandboxSetting,
  type SandboxStatus,
} from "./sandbox.ts";
import type { ResourceLimits } from "./watch.ts";
import { isInside } from "../../base/text.ts";

export interface SandboxOptions {
  readonly setting: SandboxSetting;
  readonly folders: SandboxFolders;
  /** Hosts that every command may reach: names, or `*.example.com` for all its subdomains. */
  readonly hosts: readonly string[];
  /** Hosts that are allowed although their addresses are not public; see `web.allowed_private_hosts`. */
  readonly allowedPrivateHosts: readonly string[];
  readonly limits: ResourceLimits;
}

/** What one command gets. */
export interface SandboxedCommand {
  /** Commands of one session share a temporary folder and a home. */
  readonly sessionId: string;
  /** Folders that the command may change. Empty: it may only read. */
  readonly writable: readonly string[];
  readonly readable?: readonly string[];
  /** Hosts that a person approved for this command. */
  readonly hosts?: readonly string[];
}

/** A sandbox that waits for its command. */
export interface OpenSandbox {
  readonly confine: Confine;
  readonly limits: ResourceLimits;
  /** Hosts that the command tried to reach and that are not allowed. */
  readonly refusedHosts: ReadonlySet<string>;
  /** Returns whether the sandbox hides an absolute path from the command, whether or not it exists. */
  readonly isHidden: (path: string) => boolean;
  /** Call it when the command has ended. */
  close(): Promise<void>;
}

/** The sandbox is required and does not work on this machine. */
export class SandboxRequiredError extends Error {
  override readonly name = "SandboxRequiredError";
}

const MAX_SESSIONS = 256;
const MAX_REFUSED_HOSTS = 32;

export class SandboxService {
  readonly status: SandboxStatus;
  readonly #sandbox: Sandbox | undefined;
  readonly #options: SandboxOptions;
  readonly #inUse = new Map<string, number>();
  #root: Promise<string> | undefined;
  #lastProxy = 0;

  private constructor(options: SandboxOptions, status: SandboxStatus, sandbox: Sandbox | undefined) {
    this.#options = options;
    this.status = status;
    this.#sandbox = sandbox;
  }

  /** Tries the sandbox of this machine. Throws {@link SandboxRequiredError} where it is required and does not work. */
  static async start(options: SandboxOptions): Promise<SandboxService> {
    if (options.setting === "off") {
      return new SandboxService(options, { active: false, reason: "terminal.sandbox is off" }, undefined);
    }
    const { sandbox, status } = await findSandbox();
    if (options.setting === "required" && !status.active) {
      throw new SandboxRequiredError(
        `terminal.sandbox is "required", and ${status.reason}. Install bubblewrap, or set terminal.sandbox to auto.`,
      );
    }
    return new SandboxService(options, status, sandbox);
  }

  /** Whether commands run in a sandbox. */
  get isActive(): boolean {
    return this.status.active;
  }

  /** Returns whether the configuration allows commands to reach `host`. */
  allows(host: string): boolean {
    return this.#options.hosts.some((entry) => isHost(host, entry));
  }

  /** Whether the configuration allows any host. */
  get hasNetwork(): boolean {
    return this.status.active && this.status.network && this.#options.hosts.length > 0;
  }

  /** Prepares the sandbox of one command; resolves to undefined where no sandbox is active. */
  async open(command: SandboxedCommand): Promise<OpenSandbox | undefined> {
    const sandbox = this.#sandbox;
    if (!sandbox) return undefined;
    const own = await this.#folderOf(command.sessionId);
    const refusedHosts = new Set<string>();
    const proxy = await this.#proxyFor(command, own, refusedHosts);
    const folders = withoutOthers(this.#options.folders, dirname(own));
    const { writable, readable = [] } = command;
    let profile: SandboxProfile | undefined;
    const hasHome = existsSync(this.#options.folders.userHome);
    return {
      // A service user may have a home that does not exist.
      confine: (line) => {
        profile = commandProfile(folders, { writable, readable, own, proxySocket: proxy?.path });
        return sandbox.confine(hasHome ? line : { ...line, env: { ...line.env, HOME: "/tmp" } }, profile);
      },
      limits: this.#options.limits,
      refusedHosts,
      isHidden: (path) => profile !== undefined && isHiddenBy(profile, path),
      close: async () => {
        this.#release(command.sessionId);
        await proxy?.close();
      },
    };
  }

  /** Deletes the private folders. */
  async close(): Promise<void> {
    const root = await this.#root?.catch(() => undefined);
    if (root !== undefined) await rm(root, { recursive: true, force: true });
  }

  async #proxyFor({ hosts = [] }: SandboxedCommand, own: string, refusedHosts: Set<string>) {
    const allowed = [...this.#options.hosts, ...hosts];
    if (allowed.length === 0 || !this.status.active || !this.status.network) return undefined;
    const path = join(own, `proxy-${(this.#lastProxy += 1)}.sock`);
    // Loaded on demand, with Node's HTTP server: most services never run a command that needs it.
    const { startSandboxProxy } = await import("./proxy.ts");
    const proxy = await startSandboxProxy({
      socketPath: path,
      isAllowed: (host) => allowed.some((entry) => isHost(host, entry)),
      onRefused: (host) => {
        if (refusedHosts.size < MAX_REFUSED_HOSTS) refusedHosts.add(host);
      },
      allowedPrivateHosts: this.#options.allowedPrivateHosts,
    });
    return { path, close: () => proxy.close() };
  }

  async #folderOf(sessionId: string): Promise<string> {
    this.#root ??= mkdtemp(join(tmpdir(), "agentd-sandbox-")).then((path) => realpath(path));
    const root = await this.#root;
    const own = join(root, sessionId);
    // Moved to the end: the front is what was unused for longest.
    const uses = this.#inUse.get(sessionId) ?? 0;
    this.#inUse.delete(sessionId);
    this.#inUse.set(sessionId, uses + 1);
    for (const name of ["tmp", "home"]) await mkdir(join(own, name), { recursive: true, mode: 0o700 });
    await this.#forget(root);
    return own;
  }

  #release(sessionId: string): void {
    this.#inUse.set(sessionId, Math.max(0, (this.#inUse.get(sessionId) ?? 1) - 1));
  }

  /** Deletes the folders of the sessions that have not used theirs for the longest time. */
  async #forget(root: string): Promise<void> {
    for (const [sessionId, uses] of this.#inUse) {
      if (this.#inUse.size <= MAX_SESSIONS) return;
      if (uses > 0) continue;
      this.#inUse.delete(sessionId);
      await rm(join(root, sessionId), { recursive: true, force: true });
    }
  }
}

/** The deepest rule about a path decides; a folder that replaces another shows nothing of it. */
function isHiddenBy({ hidden, readable, writable, replaced }: SandboxProfile, path: string): boolean {
  const depth = (roots: readonly string[]) =>
    Math.max(-1, ...roots.filter((root) => isInside(path, root)).map((root) => root.length));
  const shown = depth([...readable, ...writable, "/tmp", "/var/tmp"]);
  return depth([...hidden, ...replaced.map((each) => each.path)]) > shown;
}

/** Hides the private folders of all sessions. In the temporary folders that each sandbox replaces they are hidden already. */
function withoutOthers(folders: SandboxFolders, root: string): SandboxFolders {
  if (isInside(root, "/tmp") || isInside(root, "/var/tmp")) return folders;
  return { ...folders, hidden: [...folders.hidden, root] };
}

/** Returns whether a host is meant by an entry: the same name, or a name below `*.`. */
function isHost(host: string, entry: string): boolean {
  const wanted = entry.toLowerCase();
  return wanted.startsWith("*.") ? host.endsWith(wanted.slice(1)) : host === wanted;
}

const networkSigns =
  /Could not resolve host|Temporary failure in name resolution|Network is unreachable|ENETUNREACH|EAI_AGAIN|Could not connect to server|the sandbox does not allow/i;
const readOnlySign = /Read-only file system|EROFS/;
const missingSign = /No such file or directory|ENOENT/;
const sizeSign = /File size limit exceeded|EFBIG/;

const MAX_NAMED_PATHS = 3;

/**
 * Infers from the output of a failed command what the sandbox probably stopped; undefined if nothing suggests that.
 * Only the program's own error message shows a refusal, and names the path.
 */
export function stoppedBySandbox(
  output: string,
  { refusedHosts, isHidden }: Pick<OpenSandbox, "refusedHosts" | "isHidden">,
): string | undefined {
  const lines = output.split("\n");
  const written = lines.filter((line) => readOnlySign.test(line));
  const hidden = lines.filter((line) => missingSign.test(line)).flatMap((line) => pathIn(line) ?? []);
  const read = firstOf([...new Set(hidden)].filter(isHidden));
  const hosts = refusedHosts.size > 0 ? `the hosts ${[...refusedHosts].join(", ")}` : undefined;
  const found = [
    written.length > 0 ? writingTo(firstOf(written.flatMap((line) => pathIn(line) ?? []))) : undefined,
    read === "" ? undefined : `reading ${read}, which is hidden`,
    hosts ?? (networkSigns.test(output) ? "the network" : undefined),
    sizeSign.test(output) ? "a file above the size limit" : undefined,
  ].filter((what) => what !== undefined);
  return found.length === 0 ? undefined : found.join(" and ");
}

function writingTo(paths: string): string {
  return paths === "" ? "writing outside the workspace" : `writing ${paths}, outside the workspace`;
}

const firstOf = (paths: readonly string[]): string =>
  [...new Set(paths)].slice(0, MAX_NAMED_PATHS).join(", ");

/** The absolute path that an error message is about: the last one, since the program comes first. */
function pathIn(line: string): string | undefined {
  const quoted = [...line.matchAll(/['"`\u2018](\/[^'"`\u2019]{1,4096})['"`\u2019]/g)].at(-1)?.[1];
  return quoted ?? [...line.matchAll(/(?:^|[\s=(])(\/[^\s:,)]{1,4096})(?=[:,)\s]|$)/g)].at(-1)?.[1];
}
