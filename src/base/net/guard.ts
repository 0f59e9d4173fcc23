// Touches the machine: resolves names. Decides which machines an outgoing request may reach.
import { lookup as resolveName } from "node:dns/promises";
import ipaddr from "ipaddr.js";
import { abortable } from "../deadline.ts";

export interface GuardOptions {
  /** Hosts (`name` or `name:port`) that are allowed although their addresses are not public. */
  readonly allowedPrivateHosts: readonly string[];
  /** A sentence for the message of a refusal: what allows a host. Absent: nothing does. */
  readonly hint?: string | undefined;
  /** Resolves a name to all of its addresses; default: the system's resolver. */
  readonly lookup?: (name: string) => Promise<readonly string[]>;
  readonly signal: AbortSignal;
}

/** The guard refuses a host; the message says which and why, and how to allow it. */
export class BlockedAddressError extends Error {
  override readonly name = "BlockedAddressError";
  readonly host: string;

  constructor(host: string, why: string, { hint }: { readonly hint?: string | undefined } = {}) {
    super([`${host} is refused: ${why}.`, ...(hint === undefined ? [] : [hint])].join(" "));
    this.host = host;
  }
}

/** A name has no addresses, or cannot be resolved. */
export class UnresolvedNameError extends Error {
  override readonly name = "UnresolvedNameError";
}

/** Metadata services give the machine's credentials to its processes; the other known addresses are private anyway. */
const metadataAddresses = new Set(["169.254.169.254", "169.254.170.2", "168.63.129.16", "fd00:ec2::254"]);
const metadataNames = new Set([
  "instance-data",
  "instance-data.ec2.internal",
  "metadata",
  "metadata.azure.internal",
  "metadata.goog",
  "metadata.google.internal",
  "metadata.packet.net",
  "metadata.tencentyun.com",
]);

/**
 * Returns the checked addresses of the host of `url`. The caller MUST connect to one of these and MUST NOT resolve the
 * name again, since its addresses may change. One address that is not public refuses the host. Throws
 * {@link BlockedAddressError} and {@link UnresolvedNameError}.
 */
export async function checkedAddresses(url: URL, options: GuardOptions): Promise<readonly string[]> {
  const host = hostOf(url);
  const objection = objectionToHost(url, options.allowedPrivateHosts);
  const { hint } = options;
  if (objection !== undefined) throw new BlockedAddressError(host, `it is ${objection}`, { hint });
  const isAllowed = isListed(url, options.allowedPrivateHosts);
  const addresses = ipaddr.isValid(host) ? [host] : await resolve(host, options);
  for (const address of addresses) {
    if (isAllowed) assertNoHiddenMetadata(host, address);
    const why = isAllowed ? undefined : objectionTo(address);
    if (why === undefined) continue;
    throw new BlockedAddressError(host, `its address ${address} is ${why}`, { hint });
  }
  return addresses;
}

/**
 * Returns why the host of `url` is refused without a look-up; undefined when a look-up must decide. For early answers
 * only: before it connects, the caller uses {@link checkedAddresses}.
 */
export function objectionToHost(url: URL, allowedPrivateHosts: readonly string[]): string | undefined {
  const host = hostOf(url);
  if (isListed(url, allowedPrivateHosts)) return undefined;
  if (host === "localhost" || host.endsWith(".localhost")) return "this machine itself";
  if (metadataNames.has(host)) return "a metadata service";
  return ipaddr.isValid(host) ? objectionTo(host) : undefined;
}

/** Returns why an address is not on the public internet; undefined when it is. */
export function objectionTo(address: string): string | undefined {
  if (!ipaddr.isValid(address)) return "not an IP address";
  const parsed = ipaddr.process(address);
  if (metadataAddresses.has(parsed.toString())) return "a metadata service";
  const range = parsed.range();
  if (parsed instanceof ipaddr.IPv4) return range === "unicast" ? undefined : (words[range] ?? "reserved");
  if (range !== "unicast" && range !== "rfc6052") return words[range] ?? "reserved";
  if (parsed.match(wellKnownNat64)) {
    const embedded = objectionTo(ipaddr.fromByteArray(parsed.toByteArray().slice(12)).toString());
    return embedded === undefined ? undefined : `NAT64 for an address that is ${embedded}`;
  }
  // RFC 4291, 2.4: global unicast is allocated from 2000::/3 only; IPv4-compatible addresses, for one, are outside.
  return parsed.match(globalUnicast) ? undefined : "reserved";
}

const wellKnownNat64 = ipaddr.IPv6.parseCIDR("64:ff9b::/96");
const globalUnicast = ipaddr.IPv6.parseCIDR("2000::/3");

/** Ranges in words. 6to4 and Teredo are obsolete and reach any IPv4 address: refused completely. */
const words: Readonly<Record<string, string>> = {
  unspecified: "unspecified, which means this machine",
  broadcast: "for broadcast",
  multicast: "for multicast",
  linkLocal: "link-local",
  loopback: "this machine itself",
  carrierGradeNat: "in the shared range of a provider",
  private: "private",
  uniqueLocal: "private",
  deprecatedSiteLocal: "private",
  "6to4": "a 6to4 tunnel",
  teredo: "a Teredo tunnel",
  rfc6145: "a translated IPv4 address",
};

/** Throws when an allowed name resolves to a metadata service: only its address, when listed, allows that. */
function assertNoHiddenMetadata(host: string, address: string): void {
  if (host === address || metadataNames.has(host) || !metadataAddresses.has(plain(address))) return;
  throw new BlockedAddressError(host, `its address ${address} is a metadata service`, {
    hint: "No setting allows it for this name.",
  });
}

function plain(address: string): string {
  return ipaddr.isValid(address) ? ipaddr.process(address).toString() : address;
}

async function resolve(host: string, { lookup, signal }: GuardOptions): Promise<readonly string[]> {
  const find = lookup ?? systemLookup;
  signal.throwIfAborted();
  try {
    // The system's resolver cannot be stopped.
    const addresses = await abortable(find(host), signal);
    if (addresses.length > 0) return addresses;
  } catch (error) {
    signal.throwIfAborted();
    throw new UnresolvedNameError(`The name ${host} could not be resolved.`, { cause: error });
  }
  throw new UnresolvedNameError(`The name ${host} has no address.`);
}

async function systemLookup(name: string): Promise<readonly string[]> {
  const found = await resolveName(name, { all: true, order: "ipv4first" });
  return found.map(({ address }) => address);
}

/** Returns the host in one spelling: URL has already normalised case, punycode and dotted quads. */
function hostOf(url: URL): string {
  const bare = url.hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
  return ipaddr.isValid(bare) ? plain(bare) : bare;
}

function isListed(url: URL, allowedHosts: readonly string[]): boolean {
  const host = hostOf(url);
  return allowedHosts.some((entry) => matches(entry, host, url));
}

function matches(entry: string, host: string, url: URL): boolean {
  const isBareIpv6 = ipaddr.IPv6.isValid(entry);
  const [, name = "", port] = isBareIpv6 ? [entry, `[${entry}]`] : (/^(.*?)(?::(\d+))?$/.exec(entry) ?? []);
  if (!URL.canParse(`http://${name}`) || hostOf(new URL(`http://${name}`)) !== host) return false;
  return port === undefined || Number(port) === portOf(url);
}

function portOf({ port, protocol }: URL): number {
  if (port !== "") return Number(port);
  return protocol === "https:" ? 443 : 80;
}
