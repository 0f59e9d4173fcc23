/** Methods about background processes. */
import { ServiceError } from "../../base/errors.ts";
import { redact } from "../../base/observe.ts";
import type { RpcGroup, RpcContext } from "../deps.ts";
import { namedSession } from "../session/session.ts";

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
      throw new ServiceError("no_such_process", "No such process exists. process.list shows all processes.", {
        param: "process_id",
      });
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

type ProcessView = ReturnType<RpcContext["deps"]["processes"]["list"]>[number];

/** Returns the processes of one session, or of all the caller's sessions. */
async function ownProcesses(ctx: RpcContext, sessionId: string | undefined): Promise<readonly ProcessView[]> {
  await namedSession(ctx, sessionId);
  const views = ctx.deps.processes.list(sessionId === undefined ? {} : { sessionId });
  if (sessionId !== undefined || views.length === 0) return views;
  const ids = [...new Set(views.map((view) => view.sessionId))];
  const sessions = await ctx.deps.agent.sessions.reads.byId(ids);
  const { owner } = ctx.peer.identity;
  return views.filter((view) => sessions.get(view.sessionId)?.owner === owner);
}

function statusOf({ end }: ProcessView): string {
  if (!end) return "running";
  if (end.stoppedBy !== undefined) return "killed";
  return end.exitCode === undefined ? (end.signalName ?? "failed") : `exited ${end.exitCode}`;
}
