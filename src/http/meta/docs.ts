import type { HttpResponse } from "../edge/contract.ts";

/** How long a browser may keep the page; it changes only with the program. */
const CACHE_SECONDS = 300;

/** GET /docs: the API reference as one page. It is large and rarely asked for, so only the first request loads it. */
export async function getDocs(): Promise<HttpResponse<"getDocs">> {
  const { docsPage, docsPolicy } = await import("../../../generated/reference/docs.gen.ts");
  return {
    status: 200,
    headers: {
      "content-security-policy": docsPolicy,
      "x-content-type-options": "nosniff",
      "cache-control": `public, max-age=${CACHE_SECONDS}`,
    },
    raw: docsPage,
    contentType: "text/html; charset=utf-8",
  };
}
