/** Parts of the JSON Schemas of tools. */
type Schema = Readonly<Record<string, unknown>>;

/** Returns the schema of an object with these properties and no others. */
export const closedObject = (properties: Schema, required: readonly string[] = []): Schema => ({
  type: "object",
  additionalProperties: false,
  ...(required.length > 0 ? { required } : {}),
  properties,
});

/** Returns the schema of a text that is not empty. */
export const nonEmptyText = (maxLength: number, description?: string): Schema => ({
  type: "string",
  minLength: 1,
  maxLength,
  ...(description === undefined ? {} : { description }),
});

/** Returns the schema of a text that may be empty. */
export const freeText = (maxLength: number, description: string): Schema => ({
  type: "string",
  maxLength,
  description,
});

export const integer = (minimum: number, maximum: number, description: string): Schema => ({
  type: "integer",
  minimum,
  maximum,
  description,
});

export const flag = (description: string): Schema => ({ type: "boolean", description });
