/** Methods about the models there are. */
import { isReady } from "../../agent/model.ts";
import type { RpcGroup } from "../connection/contract.ts";
import { namedSession } from "../session/known-session.ts";
import type { RpcContext } from "../deps.ts";
import { modelOf } from "../session/session-model.ts";

export const modelMethods: RpcGroup<"model.options", RpcContext> = {
  "model.options": async ({ params, ctx }) => {
    const session = await namedSession(ctx, params.session_id);
    const { model, provider } = modelOf(ctx.deps, { row: session?.row, seed: session?.live?.seed });
    const providers = ctx.deps.agent.deps.models.list().map((each) => ({
      slug: each.name,
      name: each.name,
      // Hosts choose one as `<model> --provider <slug>`: without the provider in front.
      models: each.models.map((model) => model.slice(each.name.length + 1)),
      total_models: each.models.length,
      is_current: each.name === provider,
      authenticated: isReady(each),
      ...(isReady(each) ? {} : { warning: "No key is configured for it. `agentd setup` asks for one." }),
    }));
    return { providers, model, provider };
  },
};
