import { schemas } from "../../../generated/http/schemas.gen.ts";
import { SchemaSet } from "../../base/json/validate.ts";

/** Validators over the schemas of the HTTP spec, compiled when they are first used. */
export const specSchemas = new SchemaSet(schemas);
