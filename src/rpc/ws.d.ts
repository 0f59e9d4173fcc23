/** What is used of the package `ws`, which brings no types. */
declare module "ws" {
  import type { EventEmitter } from "node:events";
  import type { IncomingMessage } from "node:http";
  import type { Duplex } from "node:stream";

  export class WebSocket extends EventEmitter {
    readonly bufferedAmount: number;
    send(text: string): void;
    close(code: number, reason: string): void;
    ping(): void;
    terminate(): void;
  }
  export class WebSocketServer extends EventEmitter {
    constructor(options: {
      readonly noServer: true;
      readonly maxPayload: number;
      readonly perMessageDeflate: false;
      readonly skipUTF8Validation?: boolean;
    });
    handleUpgrade(
      request: IncomingMessage,
      socket: Duplex,
      head: Uint8Array,
      accepted: (socket: WebSocket) => void,
    ): void;
  }
}
