/** Methods about settings: those of a session, and the configuration. */
import type { RpcGroup } from "../connection/contract.ts";
import { namedSession } from "../session/known-session.ts";
import type { RpcContext } from "../deps.ts";
import { readSetting } from "../settings/read.ts";
import { writeSetting } from "../settings/write.ts";

export const configMethods: RpcGroup<"config.get" | "config.set", RpcContext> = {
  "config.get": async ({ params: { key, session_id: id, cwd }, ctx }) =>
    readSetting(ctx, { key, session: await namedSession(ctx, id), cwd }),

  "config.set": async ({ params: { key, value, session_id: id, scope }, ctx }) =>
    writeSetting(ctx, { key, value, session: await namedSession(ctx, id), scope }),
};
