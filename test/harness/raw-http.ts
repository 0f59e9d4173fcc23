/** HTTP by hand: what no client library would send. */
import { connect, type Socket } from "node:net";

export interface RawConnection extends Disposable {
  write(text: string | Uint8Array): void;
  /** What has come so far, once it matches. */
  until(pattern: RegExp): Promise<string>;
  /** All that came, once the other side has closed. */
  closed(): Promise<string>;
  /** Cuts the connection, as a client that dies does. */
  cut(): void;
}

const PATIENCE_MS = 60_000;

export async function openRaw(url: string): Promise<RawConnection> {
  const { hostname, port } = new URL(url);
  const socket: Socket = connect(Number(port), hostname);
  let text = "";
  let isClosed = false;
  const changed = new EventTarget();
  const tell = () => changed.dispatchEvent(new Event("change"));
  socket.setEncoding("latin1");
  socket.on("data", (piece) => {
    text += String(piece);
    tell();
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    isClosed = true;
    tell();
  });
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });
  const wait = async (isDone: () => boolean, what: string): Promise<string> => {
    const patience = AbortSignal.timeout(PATIENCE_MS);
    while (!isDone()) {
      if (patience.aborted) throw new Error(`${what} did not come; there is: ${text}`);
      await new Promise<void>((resolve) => {
        changed.addEventListener("change", () => resolve(), { once: true });
        patience.addEventListener("abort", () => resolve(), { once: true });
      });
    }
    return text;
  };
  return {
    write: (piece) => void socket.write(piece),
    until: (pattern) => wait(() => pattern.test(text), String(pattern)),
    closed: () => wait(() => isClosed, "the end"),
    cut: () => void socket.destroy(),
    [Symbol.dispose]: () => void socket.destroy(),
  };
}

/** The first answer in what came, as fetch would give it. */
export function responseOf(text: string): Response {
  const [, status = "0", lines = "", body = ""] =
    /^HTTP\/1\.1 (\d{3})[^\r]*\r\n(.*?)\r\n\r\n(.*)$/s.exec(text) ?? [];
  const headers = new Headers();
  for (const line of lines.split("\r\n")) {
    const [name = "", ...value] = line.split(":");
    headers.append(name, value.join(":").trim());
  }
  const length = headers.get("content-length");
  return new Response(length === null ? body : body.slice(0, Number(length)), {
    status: Number(status),
    headers,
  });
}
