/** Methods about what the agent needs before it can work. */
import { clipped } from "../content-text.ts";
import type { AcpGroup } from "../contract.ts";
import { invalidParams } from "../error.ts";
import { refreshProvider } from "../provider.ts";

export const authMethods: AcpGroup<"authenticate"> = {
  authenticate: async ({ params }, connection) => {
    if (params.methodId !== "provider") {
      throw invalidParams(
        "methodId",
        `There is no way to sign in named ${JSON.stringify(clipped(params.methodId, 80))}.`,
      );
    }
    await refreshProvider(connection);
    return {};
  },
};
