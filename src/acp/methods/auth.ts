/** Methods about what the agent needs before it can work. */
import { shorten } from "../../base/text.ts";
import type { AcpGroup } from "../wire/contract.ts";
import { invalidParams } from "../wire/error.ts";
import { refreshProvider } from "../settings/provider.ts";

export const authMethods: AcpGroup<"authenticate"> = {
  authenticate: async ({ params }, connection) => {
    if (params.methodId !== "provider") {
      throw invalidParams(
        "methodId",
        `There is no way to sign in named ${JSON.stringify(shorten(params.methodId, 80))}.`,
      );
    }
    await refreshProvider(connection);
    return {};
  },
};
