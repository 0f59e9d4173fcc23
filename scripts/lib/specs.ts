/** Which spec files there are, and what becomes of each. */

export interface SpecFile {
  /** Below specs/. */
  readonly source: string;
  /** Below generated/specs/. */
  readonly bundle: string;
  /** Without it nothing can be generated. */
  readonly required: boolean;
}

export const specs = {
  http: { source: "http.openapi.yaml", bundle: "http.openapi.json", required: true },
  gateway: { source: "gateway.openrpc.yaml", bundle: "gateway.openrpc.json", required: true },
  host: { source: "host.openrpc.yaml", bundle: "host.openrpc.json", required: false },
  webhook: { source: "webhook.openapi.yaml", bundle: "webhook.openapi.json", required: false },
  config: { source: "config.schema.yaml", bundle: "config.schema.json", required: true },
} as const satisfies Readonly<Record<string, SpecFile>>;

/** The specs that redocly knows: all but the configuration's. */
export const apiSpecs: readonly SpecFile[] = [specs.http, specs.gateway, specs.host, specs.webhook];
