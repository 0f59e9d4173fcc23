import { ServiceError } from "../../base/errors.ts";

/** Of a field that was said wrongly; `param` is its name in snake case, as tools and files write it. */
export function refusal(param: string, message: string): ServiceError {
  return new ServiceError("invalid_request", message, { param });
}
