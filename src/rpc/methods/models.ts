/** Methods about the models there are. */
import type { RpcGroup } from "../contract.ts";
import { namedSession } from "../known-session.ts";
import type { RpcContext } from "../room.ts";
import { modelOf } from "../session-view.ts";

export const modelMethods: RpcGroup<"model.options", RpcContext> = {
  "model.options": async ({ params, ctx }) => {
    const session = await namedSession(ctx, params.session_id);
    const { model, provider } = modelOf(ctx.room, { row: session?.row, seed: session?.live?.seed });
    const providers = ctx.room.agent.parts.models.list().map((each) => ({
      slug: each.name,
      name: each.name,
      models: [...each.models],
      is_current: each.name === provider,
      ...(each.hasKey ? {} : { warning: "No key is configured for it." }),
    }));
    return { providers, model, provider };
  },
};
