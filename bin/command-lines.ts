/** Functions that load the code of each command line. Loading takes most of the time of a short command. */
export const loaders = {
  clinic: async () => (await import("../command/cli/command-line.ts")).clinicCommandLine,
  audit: async () => (await import("../command/audit/cli/command-line.ts")).auditCommandLine,
  projection: async () => (await import("../projection/cli/command-line.ts")).projectionCommandLine,
};
