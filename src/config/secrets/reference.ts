/** References to secrets, which stand in the environment. Pure. */
import { ServiceError } from "../../base/errors.ts";
import type { Environment } from "../home.ts";

/**
 * What `value` stands for: of `env:NAME` the variable, else itself. ServiceError `invalid_config` when the variable is
 * not set; `path` is the key that holds the reference.
 */
export function resolveSecret(value: string, env: Environment, path: string): string {
  if (!value.startsWith("env:")) return value;
  const name = value.slice("env:".length);
  const found = env[name];
  if (found) return found;
  throw new ServiceError(
    "invalid_config",
    `${path} refers to the variable ${name}, which is not set. Set it in the environment or in .env.`,
    { param: path },
  );
}
