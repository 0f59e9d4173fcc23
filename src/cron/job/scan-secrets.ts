/** Commands that send secrets over the network. Pure. */

const COMMAND = /\b(?:curl|wget)\b(?:\\\n|[^\n]){0,2000}/gi;
const SECRET = /\$\{?\w{0,64}(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API)\w{0,64}/gi;
/** How one logs in at a code host. */
const LOGIN =
  /(?:-H|--header)[=\s]*["']?(?:authorization:\s*(?:token|bearer|basic)?|(?:private|job|deploy)-token:)\s*$|(?:-u|--user)[=\s]*["']?[\w.-]{0,64}:?$/i;
const CODE_HOSTS = ["github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "gitea.com", "sr.ht"];
const LOGIN_CHARACTERS = 120;

/**
 * The start of a command that puts a secret variable into a request; undefined when there is none. To log in at a code host
 * is no leak.
 */
export function leaksSecret(text: string): string | undefined {
  for (const [command] of text.matchAll(COMMAND)) {
    const secrets = [...command.matchAll(SECRET)];
    if (secrets.length === 0) continue;
    const logsIn = secrets.every(({ index }) =>
      LOGIN.test(command.slice(Math.max(0, index - LOGIN_CHARACTERS), index)),
    );
    if (!logsIn || !isAtCodeHost(command)) return command;
  }
  return undefined;
}

function isAtCodeHost(command: string): boolean {
  const urls = command.match(/\bhttps?:\/\/[^\s"'`]{1,2000}/gi) ?? [];
  return urls.length > 0 && urls.every((url) => isCodeHost(url));
}

function isCodeHost(url: string): boolean {
  const host = URL.canParse(url) ? new URL(url).hostname : "";
  return CODE_HOSTS.some((known) => host === known || host.endsWith(`.${known}`));
}
