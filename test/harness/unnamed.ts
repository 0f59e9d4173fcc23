import type { Message } from "../../src/agent/engine.ts";

/** A message without the ids under which its texts were told, which are new each time. */
export function unnamed<T>(message: T): T {
  const { parts } = message as Partial<Extract<Message, { role: "assistant" }>>;
  if (!parts) return message;
  return {
    ...message,
    parts: parts.map((part) => {
      if (part.type !== "text") return part;
      const { id: _, ...rest } = part;
      return rest;
    }),
  };
}
