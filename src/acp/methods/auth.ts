/** Methods about what the agent needs before it can work. */
import type { AcpGroup } from "../contract.ts";
import { invalidParams } from "../error.ts";
import { refreshProvider } from "../provider.ts";

export const authMethods: AcpGroup<"authenticate"> = {
  authenticate: async ({ params }, connection) => {
    if (params.methodId !== "provider") {
      throw invalidParams("methodId", `There is no way to sign in named ${JSON.stringify(params.methodId)}.`);
    }
    await refreshProvider(connection);
    return {};
  },
};
