/** Methods about what commands run in the background. */
import { ServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe/redact.ts";
import type { ProcessView } from "../../agent/tools/process/processes.ts";
import type { RpcGroup } from "../connection/contract.ts";
import { namedSession } from "../session/known-session.ts";
import type { RpcContext } from "../deps.ts";

type Names = "process.list" | "process.kill" | "process.stop";

export const processMethods: RpcGroup<Names, RpcContext> = {
  "process.list": async ({ params, ctx }) => {
    const views = await ownProcesses(ctx, params.session_id);
    return {
      processes: views.map((view) => ({
        process_id: view.id,
        command: redact(view.command),
        status: statusOf(view),
        started_at: view.startedAtMs / 1000,
        session_id: view.sessionId,
      })),
    };
  },

  "process.kill": async ({ params, ctx }) => {
    const view = (await ownProcesses(ctx, params.session_id)).find(({ id }) => id === params.process_id);
    if (!view) {
      throw new ServiceError(
        "no_such_process",
        "There is no such process. process.list shows those there are.",
        {
          param: "process_id",
        },
      );
    }
    return { killed: (await ctx.deps.processes.kill(view.id, view.sessionId)) ? 1 : 0 };
  },

  "process.stop": async ({ params, ctx }) => {
    const running = (await ownProcesses(ctx, params.session_id)).filter(({ end }) => end === undefined);
    const killed = await Promise.all(
      running.map(({ id, sessionId }) => ctx.deps.processes.kill(id, sessionId)),
    );
    return { killed: killed.filter(Boolean).length };
  },
};

/** Those of the caller's sessions, or of one. */
async function ownProcesses(ctx: RpcContext, sessionId: string | undefined): Promise<readonly ProcessView[]> {
  await namedSession(ctx, sessionId);
  const views = ctx.deps.processes.list(sessionId === undefined ? {} : { sessionId });
  if (sessionId !== undefined || views.length === 0) return views;
  const ids = [...new Set(views.map((view) => view.sessionId))];
  const rows = await ctx.deps.store.read
    .selectFrom("sessions")
    .select("id")
    .where("id", "in", ids)
    .where("owner", "=", ctx.peer.identity.owner)
    .execute();
  const own = new Set(rows.map(({ id }) => id));
  return views.filter((view) => own.has(view.sessionId));
}

function statusOf({ end }: ProcessView): string {
  if (!end) return "running";
  if (end.stoppedBy !== undefined) return "killed";
  return end.exitCode === undefined ? (end.signalName ?? "failed") : `exited ${end.exitCode}`;
}
