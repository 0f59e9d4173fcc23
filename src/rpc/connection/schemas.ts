import { schemas } from "../../../generated/gateway/schemas.gen.ts";
import { SchemaSet } from "../../base/json/validate.ts";

/** Validators over the schemas of the gateway's two documents, compiled when they are first used. */
export const rpcSchemas = new SchemaSet(schemas);
