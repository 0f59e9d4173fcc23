/** Clients of the gateway, whose frames are held to the specs and whose connections a test can cut. */
import {
  connectGateway,
  spawnTransport,
  TransportError,
  webSocketTransport,
  type GatewayClient,
  type GatewayClientEvent,
  type GatewayEvent,
  type GatewayOptions,
  type GatewayTransport,
} from "../../src/client/gateway.ts";
import { agentdCommand, programEnvironment } from "./program.ts";
import { FrameValidator, type Json } from "./rpc.ts";
import { KEY } from "./service.ts";

/** A transport that looks at every frame. */
export interface WatchedTransport extends GatewayTransport {
  /** All frames of the gateway, over all connections. */
  readonly received: readonly Json[];
  /** All frames of the client. */
  readonly sent: readonly Json[];
  /** Connections so far. */
  readonly connections: number;
  /** What did not fit the specs, first. */
  readonly problem: unknown;
  /** Cuts the connection as a broken network would: at once, without a word to the client's transport. */
  cut(): void;
  /** The connection is cut behind what it answers `true` to. */
  cutAt?: (frame: Json) => boolean;
  /** The next connections are opened when it resolves. */
  holds?: Promise<unknown>;
  /** What it answers `true` to never arrives. */
  loses?: (frame: Json) => boolean;
  /** Called before a frame of the client leaves; returns what leaves instead. */
  tamper?: (frame: Json) => Json;
}

export function watched(inner: GatewayTransport): WatchedTransport {
  const validator = new FrameValidator();
  const received: Json[] = [];
  const sent: Json[] = [];
  let connections = 0;
  let problem: unknown;
  let cutNow = () => {};
  const check = (run: () => void) => {
    try {
      run();
    } catch (error) {
      problem ??= error;
    }
  };
  const transport: WatchedTransport = {
    received,
    sent,
    get connections() {
      return connections;
    },
    get problem() {
      return problem;
    },
    cut: () => cutNow(),
    async open(sink, signal) {
      connections += 1;
      await transport.holds;
      let isCut = false;
      const over = (error: TransportError) => {
        if (isCut) return;
        isCut = true;
        sink.cut(error);
      };
      const link = await inner.open(
        {
          cut: over,
          frame: (text) => {
            if (isCut) return;
            const frame = JSON.parse(text) as Json;
            check(() => validator.fromGateway(frame));
            received.push(frame);
            if (!transport.loses?.(frame)) sink.frame(text);
            if (transport.cutAt?.(frame)) cutNow();
          },
        },
        signal,
      );
      cutNow = () => {
        over(new TransportError("cut by the test"));
        link.close();
      };
      return {
        close: () => link.close(),
        send: (text) => {
          if (isCut) return;
          const frame = JSON.parse(text) as Json;
          check(() => validator.fromHost(frame));
          sent.push(frame);
          link.send(transport.tamper ? JSON.stringify(transport.tamper(frame)) : text);
        },
      };
    },
  };
  return transport;
}

export function socketTo(service: { readonly url: string }): WatchedTransport {
  return watched(webSocketTransport({ url: service.url, token: KEY }));
}

/**
 * `agentd rpc` on a home, from source: the client's unit tests run without a build. `pidFile` gets the id of the newest
 * process.
 */
export function processOn(home: string, { pidFile = "/dev/null" } = {}): WatchedTransport {
  return watched(
    spawnTransport({
      command: "/bin/sh",
      args: ["-c", 'echo $$ > "$0"; exec "$@"', pidFile, ...agentdCommand("rpc")],
      env: programEnvironment({ AGENTD_HOME: home }),
    }),
  );
}

/** Connects again without the waits of a real network. */
export function connect(
  transport: GatewayTransport,
  options: Omit<GatewayOptions, "transport"> = {},
): Promise<GatewayClient> {
  return connectGateway({ transport, reconnect: { minMs: 1, maxMs: 20, attempts: 200 }, ...options });
}

/** Reads events until one fits; returns all, that one last. */
export async function readUntil(
  events: AsyncIterator<GatewayClientEvent>,
  fits: (event: GatewayClientEvent) => boolean,
): Promise<GatewayClientEvent[]> {
  const all: GatewayClientEvent[] = [];
  for (;;) {
    const { done, value } = await events.next();
    if (done) throw new Error(`the events ended: ${all.map(({ type }) => type).join(" ")}`);
    all.push(value);
    if (fits(value)) return all;
  }
}

/** Whether the event ends a turn; that one, if it is named. */
export function endsTurn(event: GatewayClientEvent, turnId?: string | null): boolean {
  if (event.type !== "session.info" || event.payload.running) return false;
  return turnId === undefined || event.turn_id === turnId;
}

/** Events with a number: those of the journal, of which each must come once. */
export function numbered(events: readonly GatewayClientEvent[]): GatewayEvent[] {
  return events.filter((event): event is GatewayEvent => "seq" in event && event.seq !== undefined);
}
