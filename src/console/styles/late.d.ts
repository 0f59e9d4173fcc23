/** Styles are in force when their import has resolved: scripts/lib/console.ts makes it so. */
declare module "*.css";
