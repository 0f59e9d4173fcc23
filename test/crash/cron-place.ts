/** Gateways on one database and one home, on compressed time, to be killed; what they sent is counted here. */
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { text } from "node:stream/consumers";
import { readDefinition, type Job, type JobDefinition } from "../../src/cron/job/job.ts";
import { Jobs } from "../../src/cron/job/jobs.ts";
import { openStore } from "../../src/store/open.ts";
import type { Store } from "../../src/store/store.ts";
import type { OccurrenceRow } from "../../src/store/schema/tables.ts";
import { CompressedClock, type Compression } from "../harness/compressed-clock.ts";
import { createTestDatabase, type TestDatabase } from "../harness/store.ts";
import { startChild, type Child } from "../unit/store/child.ts";
import type { ChildOptions } from "./cron-child.ts";
import { until } from "./webhook-place.ts";

/** A span of time, by the machine's clock. */
export interface Span {
  readonly fromMs: number;
  readonly untilMs: number;
}

export interface CronPlaceOptions {
  readonly factor: number;
  readonly epochMs: number;
  readonly scripts?: Readonly<Record<string, string>>;
  /** What the platform does with the nth message; default: it takes it. */
  readonly answer?: (response: ServerResponse, count: number) => void;
}

export class CronContext implements AsyncDisposable {
  readonly home: string;
  readonly clock: CompressedClock;
  readonly store: Store;
  readonly jobs: Jobs;
  /** Messages that the platform got, each as often as it came, and when by the compressed clock. */
  readonly arrivals: { readonly id: string; readonly text: string; readonly atMs: number }[];
  /** When processes died, by the machine's clock: from the signal until the platform has taken all that they had sent. */
  readonly kills: Span[] = [];
  readonly #child: Omit<ChildOptions, "host" | "stopAt">;
  readonly #children = new Set<RunningChild>();
  readonly #cleanups: readonly (() => Promise<unknown>)[];

  constructor(
    from: Pick<CronContext, "store" | "arrivals"> & { readonly child: Omit<ChildOptions, "host" | "stopAt"> },
    cleanups: readonly (() => Promise<unknown>)[],
  ) {
    this.home = from.child.home;
    this.clock = new CompressedClock(from.child.compression);
    this.store = from.store;
    this.jobs = new Jobs(from.store, { maxJobs: 1_000 });
    this.arrivals = from.arrivals;
    this.#child = from.child;
    this.#cleanups = cleanups;
  }

  /** A gateway; resolves once it has looked at the jobs. */
  async start(options: Pick<ChildOptions, "host" | "stopAt"> = {}): Promise<RunningChild> {
    const child = this.spawn(options);
    await child.says("started");
    return child;
  }

  /** As {@link start}, without waiting. */
  spawn(options: Pick<ChildOptions, "host" | "stopAt"> = {}): RunningChild {
    const argument = JSON.stringify({ ...this.#child, ...options });
    const place = { kills: this.kills, platform: this.#child.platform };
    const child = new RunningChild(startChild("../../crash/cron-child.ts", [argument]), place);
    this.#children.add(child);
    return child;
  }

  /** A job that tells Home Assistant, in UTC, unless `parts` say otherwise. */
  async create(parts: Partial<JobDefinition>): Promise<Job> {
    const whole = { zone: "UTC", deliver: "homeassistant", prompt: "takes=0", ...parts };
    const definition = readDefinition(JSON.stringify(whole));
    if (!definition) throw new Error(`no job: ${JSON.stringify(parts)}`);
    return this.jobs.create(definition);
  }

  /** In the order of their claims. */
  async occurrences(jobId: string): Promise<readonly OccurrenceRow[]> {
    const rows = this.store.read.selectFrom("occurrences").selectAll().where("job_id", "=", jobId);
    return rows.orderBy("id").execute();
  }

  async untilOccurrences(
    jobId: string,
    holds: (rows: readonly OccurrenceRow[]) => boolean,
  ): Promise<readonly OccurrenceRow[]> {
    let rows: readonly OccurrenceRow[] = [];
    await until(
      async () => holds((rows = await this.occurrences(jobId))),
      () => JSON.stringify(rows),
    );
    return rows;
  }

  /** Names of the kept outputs of a job. */
  async outputs(jobId: string): Promise<readonly string[]> {
    const names = await readdir(join(this.home, "cron", "output", jobId)).catch(() => []);
    // Others are being written, or were when their writer was killed.
    return names.filter((name) => name.endsWith(".md")).toSorted();
  }

  output(jobId: string, name: string): Promise<string> {
    return readFile(join(this.home, "cron", "output", jobId, name), "utf8");
  }

  /** The lines of a file of the home. */
  async lines(file: string): Promise<readonly string[]> {
    const path = join(this.home, file);
    if (!existsSync(path)) return [];
    return (await readFile(path, "utf8")).split("\n").filter((line) => line !== "");
  }

  /** Times in which a process stood still, and may have lost its leases. */
  async stalls(): Promise<readonly Span[]> {
    return (await this.lines("stalls.jsonl")).map((line) => JSON.parse(line) as Span);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#children].map((child) => child.kill("SIGKILL")));
    for (const cleanup of this.#cleanups) await cleanup();
  }
}

export class RunningChild {
  readonly #child: Child;
  readonly #lines: AsyncIterator<unknown>;
  readonly #place: { readonly kills: Span[]; readonly platform: string };
  #hasExited = false;
  #isCounted = false;

  constructor(child: Child, place: { readonly kills: Span[]; readonly platform: string }) {
    this.#child = child;
    this.#lines = child.lines[Symbol.asyncIterator]();
    this.#place = place;
    void child.exit.then(() => (this.#hasExited = true));
  }

  async says(word: string): Promise<void> {
    for (;;) {
      const { value, done } = await this.#lines.next();
      if (done) throw new Error(`the gateway ended before it said ${word}`);
      if (value === word) return;
    }
  }

  async kill(signal: NodeJS.Signals): Promise<number | null> {
    const fromMs = Date.now();
    // Deno calls a child that child.kill() was used on killed, however it ended; so the signal is sent by hand.
    if (!this.#hasExited) process.kill(this.#child.process.pid!, signal);
    const code = await this.#child.exit;
    if (this.#isCounted) return code;
    this.#isCounted = true;
    // The platform runs in this process, which may have been busy: what came before this request is taken before its answer.
    await (await fetch(this.#place.platform, { headers: { connection: "close" } })).text();
    this.#place.kills.push({ fromMs, untilMs: Date.now() });
    return code;
  }
}

export async function createCronPlace(options: CronPlaceOptions): Promise<CronContext> {
  const home = await realpath(await mkdtemp(join(tmpdir(), "agentd-cron-")));
  const database: TestDatabase = await createTestDatabase();
  const arrivals: CronContext["arrivals"] = [];
  await mkdir(join(home, "scripts"), { recursive: true });
  for (const [name, script] of Object.entries(options.scripts ?? {})) {
    await writeFile(join(home, "scripts", name), script);
  }
  const { factor, epochMs } = options;
  const compression: Compression = { originMs: Date.now(), epochMs, factor };
  const clock = new CompressedClock(compression);
  const store = await openStore({ url: database.url, now: () => clock.now() });
  const server = await openPlatform({ arrivals, clock }, options.answer);
  const child = { home, database: database.url, compression, platform: server.url };
  return new CronContext({ store, arrivals, child }, [
    () => store.close(),
    () => server.close(),
    () => database.drop(),
    () => rm(home, { recursive: true, force: true }),
  ]);
}

/** Takes notifications, as Home Assistant does; the id is the message's own. */
async function openPlatform(
  { arrivals, clock }: Pick<CronContext, "arrivals" | "clock">,
  answer: CronPlaceOptions["answer"] = (response) => void response.end("[]"),
): Promise<{ readonly url: string; close(): Promise<unknown> }> {
  const server = createServer(async (request, response) => {
    response.on("error", () => {});
    if (request.method === "GET") return void response.end();
    const body = await text(request).catch(() => undefined);
    if (body === undefined) return;
    const { notification_id: id, message } = JSON.parse(body) as { notification_id: string; message: string };
    arrivals.push({ id, text: message, atMs: clock.now() });
    response.setHeader("content-type", "application/json");
    answer(response, arrivals.length);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { url, close };
}
