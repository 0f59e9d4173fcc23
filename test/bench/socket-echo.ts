import type { Message, Peer } from "crossws";

/** The least a server can do for the same exchange on a socket: each message is answered with the same bytes. */
export function echoSockets(answer: string) {
  const message = (peer: Peer, _message: Message) => void peer.send(answer);
  return {
    plugin: async () => {
      const { plugin } = await import("crossws/server");
      const options = { node: { serverOptions: { perMessageDeflate: false } } };
      return plugin({ message, options });
    },
  };
}
