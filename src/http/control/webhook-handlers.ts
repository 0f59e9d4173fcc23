/** The operations of webhook routes and deliveries. Their modules load on demand: most servers never get these requests. */
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { HttpHandlers } from "../edge/contract.ts";

type Names =
  | "listRoutes"
  | "getRoute"
  | "createRoute"
  | "updateRoute"
  | "deleteRoute"
  | "rotateRouteSecret"
  | "testRoute"
  | "listDeliveries"
  | "getDelivery"
  | "replayDelivery";

const routes = () => import("./routes.ts");
const deliveries = () => import("./deliveries.ts");

export function webhookHandlers(deps: HttpDeps): Pick<HttpHandlers<HttpContext>, Names> {
  return {
    listRoutes: async (request) => (await routes()).listRoutes(request, deps),
    getRoute: async (request) => (await routes()).getRoute(request, deps),
    createRoute: async (request) => (await routes()).createRoute(request, deps),
    updateRoute: async (request) => (await routes()).updateRoute(request, deps),
    deleteRoute: async (request) => (await routes()).deleteRoute(request, deps),
    rotateRouteSecret: async (request) => (await routes()).rotateRouteSecret(request, deps),
    testRoute: async (request) => (await routes()).testRoute(request, deps),
    listDeliveries: async (request) => (await deliveries()).listDeliveries(request, deps),
    getDelivery: async (request) => (await deliveries()).getDelivery(request, deps),
    replayDelivery: async (request) => (await deliveries()).replayDelivery(request, deps),
  };
}
