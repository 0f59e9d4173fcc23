/** The operations about models, usage and tools. Their modules load on demand: most servers never get these requests. */
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { HttpHandlers } from "../edge/contract.ts";

type Names =
  | "getUsage"
  | "listBudgets"
  | "listPrices"
  | "listProviders"
  | "detectProviders"
  | "testModel"
  | "listSkills"
  | "getSkill"
  | "listToolsets"
  | "listTools"
  | "listMcpServers"
  | "reloadMcp";

const budgets = () => import("./budgets.ts");
const providers = () => import("./providers.ts");
const tooling = () => import("./tooling.ts");
const usage = () => import("./usage.ts");

export function usageHandlers(deps: HttpDeps): Pick<HttpHandlers<HttpContext>, Names> {
  return {
    getUsage: async (request) => (await usage()).getUsage(request, deps),
    listBudgets: async (request) => (await budgets()).listBudgets(request, deps),
    listPrices: async (request) => (await providers()).listPrices(request, deps),
    listProviders: async (request) => (await providers()).listProviders(request, deps),
    detectProviders: async (request) => (await providers()).detectProviders(request, deps),
    testModel: async (request) => (await providers()).testModel(request, deps),
    listSkills: async (request) => (await tooling()).listSkills(request, deps),
    getSkill: async (request) => (await tooling()).getSkill(request, deps),
    listToolsets: async (request) => (await tooling()).listToolsets(request, deps),
    listTools: async (request) => (await tooling()).listTools(request, deps),
    listMcpServers: async (request) => (await tooling()).listMcpServers(request, deps),
    reloadMcp: async (request) => (await tooling()).reloadMcp(request, deps),
  };
}
