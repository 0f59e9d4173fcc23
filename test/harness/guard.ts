/**
 * Fails a test that leaves something behind for the next one of its process: a variable of the environment, the working
 * directory, a global, a timer or handle that keeps the process alive, an error that nobody handled.
 */
import process from "node:process";
import { after, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { forgetSecrets } from "../../src/base/observe.ts";

/** How long a handle may take to close after its test: the other end of a socket closes a few turns later. */
const GRACE_MS = 2_000;
const LOOK_AGAIN_MS = 1;

export interface Guard {
  /** Looks after every test and subtest registered in `t` from now on. */
  watchTestsOf(t: TestContext): void;
  /** To be called when `t`, the test of a whole file, has nothing else to do: fails it if the file leaves anything. */
  endFileOf(t: TestContext): void;
}

interface State {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly globals: ReadonlyMap<string, unknown>;
  readonly handles: Handles;
}

/** How many of each kind keep the process alive. */
type Handles = ReadonlyMap<string, number>;

/** Globals by which a library is configured once for all. */
const SETTINGS: ReadonlySet<string> = new Set(["AI_SDK_LOG_WARNINGS"]);

/** Tests of the running file share something, which may open and close handles whenever it likes: a pool does. */
let isSharing = false;
/** To be called at the end of each file. Undefined: no guard runs, and every file has a process of its own. */
let closers: (() => Promise<void>)[] | undefined;

/**
 * What all tests of a file share: opened by the first call, and closed when the file ends. From then on its handles, and
 * those of the tests, are looked at only at the end of the file.
 */
export function oncePerFile<T extends AsyncDisposable>(open: () => Promise<T>): () => Promise<T> {
  let opened: Promise<T> | undefined;
  const close = async () => {
    const last = opened;
    opened = undefined;
    await (await last)?.[Symbol.asyncDispose]();
  };
  if (closers) closers.push(close);
  else after(close);
  return () => {
    isSharing = true;
    return (opened ??= open());
  };
}

export function createGuard(): Guard {
  const unhandled: unknown[] = [];
  process.on("unhandledRejection", (error) => void unhandled.push(error));
  process.on("uncaughtException", (error) => void unhandled.push(error));
  const closeShared: (() => Promise<void>)[] = [];
  closers = closeShared;
  let fileStart = stateNow();
  return {
    watchTestsOf(t) {
      const starts = new Map<string, State>();
      t.beforeEach((each) => void starts.set(nameOf(each), stateNow()));
      t.afterEach((each) => {
        // Registered last, so it runs behind the cleanup that the test registered for itself.
        (each as TestContext).after(async () => {
          const start = starts.get(nameOf(each));
          if (start) throwLeaks(await leaksSince(start, unhandled));
        });
      });
    },
    endFileOf(t) {
      t.after(async () => {
        for (const close of closeShared) await close();
        isSharing = false;
        const leaks = await leaksSince(fileStart, unhandled);
        fileStart = stateNow();
        forgetSecrets();
        throwLeaks(leaks);
      });
    },
  };
}

/** With the names of the tests around it. */
function nameOf(test: { readonly name: string; readonly fullName?: string }): string {
  return test.fullName ?? test.name;
}

function throwLeaks(leaks: readonly string[]): void {
  if (leaks.length > 0) throw new Error(`This test leaves behind: ${leaks.join("; ")}`);
}

function stateNow(): State {
  return { env: { ...process.env }, cwd: process.cwd(), globals: globals(), handles: handles() };
}

/** What differs from `start`, put back where that is possible so that only one test fails for it. */
async function leaksSince(start: State, unhandled: unknown[]): Promise<string[]> {
  return [
    ...restoreEnvironment(start.env),
    ...restoreFolder(start.cwd),
    ...restoreGlobals(start.globals),
    ...(await openHandles(start.handles)),
    ...unhandled.splice(0).map((error) => `an error that nobody handled: ${stackOf(error)}`),
  ];
}

function restoreEnvironment(before: State["env"]): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(process.env)]);
  return [...names].flatMap((name) => {
    const value = before[name];
    if (process.env[name] === value) return [];
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
    return [`the environment variable ${name}`];
  });
}

function restoreFolder(before: string): string[] {
  if (process.cwd() === before) return [];
  process.chdir(before);
  return ["another working directory"];
}

/**
 * Values and accessors by name. No accessor is called, since some load modules when they are read. Symbols and names with
 * two underscores are left out: by them libraries mark that they were loaded.
 */
function globals(): Map<string, unknown> {
  return new Map(
    Object.getOwnPropertyNames(globalThis)
      .filter((name) => !name.startsWith("__") && !SETTINGS.has(name))
      .map((name) => {
        const property = Object.getOwnPropertyDescriptor(globalThis, name);
        return [name, property?.get ?? property?.value];
      }),
  );
}

function restoreGlobals(before: State["globals"]): string[] {
  const now = globals();
  const names = new Set([...before.keys(), ...now.keys()]);
  return [...names].flatMap((name) => {
    if (Object.is(before.get(name), now.get(name))) return [];
    if (before.has(name))
      Object.defineProperty(globalThis, name, { value: before.get(name), writable: true });
    else Reflect.deleteProperty(globalThis, name);
    return [`the global ${name}`];
  });
}

async function openHandles(before: Handles): Promise<string[]> {
  if (isSharing) return [];
  const endMs = performance.now() + GRACE_MS;
  for (;;) {
    const left = surplus(handles(), before);
    if (left.size === 0) return [];
    if (performance.now() > endMs) return [...left].map(([kind, count]) => `${count} open ${kind}`);
    closeIdleConnections();
    await sleep(LOOK_AGAIN_MS);
  }
}

function handles(): Handles {
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) {
    // Work that ends by itself.
    if (kind === "Immediate" || kind.endsWith("Req") || kind.endsWith("ReqPromise")) continue;
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return counts;
}

function surplus(now: Handles, before: Handles): Handles {
  const more = [...now].map(([kind, count]) => [kind, count - (before.get(kind) ?? 0)] as const);
  return new Map(more.filter(([, count]) => count > 0));
}

/** The runtime's `fetch` keeps connections open for the next request to the same server, which is gone. */
function closeIdleConnections(): void {
  for (const key of [Symbol.for("undici.globalDispatcher.1"), Symbol.for("undici.globalDispatcher.2")]) {
    const agent = (globalThis as Record<symbol, unknown>)[key] as Dispatcher | undefined;
    if (!agent) continue;
    (globalThis as Record<symbol, unknown>)[key] = new agent.constructor();
    void agent.close();
  }
}

interface Dispatcher {
  readonly constructor: new () => unknown;
  close(): Promise<void>;
}

function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
