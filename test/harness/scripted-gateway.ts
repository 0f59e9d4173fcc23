/** A gateway that a test holds in its hand, for what a real one cannot be made to do: silence, floods, refusals. */
import { stdioTransport, type GatewayTransport } from "../../src/client/gateway.ts";
import type { Json } from "./rpc.ts";

export interface ScriptedGateway {
  /** Each connection gets a new pair of pipes. */
  readonly transport: GatewayTransport;
  /** All frames of the client. */
  readonly sent: readonly Json[];
  readonly connections: number;
  /** The newest connection ends. */
  cut(): void;
  /** An event, on the newest connection. */
  tell(params: Json): void;
}

export interface ScriptedOptions {
  readonly heartbeat?: boolean;
  /** Of the connection with this number, from 1. */
  readonly epoch?: (connection: number) => string;
  /** Answers a request; undefined: with an empty result, null: not at all. */
  readonly answer?: (request: Json) => Json | null | undefined;
  /** The error that answers a request instead. */
  readonly refuse?: (request: Json) => Json | undefined;
  /** Called before each connection; what it throws hinders it. */
  readonly admit?: () => void;
}

/** It is ready at once. */
export function createScriptedGateway(options: ScriptedOptions = {}): ScriptedGateway {
  const { heartbeat = false, epoch = () => "e", answer = () => undefined, admit = () => {} } = options;
  const { refuse = () => undefined } = options;
  const sent: Json[] = [];
  let connections = 0;
  let send: (frame: Json) => void = () => {};
  let cut = () => {};
  const tell = (params: Json) => send({ jsonrpc: "2.0", method: "event", params });
  return {
    sent,
    tell,
    cut: () => cut(),
    get connections() {
      return connections;
    },
    transport: {
      async open(sink, signal) {
        connections += 1;
        admit();
        const out = new TransformStream<Uint8Array, Uint8Array>(
          {},
          { highWaterMark: 1e9 },
          { highWaterMark: 1e9 },
        );
        const writer = out.writable.getWriter();
        send = (frame) =>
          void writer.write(new TextEncoder().encode(`${JSON.stringify(frame)}\n`)).catch(() => {});
        cut = () => void writer.close().catch(() => {});
        let rest = "";
        const writable = new WritableStream<Uint8Array>({
          write: (bytes) => {
            const lines = (rest + new TextDecoder().decode(bytes)).split("\n");
            rest = lines.pop() ?? "";
            for (const request of lines.map((line) => JSON.parse(line) as Json)) {
              sent.push(request);
              const error = request.method === undefined ? undefined : refuse(request);
              if (error) {
                send({ jsonrpc: "2.0", id: request.id, error });
                continue;
              }
              const result = request.method === undefined ? null : answer(request);
              if (result !== null) send({ jsonrpc: "2.0", id: request.id, result: result ?? {} });
            }
          },
          close: () => writer.close().catch(() => {}),
        });
        const link = await stdioTransport({ readable: out.readable, writable }).open(sink, signal);
        tell({
          type: "gateway.ready",
          ts: 0,
          payload: {
            protocol: { name: "agent-tui-gateway", version: 1, min_version: 1 },
            server: { name: "scripted", version: "0" },
            replay_epoch: epoch(connections),
            heartbeat,
            limits: { max_frame_bytes: 1_000_000 },
          },
        });
        return link;
      },
    },
  };
}
