import { setTimeout as sleep } from "node:timers/promises";
import { KEY } from "../harness/service.ts";
import { startServer, type Server } from "./child.ts";
import { median, percentile, runAlone, type BenchRow } from "./row.ts";
import { BareSocket, toFrame } from "./socket-client.ts";

const PATH = `/api/ws?token=${KEY}`;
const CLIENTS = 64;
const ROUNDS = 5;
const ROUND_MS = 2_000;
const SESSIONS = 100;
const STALLED = 10;
const DELTAS = 100;
const PACE_MS = 40;
/** Between the beginnings of two turns. */
const APART_MS = 10;
/** Each stalled socket asks for so many of the largest answers there are, and reads none. */
const UNREAD = 120;
/** Characters of such an answer, at least. */
const LARGE = 50_000;
const MEGABYTE = 1_048_576;

interface Round {
  readonly perSecond: number;
  readonly cpuMicros: number;
}

/** Calls on a WebSocket against a bare echo of the same bytes, and many sessions that stream at once. */
export async function run(): Promise<readonly BenchRow[]> {
  await using service = await startServer("service");
  return [...(await roundTrips(service)), ...(await streams(service))];
}

async function roundTrips(service: Server): Promise<readonly BenchRow[]> {
  const host = await Host.open(service);
  const { session_id: id } = (await host.call("session.create", {})) as { session_id: string };
  const request = JSON.stringify({
    jsonrpc: "2.0",
    id: "r1",
    method: "session.usage",
    params: { session_id: id },
  });
  const answer = await host.answer(request);
  if (!answer.includes('"result"')) throw new Error(`session.usage was answered ${answer}`);
  await using bare = await startServer("bare", answer);
  const exchange = { request, answer };
  for (const server of [service, bare]) await round(server, exchange);
  const ours: Round[] = [];
  const control: Round[] = [];
  for (let i = 0; i < ROUNDS; i++) {
    ours.push(await round(service, exchange));
    control.push(await round(bare, exchange));
  }
  host.close();
  const rate = median(ours.map(({ perSecond }) => perSecond));
  const bareRate = median(control.map(({ perSecond }) => perSecond));
  const cpu = median(ours.map(({ cpuMicros }) => cpuMicros));
  const bareCpu = median(control.map(({ cpuMicros }) => cpuMicros));
  return [
    {
      name: `session.usage on a socket, ${CLIENTS} clients`,
      value: rate,
      unit: "requests/s",
      control: bareRate,
      ratio: rate / bareRate,
      goal: ">= 0.7x",
      met: rate / bareRate >= 0.7,
    },
    { name: "server CPU for session.usage", value: cpu, unit: "us", control: bareCpu, ratio: cpu / bareCpu },
  ];
}

interface Exchange {
  readonly request: string;
  readonly answer: string;
}

/** One request after the other on every socket. */
async function round(server: Server, { request, answer }: Exchange): Promise<Round> {
  const bytes = toFrame(request);
  const before = await server.cpuMicros();
  const startMs = performance.now();
  const counts = await Promise.all(
    Array.from({ length: CLIENTS }, () => repeat(server, { bytes, answer, untilMs: startMs + ROUND_MS })),
  );
  const seconds = (performance.now() - startMs) / 1_000;
  const answers = counts.reduce((sum, count) => sum + count, 0);
  return { perSecond: answers / seconds, cpuMicros: ((await server.cpuMicros()) - before) / answers };
}

interface Repeated {
  readonly bytes: Uint8Array;
  readonly answer: string;
  readonly untilMs: number;
}

async function repeat(server: Server, { bytes, answer, untilMs }: Repeated): Promise<number> {
  let count = 0;
  const done = Promise.withResolvers<void>();
  const socket = await BareSocket.open(server.url, PATH, (text) => {
    // The first frame of the gateway; the echo has none.
    if (text.includes("gateway.ready")) return;
    if (text !== answer) return done.reject(new Error(`the answer was ${text}`));
    count++;
    if (performance.now() < untilMs) socket.write(bytes);
    else done.resolve();
  });
  socket.write(bytes);
  await done.promise;
  socket.close();
  return count;
}

/** Sessions that stream at once, each on a socket of its own, while others are followed by sockets that do not read. */
async function streams(service: Server): Promise<readonly BenchRow[]> {
  const hosts = await Promise.all(Array.from({ length: SESSIONS }, () => Host.open(service)));
  const ids = await Promise.all(
    hosts.map(async (host) => ((await host.call("session.create", {})) as { session_id: string }).session_id),
  );
  const large = await hosts[0]?.answer('{"jsonrpc":"2.0","id":"large","method":"rpc.discover"}');
  if ((large?.length ?? 0) < LARGE) throw new Error(`the largest answer is ${large}`);
  const before = await service.memory();
  const stalled = await Promise.all(Array.from({ length: STALLED }, () => stall(service, ids)));
  // What they asked for has been answered, as far as it goes.
  await hosts[0]?.call("ping", {});
  const text = `deltas ${DELTAS} ${PACE_MS}`;
  await Promise.all(
    hosts.map(async (host, at) => {
      // People do not press return in the same millisecond; all stream together for most of the time.
      await sleep(at * APART_MS);
      await host.turn(ids[at] ?? "", text);
    }),
  );
  const after = await service.memory();
  const lateness = hosts.flatMap((host) => host.lateness);
  const whole = hosts.filter((host) => host.isWhole).length;
  if (whole !== SESSIONS)
    throw new Error(`the events of ${whole} of ${SESSIONS} sessions came whole and in order`);
  for (const host of [...hosts, ...stalled]) host.close();
  const grown = (after.used - before.used) / MEGABYTE;
  // Of each stalled socket there may wait as much as the outbox takes, and the same again on its way out.
  const most = STALLED * 16 + 64;
  return [
    {
      name: `control events of ${SESSIONS} streams at once, p99 lateness`,
      value: percentile(lateness, 99),
      unit: "ms",
      goal: "<= 100 ms",
      met: percentile(lateness, 99) <= 100,
    },
    {
      name: `memory for ${STALLED} sockets that do not read`,
      value: grown,
      unit: "MB",
      goal: `<= ${most} MB`,
      met: grown <= most,
    },
  ];
}

/** Follows ten of the sessions, asks for much, and reads nothing from then on. */
async function stall(service: Server, ids: readonly string[]): Promise<Host> {
  const host = await Host.open(service);
  for (const id of ids.slice(0, 10)) await host.call("session.activate", { session_id: id });
  host.socket.pause();
  for (let n = 0; n < UNREAD; n++) host.socket.send(`{"jsonrpc":"2.0","id":"d${n}","method":"rpc.discover"}`);
  return host;
}

interface Event {
  readonly type: string;
  readonly ts: number;
  readonly seq?: number;
  readonly first_seq?: number;
  readonly turn_id?: string;
  readonly payload: { readonly dropped?: number; readonly running?: boolean };
}

class Host {
  readonly lateness: number[] = [];
  socket!: BareSocket;
  #next = 1;
  #lastSeq: number | undefined;
  #hasGap = false;
  #completes = 0;
  readonly #waiting = new Map<string, (text: string) => void>();
  readonly #ended = Promise.withResolvers<void>();

  static async open(service: Server): Promise<Host> {
    const host = new Host();
    host.socket = await BareSocket.open(service.url, PATH, (text) => host.#take(text));
    return host;
  }

  /** Every number came, once and in order, and the turn ended once. */
  get isWhole(): boolean {
    return !this.#hasGap && this.#completes === 1;
  }

  async call(method: string, params: object): Promise<unknown> {
    const id = `c${this.#next++}`;
    const { result, error } = JSON.parse(
      await this.answer(JSON.stringify({ jsonrpc: "2.0", id, method, params })),
    );
    if (error) throw new Error(`${method}: ${JSON.stringify(error)}`);
    return result;
  }

  /** The answer as it came. */
  answer(request: string): Promise<string> {
    const { id } = JSON.parse(request);
    this.socket.send(request);
    return new Promise((resolve) => this.#waiting.set(id, resolve));
  }

  async turn(sessionId: string, text: string): Promise<void> {
    await this.call("prompt.submit", { session_id: sessionId, text });
    await this.#ended.promise;
  }

  close(): void {
    this.socket.close();
  }

  #take(text: string): void {
    const { id, method, params } = JSON.parse(text) as { id?: string; method?: string; params: Event };
    if (method === "event") return this.#event(params);
    this.#waiting.get(id ?? "")?.(text);
  }

  #event({ type, ts, seq, first_seq: first = seq, payload }: Event): void {
    if (!type.endsWith(".delta") && type !== "gateway.ready") this.lateness.push(Date.now() - ts);
    if (payload.dropped !== undefined) this.#hasGap = true;
    if (type === "message.complete") this.#completes++;
    if (seq !== undefined && first !== undefined) {
      if (this.#lastSeq !== undefined && first !== this.#lastSeq + 1) this.#hasGap = true;
      this.#lastSeq = seq;
    }
    if (type === "session.info" && seq === undefined && this.#completes > 0) this.#ended.resolve();
  }
}

await runAlone(import.meta.url, run);
