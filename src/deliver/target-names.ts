/**
 * Platforms that messages can go to, for those who check an address where no service runs. The service has a target for
 * each. Pure.
 */
export const TARGET_NAMES: readonly string[] = ["log", "webhook"];
