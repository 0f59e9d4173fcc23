/** Checks whether a process listens at an address. Touches the machine. */
import { connect } from "node:net";

/** Resolves to whether the address accepts a connection within `timeoutMs`; the connection is closed at once. */
export function isListening(
  { hostname, port }: { readonly hostname: string; readonly port: number },
  timeoutMs: number,
): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port });
    const done = (found: boolean) => {
      socket.destroy();
      resolve(found);
    };
    socket.setTimeout(timeoutMs, () => done(false));
    socket.once("connect", () => done(true));
    socket.once("error", () => done(false));
  });
}
