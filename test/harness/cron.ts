/** Cron on a fresh database and home, with a fake clock and scripted targets. */
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FakeClock } from "./fake-clock.ts";
import { readDefinition, type Job, type JobDefinition } from "../../src/cron/job/job.ts";
import { Jobs } from "../../src/cron/job/jobs.ts";
import { OUTPUT_TARGET } from "../../src/cron/run/result.ts";
import { createOutputTarget, RunEnds, createCronTrigger } from "../../src/cron/run/end.ts";
import type { CronDeps, CronSettings } from "../../src/cron/deps.ts";
import { createScheduler, type Ticker } from "../../src/cron/tick/ticker.ts";
import { Dispatcher } from "../../src/deliver/outbox/dispatch.ts";
import { createTargets, type Delivery, type SendOutcome, type Target } from "../../src/deliver/target.ts";
import { createAllTarget } from "../../src/deliver/address.ts";
import { onMessageSettled } from "../../src/app/wire-delivery.ts";
import { Skills } from "../../src/agent/skills/skills.ts";
import type { Store } from "../../src/store/store.ts";
import type { OccurrenceRow, OutboxRow } from "../../src/store/schema/tables.ts";
import { createTestAgent, type TestAgent, type TestAgentOptions } from "./agent.ts";

export interface TestCronOptions extends Omit<TestAgentOptions, "clock" | "trigger"> {
  readonly cron?: Partial<CronSettings>;
  /** By platform: the address of its home channel. */
  readonly homes?: Readonly<Record<string, string>>;
  /** What targets do, by name. Messages to `test`, and to each platform of `homes`, arrive without it. */
  readonly send?: Readonly<Record<string, (delivery: Delivery) => SendOutcome | Promise<SendOutcome>>>;
  readonly nowMs?: number;
  /** Another process on the database and in the home of this one. */
  readonly like?: TestCron;
}

/** Monday. */
export const START_MS = Date.UTC(2026, 0, 5, 12, 0, 0);

export class TestCron implements AsyncDisposable {
  readonly clock: FakeClock;
  readonly agent: TestAgent;
  readonly deps: CronDeps;
  readonly jobs: Jobs;
  readonly ticker: Ticker;
  readonly home: string;
  /** What targets were sent, by platform and address, in order. */
  readonly sent: { readonly target: string; readonly text: string; readonly delivery: Delivery }[];
  readonly #dispatcher: Dispatcher;
  readonly #ownsHome: boolean;
  /** Shared by the processes of one database. */
  readonly senders: Senders;

  constructor(from: {
    readonly clock: FakeClock;
    readonly agent: TestAgent;
    readonly deps: CronDeps;
    readonly home: string;
    readonly sent: TestCron["sent"];
    readonly dispatcher: Dispatcher;
    readonly ownsHome: boolean;
    readonly senders: Senders;
  }) {
    const { deps } = from;
    this.clock = from.clock;
    this.agent = from.agent;
    this.deps = deps;
    this.home = from.home;
    this.sent = from.sent;
    this.#dispatcher = from.dispatcher;
    this.#ownsHome = from.ownsHome;
    this.senders = from.senders;
    this.jobs = new Jobs(deps.store, { ...deps.settings, owner: "tester" });
    this.ticker = createScheduler(deps);
  }

  get store(): Store {
    return this.agent.store;
  }

  /** Makes a job: every hour in UTC, to the target `test`, unless `parts` say otherwise. */
  create(parts: Partial<JobDefinition> = {}): Promise<Job> {
    return this.jobs.create(definition(parts));
  }

  /** Advances the clock, ticks once, and waits for the runs and their messages. */
  async advance(ms: number): Promise<void> {
    this.clock.tick(ms);
    await this.tick();
  }

  async tick(): Promise<void> {
    await this.ticker.tick();
    await this.ticker.settled();
    await this.sentAll();
  }

  /**
   * Resolves once this process, and those like it, have sent what is due at this time, and written down how that went: what was put back for
   * later waits. Never while a target does not answer.
   */
  async sentAll(): Promise<void> {
    this.#dispatcher.wake();
    for (;;) {
      const written = this.senders.written();
      const due = await this.store.read
        .selectFrom("outbox")
        .select("id")
        .where("blocked", "=", 0)
        .where((is) =>
          is.or([
            // A lease of another process that has expired is settled in the same round as what is due.
            is.and([is("status", "in", ["due", "leased"]), is("available_at", "<=", this.clock.now())]),
            is.and([is("status", "=", "leased"), is("lease_owner", "in", [...this.senders.owners])]),
          ]),
        )
        .execute();
      if (due.length === 0) return;
      await written;
    }
  }

  /** The outbox messages of an occurrence without its output file, oldest first. */
  async messages(ref: string): Promise<readonly OutboxRow[]> {
    const query = this.store.read.selectFrom("outbox").selectAll().where("ref", "=", ref);
    return query.where("target", "!=", OUTPUT_TARGET).orderBy("id").execute();
  }

  /** In the order of their claims. */
  async occurrences(jobId?: string): Promise<readonly OccurrenceRow[]> {
    const query = this.store.read.selectFrom("occurrences").selectAll().orderBy("id");
    return (jobId === undefined ? query : query.where("job_id", "=", jobId)).execute();
  }

  async job(id: string): Promise<Job> {
    const job = await this.jobs.get(id);
    if (!job) throw new Error(`no job ${id}`);
    return job;
  }

  /** The kept outputs of a job by the names of their files. */
  async outputs(jobId: string): Promise<Readonly<Record<string, string>>> {
    const folder = join(this.deps.outputFolder, jobId);
    const names = await readdir(folder).catch(() => []);
    const texts = names.toSorted().map(async (name) => [name, await readFile(join(folder, name), "utf8")]);
    return Object.fromEntries(await Promise.all(texts)) as Record<string, string>;
  }

  /** Writes a file of the home, such as `scripts/x.sh`. */
  async write(path: string, text: string): Promise<string> {
    const whole = join(this.home, path);
    await mkdir(join(whole, ".."), { recursive: true });
    await writeFile(whole, text, { mode: 0o700 });
    return whole;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.ticker.stop();
    await this.agent.runs.drain(0);
    await this.ticker.settled();
    await this.#dispatcher.close({ graceMs: 0 });
    this.senders.owners.delete(this.store.owner);
    await this.agent[Symbol.asyncDispose]();
    // An attempt that was cut may still write its file.
    if (this.#ownsHome) await rm(this.home, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Who sends messages, and when they wrote something down. */
class Senders {
  readonly owners = new Set<string>();
  #tell = Promise.withResolvers<void>();

  /** Resolves after the next write. */
  written(): Promise<void> {
    return this.#tell.promise;
  }

  tell(): void {
    this.#tell.resolve();
    this.#tell = Promise.withResolvers();
  }
}

/** Tells of each write once it is over, be it that it failed. */
function telling(store: Store, senders: Senders): Store {
  senders.owners.add(store.owner);
  const write: Store["write"] = async (work, options) => {
    try {
      return await store.write(work, options);
    } finally {
      senders.tell();
    }
  };
  return Object.create(store, { write: { value: write } }) as Store;
}

export function definition(parts: Partial<JobDefinition> = {}): JobDefinition {
  const whole = {
    name: "tea",
    prompt: "make tea",
    schedule: { kind: "interval", minutes: 60 },
    zone: "UTC",
    deliver: "test",
    ...parts,
  };
  const read = readDefinition(JSON.stringify(whole));
  if (!read) throw new Error("the test's definition makes no job");
  return read;
}

export async function createTestCron(options: TestCronOptions = {}): Promise<TestCron> {
  const { like, cron, homes = {}, send = {}, nowMs = START_MS, ...more } = options;
  const clock = like?.clock ?? new FakeClock(nowMs);
  const home = like?.home ?? (await realpath(await mkdtemp(join(tmpdir(), "agentd-cron-"))));
  const ends = new RunEnds();
  const agent = await createTestAgent({
    ...more,
    clock,
    trigger: (store) => createCronTrigger({ store, ends }),
    ...(like ? { database: like.agent.databaseUrl } : {}),
  });
  const outputFolder = join(home, "cron", "output");
  const sent: TestCron["sent"] = [];
  const target = (name: string): Target => ({
    name,
    isOrdered: false,
    supportsIdempotency: true,
    ...(homes[name] === undefined ? {} : { home: homes[name] }),
    async send(delivery) {
      const outcome = (await send[name]?.(delivery)) ?? { status: "delivered" };
      const { text } = delivery.payload as { text: string };
      const at = delivery.address === "" ? name : `${name}:${delivery.address}`;
      if (outcome.status === "delivered") sent.push({ target: at, text, delivery });
      return outcome;
    },
  });
  const names = new Set(["test", ...Object.keys(homes), ...Object.keys(send)]);
  const senders = like?.senders ?? new Senders();
  const { store, log, models } = agent.deps;
  const output = createOutputTarget({
    folder: outputFolder,
    keep: cron?.keepOutputs ?? settings.keepOutputs,
    hasJob: async (id) => (await store.find("cron_jobs", { id })) !== undefined,
  });
  const dispatcher = new Dispatcher({
    store: telling(store, senders),
    clock,
    log,
    random: () => 0,
    targets: createTargets([...[...names].map(target), createAllTarget(), output]),
    settled: onMessageSettled,
  });
  const deps: CronDeps = {
    store,
    clock,
    log,
    runs: agent.runs,
    models,
    skills: new Skills({
      homeFolder: join(home, "skills"),
      folders: [],
      bundledFolder: undefined,
      disabled: [],
    }),
    settings: { ...settings, ...cron },
    homes: new Map(Object.entries(homes)),
    toolsets: { configured: [], tools: agent.deps.tools },
    workspace: home,
    scriptsFolder: join(home, "scripts"),
    outputFolder,
    envPassthrough: [],
    ends,
  };
  await dispatcher.start();
  return new TestCron({ clock, agent, deps, home, sent, dispatcher, ownsHome: !like, senders });
}

const settings: CronSettings = {
  isEnabled: true,
  zone: "UTC",
  maxParallelJobs: 16,
  maxJobs: 1_000,
  catchUpMissed: true,
  wrapResponse: true,
  silentMatch: "contains",
  allowAgentScheduling: false,
  toolsets: undefined,
  inactivityMs: 600_000,
  scriptTimeoutMs: 3_600_000,
  runTokenBudget: undefined,
  keepOutputs: 50,
};
