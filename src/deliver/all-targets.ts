import { ALL } from "./address.ts";
import type { Target } from "./target.ts";

/** What `all` becomes where no platform has a home channel: messages to nobody are refused, not lost in silence. */
export function createAllTarget(): Target {
  const hint = "Set home_channel of a platform, or name the chats in the address.";
  return {
    name: ALL,
    isOrdered: false,
    send: async () => ({ status: "permanent", error: `No platform had a home channel. ${hint}` }),
  };
}
