/** Methods about the models there are. */
import { isReady } from "../../agent/model.ts";
import type { RpcGroup } from "../contract.ts";
import { namedSession } from "../known-session.ts";
import type { RpcContext } from "../room.ts";
import { modelOf } from "../session-model.ts";

export const modelMethods: RpcGroup<"model.options", RpcContext> = {
  "model.options": async ({ params, ctx }) => {
    const session = await namedSession(ctx, params.session_id);
    const { model, provider } = modelOf(ctx.room, { row: session?.row, seed: session?.live?.seed });
    const providers = ctx.room.agent.parts.models.list().map((each) => ({
      slug: each.name,
      name: each.name,
      models: [...each.models],
      total_models: each.models.length,
      is_current: each.name === provider,
      authenticated: isReady(each),
      ...(isReady(each) ? {} : { warning: "No key is configured for it. `agentd setup` asks for one." }),
    }));
    return { providers, model, provider };
  },
};
