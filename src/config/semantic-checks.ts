/** Checks of a configuration that a schema cannot express. Pure. */
import type { Config } from "../../generated/config/types.gen.ts";
import { zoneHint } from "../base/zone.ts";
import type { Problem } from "./issue.ts";

export const MIN_KEY_LENGTH = 16;
/** In place of a key: no key is required. */
export const NO_AUTH = "INSECURE_NO_AUTH";

/** Returns the problems of a configuration that matches the schema and has its defaults. */
export function checkMeaning(config: Config): readonly Problem[] {
  return [
    ...providerProblems(config),
    ...keyProblems(config),
    ...originProblems(config),
    ...zoneProblems(config),
  ];
}

function providerProblems({ model }: Config): readonly Problem[] {
  return Object.entries(model.providers).flatMap(([name, provider]) => {
    const path = ["model", "providers", name];
    const problems: Problem[] = [];
    if (name === "demo") {
      problems.push({
        path,
        message: "is the name of the built-in model; choose another name",
        kind: "invalid",
      });
    }
    if (provider.type === "openai_compatible" && provider.base_url === undefined) {
      const message = "is required for the type openai_compatible";
      problems.push({ path: [...path, "base_url"], message, kind: "missing" });
    }
    return problems;
  });
}

function keyProblems({ api_server: { key, keys, webhook_secret: secret } }: Config): readonly Problem[] {
  const problems: Problem[] = [];
  if (isShort(key)) problems.push(short(["api_server", "key"]));
  if (isShort(secret)) problems.push(short(["api_server", "webhook_secret"]));
  for (const [index, each] of keys.entries()) {
    const path = ["api_server", "keys", index];
    if ((each.key === undefined) === (each.key_sha256 === undefined)) {
      problems.push({ path, message: "must have either key or key_sha256", kind: "invalid" });
    }
    if (each.key === NO_AUTH) {
      const message = `${NO_AUTH} belongs in api_server.key, without other keys`;
      problems.push({ path: [...path, "key"], message, kind: "invalid" });
    }
    if (isShort(each.key)) problems.push(short([...path, "key"]));
  }
  if (key === NO_AUTH && keys.length > 0) {
    const message = `must be empty while api_server.key is ${NO_AUTH}, which requires no key`;
    problems.push({ path: ["api_server", "keys"], message, kind: "invalid" });
  }
  return problems;
}

function originProblems({ api_server: { key, cors_origins: origins } }: Config): readonly Problem[] {
  if (key !== NO_AUTH || !origins.includes("*")) return [];
  const message = `must name the origins while api_server.key is ${NO_AUTH}: any web page could run commands here`;
  return [{ path: ["api_server", "cors_origins"], message, kind: "invalid" }];
}

function zoneProblems({ timezone }: Config): readonly Problem[] {
  const hint = timezone === undefined ? undefined : zoneHint(timezone);
  if (hint === undefined) return [];
  return [{ path: ["timezone"], message: `is not the name of a time zone${hint}`, kind: "invalid" }];
}

function isShort(key: string | undefined): boolean {
  return key !== undefined && !key.startsWith("env:") && key.length < MIN_KEY_LENGTH;
}

function short(path: Problem["path"]): Problem {
  return { path, message: `must have at least ${MIN_KEY_LENGTH} characters`, kind: "invalid" };
}
