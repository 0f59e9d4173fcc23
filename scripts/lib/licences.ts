/** The licences of the packages inside the bundle: they ask to be passed on with it. Touches the machine. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

interface Package {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
}

/** Returns the names, versions and licence texts of the packages that `inputs`, paths below `root`, belong to. */
export async function licenceTexts(root: string, inputs: readonly string[]): Promise<string> {
  const folders = new Set(inputs.flatMap((path) => packageFolder(path) ?? []));
  const texts = await Promise.all([...folders].toSorted().map((folder) => licenceText(join(root, folder))));
  return `The program contains these packages.\n\n${texts.join("\n\n")}`;
}

/** Returns the folder of the innermost package that the file belongs to. */
function packageFolder(path: string): string | undefined {
  return /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0];
}

async function licenceText(folder: string): Promise<string> {
  const own = JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as Package;
  const files = (await readdir(folder)).filter((file) => /^(licen[sc]e|copying|notice)\b/i.test(file));
  const texts = await Promise.all(files.toSorted().map((file) => readFile(join(folder, file), "utf8")));
  const title = `${own.name} ${own.version} (${own.license ?? "see below"})`;
  return [title, "-".repeat(title.length), ...texts.map((text) => text.trim())].join("\n");
}
