/** The operations about models, usage and tools. Their modules load on demand: most servers never get these requests. */
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { HttpHandlers } from "../edge/contract.ts";

type Names = "getUsage";

const usage = () => import("./usage.ts");

export function usageHandlers(deps: HttpDeps): Pick<HttpHandlers<HttpContext>, Names> {
  return {
    getUsage: async (request) => (await usage()).getUsage(request, deps),
  };
}
