/** A gateway that receives webhooks, as a process to be killed; its model and its target live here and count. */
import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { DeliveryRow, OutboxRow } from "../../src/store/schema/tables.ts";
import { openStore } from "../../src/store/open.ts";
import type { Store } from "../../src/store/store.ts";
import { createGatewayPlace, type GatewayProcess } from "../harness/gateway.ts";
import { calling, startModelServer, type ModelReply } from "../harness/openai-server.ts";
import { openReceiver, type Receiver } from "../harness/receiver.ts";
import { sign } from "../harness/webhook.ts";

/** A machine that is busy with much else takes its time; the runner itself gives a test up soon after. */
const PATIENCE_MS = 100_000;

export interface CrashPlaceOptions {
  /** What the model answers to the delivery of this name; `toolResults`: how many calls of the run ended. */
  readonly model?: (name: string, toolResults: number) => ModelReply;
  readonly answer?: Parameters<typeof openReceiver>[1];
  /** Of the routes `hook` (the agent answers) and `direct` (it does not). */
  readonly route?: Readonly<Record<string, unknown>>;
  readonly scripts?: Readonly<Record<string, string>>;
}

/** What a sender heard; undefined: the connection broke before it was told. */
export type Heard = { readonly status: number; readonly says: string } | undefined;

export class CrashPlace implements AsyncDisposable {
  readonly target: Receiver;
  readonly home: string;
  /** How often the model was asked for each delivery. */
  readonly asked: ReadonlyMap<string, number>;
  readonly store: Store;
  readonly #start: () => Promise<GatewayProcess>;
  readonly #cleanups: readonly (() => Promise<void>)[];

  constructor(
    from: Pick<CrashPlace, "target" | "home" | "asked" | "store">,
    start: () => Promise<GatewayProcess>,
    cleanups: readonly (() => Promise<void>)[],
  ) {
    this.target = from.target;
    this.home = from.home;
    this.asked = from.asked;
    this.store = from.store;
    this.#start = start;
    this.#cleanups = cleanups;
  }

  async start(): Promise<RunningGateway> {
    const process = await this.#start();
    await until(
      () => receiverUrl(process) !== undefined,
      () => process.stderr(),
    );
    return new RunningGateway(process, receiverUrl(process)!);
  }

  /** What was taken, oldest first; not what was known or ignored. */
  async rows(): Promise<readonly DeliveryRow[]> {
    const rows = await this.store.read.selectFrom("deliveries").selectAll().orderBy("id").execute();
    return rows.filter(({ status }) => !["duplicate", "ignored", "refused"].includes(status));
  }

  async untilRows(holds: (rows: readonly DeliveryRow[]) => boolean): Promise<readonly DeliveryRow[]> {
    let rows: readonly DeliveryRow[] = [];
    await until(
      async () => holds((rows = await this.rows())),
      () => JSON.stringify(rows.map((row) => [row.delivery_id, row.status, row.reason])),
    );
    return rows;
  }

  /** Messages of deliveries. */
  async messages(ids: readonly string[]): Promise<readonly OutboxRow[]> {
    const rows = await this.store.read.selectFrom("outbox").selectAll().execute();
    return rows.filter(({ id }) => ids.includes(id));
  }

  async startsOf(runId: string): Promise<number> {
    const started = this.store.read.selectFrom("events").select("seq").where("run_id", "=", runId);
    return (await started.where("type", "=", "run.started").execute()).length;
  }

  /** Names of deliveries whose tool wrote, each as often as it did. */
  async effects(): Promise<readonly string[]> {
    const text = await readFile(join(this.home, "workspace", "effects.txt"), "utf8").catch(() => "");
    return text.split("\n").filter((line) => line !== "");
  }

  /** Ids of the messages that the target got, each as often as it came. */
  get told(): readonly string[] {
    return this.target.received.map(({ headers }) => String(headers["webhook-id"]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const cleanup of this.#cleanups) await cleanup();
  }
}

export class RunningGateway {
  readonly url: string;
  readonly stderr: () => string;
  readonly #process: GatewayProcess;

  constructor(process: GatewayProcess, url: string) {
    this.#process = process;
    this.url = url;
    this.stderr = process.stderr;
  }

  kill(signal: NodeJS.Signals = "SIGKILL"): Promise<number | null> {
    return this.#process.kill(signal);
  }

  async post(route: string, name: string): Promise<Heard> {
    const body = new TextEncoder().encode(JSON.stringify({ name, topic: "one" }));
    const headers = {
      "content-type": "application/json",
      "x-hub-signature-256": sign(body),
      "x-github-delivery": name,
    };
    try {
      const response = await fetch(`${this.url}/webhooks/${route}`, { method: "POST", headers, body });
      const { status = "", error = "" } = (await response.json()) as { status?: string; error?: string };
      return { status: response.status, says: error || status };
    } catch {
      return undefined;
    }
  }
}

export async function createCrashPlace(options: CrashPlaceOptions = {}): Promise<CrashPlace> {
  const cleanups: (() => Promise<void>)[] = [];
  const after = (run: () => Promise<void>) => void cleanups.unshift(run);
  const asked = new Map<string, number>();
  const place = await createGatewayPlace();
  after(async () => place[Symbol.asyncDispose]());
  const model = await startModelServer(({ body }) => {
    const name = /case-[0-9a-z-]+/.exec(JSON.stringify(body.messages))?.[0] ?? "nobody";
    asked.set(name, (asked.get(name) ?? 0) + 1);
    const toolResults = body.messages.filter(({ role }) => role === "tool").length;
    return options.model?.(name, toolResults) ?? defaultReply(name, toolResults);
  });
  after(async () => model[Symbol.asyncDispose]());
  const target = await openReceiver({ after }, options.answer);
  await writeFile(join(place.home, "config.yaml"), JSON.stringify(configOf(options, model.baseUrl, target)));
  await mkdir(join(place.home, "scripts"), { recursive: true });
  for (const [name, text] of Object.entries(options.scripts ?? {})) {
    await writeFile(join(place.home, "scripts", name), text);
  }
  const store = await openStore({ url: place.database });
  after(() => store.close());
  return new CrashPlace({ target, home: place.home, asked, store }, () => place.start(), cleanups);
}

/** The runs of `act` write their name to a file first. */
function defaultReply(name: string, toolResults: number): ModelReply {
  const said = { pieces: [{ text: `done ${name}` }, { finish: "stop" as const }] };
  return name.startsWith("case-act") && toolResults === 0 ? writing(name) : said;
}

/** A call that writes the name of the delivery to a file of its workspace. */
export function writing(name: string, more = ""): ModelReply {
  return calling({
    id: "call_1",
    name: "terminal",
    json: JSON.stringify({ command: `echo ${name} >> effects.txt${more}` }),
  });
}

function configOf({ route }: CrashPlaceOptions, baseUrl: string, target: Receiver) {
  const both = {
    prompt: "see to {name}",
    deliver: "webhook",
    deliver_extra: { url: target.url },
    ...route,
  };
  return {
    model: {
      default: "local:test-model",
      providers: { local: { type: "openai_compatible", base_url: baseUrl, models: ["test-model"] } },
    },
    sessions: { titles: "off" },
    api_server: { webhook_secret: "w".repeat(20), webhook_allowed_hosts: [target.host], drain_seconds: 5 },
    platforms: {
      webhook: {
        enabled: true,
        host: "127.0.0.1",
        port: 0,
        secret: "s3cr3t-of-the-tests",
        rate_limit: 1_000_000,
        routes: {
          hook: both,
          act: { ...both, toolsets: ["terminal"] },
          direct: { ...both, deliver_only: true, coalesce: undefined },
        },
      },
    },
  };
}

function receiverUrl({ stderr }: GatewayProcess): string | undefined {
  const line = stderr()
    .split("\n")
    .find((each) => each.includes('"webhooks are received"'));
  return line === undefined ? undefined : (JSON.parse(line) as { url: string }).url;
}

/** Waits for a fact; fails with `what` was there instead. */
export async function until(holds: () => boolean | Promise<boolean>, what: () => string): Promise<void> {
  const patience = AbortSignal.timeout(PATIENCE_MS);
  while (!(await holds())) {
    if (patience.aborted) assert.fail(`it did not come to that: ${what()}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
