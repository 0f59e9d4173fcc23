/** The operations of outbound messages and platforms. Their modules load on demand: most servers never get these requests. */
import type { HttpContext, HttpDeps } from "../deps.ts";
import type { HttpHandlers } from "../edge/contract.ts";

type Names =
  | "listMessages"
  | "getMessage"
  | "retryMessage"
  | "dropMessage"
  | "retryMessages"
  | "dropMessages"
  | "listPlatforms"
  | "getPlatform"
  | "testPlatform";

const messages = () => import("./messages.ts");
const platforms = () => import("./platforms.ts");

export function messageHandlers(deps: HttpDeps): Pick<HttpHandlers<HttpContext>, Names> {
  return {
    listMessages: async (request) => (await messages()).listMessages(request, deps),
    getMessage: async (request) => (await messages()).getMessage(request, deps),
    retryMessage: async (request) => (await messages()).retryMessage(request, deps),
    dropMessage: async (request) => (await messages()).dropMessage(request, deps),
    retryMessages: async (request) => (await messages()).retryMessages(request, deps),
    dropMessages: async (request) => (await messages()).dropMessages(request, deps),
    listPlatforms: async (request) => (await platforms()).listPlatforms(request, deps),
    getPlatform: async (request) => (await platforms()).getPlatform(request, deps),
    testPlatform: async (request) => (await platforms()).testPlatform(request, deps),
  };
}
