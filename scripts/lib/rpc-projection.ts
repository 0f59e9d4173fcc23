/** Shows an OpenRPC contract as OpenAPI, for tools that only know that. */
import { componentReference, type BundledDocument, type Schema } from "./document.ts";
import { collectRpcSchemas, readMethods, type RpcMethod } from "./rpc-method.ts";

/**
 * Each method becomes a POST. What the host sends becomes the request and what the gateway sends the response, so the
 * host document, whose methods the gateway calls, is turned round.
 */
export function projectRpc(document: BundledDocument, side: "gateway" | "host"): BundledDocument {
  const paths = readMethods(document).map((method) => [
    `/${method.name}`,
    { post: projectMethod(method, side) },
  ]);
  return {
    openapi: "3.1.1",
    info: document.info,
    paths: Object.fromEntries(paths),
    components: { schemas: collectRpcSchemas([document]) },
  };
}

function projectMethod({ name, paramsName, result }: RpcMethod, side: "gateway" | "host"): object {
  const params = componentReference(paramsName);
  const answer = result === undefined ? undefined : componentReference(result.name);
  const [request, response] = side === "gateway" ? [params, answer] : [answer, params];
  return {
    operationId: name,
    ...(request && { requestBody: { required: true, ...jsonContent(request) } }),
    responses: { "200": { description: "The result.", ...(response && jsonContent(response)) } },
  };
}

function jsonContent(schema: Schema): object {
  return { content: { "application/json": { schema } } };
}
