import type { Store } from "../../store/store.ts";
import { changeSettings, sessionNotFound, settingsOf } from "./session.ts";
import type { TodoList } from "../tool/tool.ts";

/** The plan of a session, kept with its settings. */
export function todoListOf(store: Store, sessionId: string): TodoList {
  return {
    read: async () => {
      const row = await store.read
        .selectFrom("sessions")
        .select("meta")
        .where("id", "=", sessionId)
        .executeTakeFirst();
      if (!row) throw sessionNotFound(sessionId);
      return settingsOf(row).todos ?? [];
    },
    write: (todos) => store.write((tx) => changeSettings(tx, sessionId, { todos })),
  };
}
