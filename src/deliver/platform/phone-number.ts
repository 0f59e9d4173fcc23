/**
 * `text` as a phone number in E.164: +, country code and number, up to 15 digits, without what people put between them.
 * Undefined for anything else, also for numbers without a country code.
 */
export function readPhoneNumber(text: string): string | undefined {
  const bare = text.replace(/[\s().\u00a0-]+/g, "");
  return /^\+[1-9]\d{6,14}$/.test(bare) ? bare : undefined;
}
