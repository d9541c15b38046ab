// Runs many command lines of the MCP Inspector in one process, because its start takes longer than a request.
//
// Each line of the standard input is one command line's arguments as JSON. The answer is a line of the standard output:
// {"returncode", "stdout", "stderr"}. Each is a full run of the Inspector, from its arguments to its exit code, with its
// output captured. The Inspector's launcher does the same with `--cli` before the arguments.
import { createInterface } from "node:readline";
import { handleError, runCli } from "./node_modules/@modelcontextprotocol/inspector/clients/cli/build/index.js";

const answer = process.stdout.write.bind(process.stdout);
const written = { stdout: "", stderr: "" };
for (const name of Object.keys(written)) {
  process[name].write = (text, ...rest) => {
    written[name] += text;
    rest.at(-1)?.();
    return true;
  };
}
class Exit extends Error {}
process.exit = (code) => {
  throw Object.assign(new Exit(), { code });
};

for await (const line of createInterface({ input: process.stdin })) {
  Object.assign(written, { stdout: "", stderr: "" });
  const argv = [process.execPath, "mcp-inspector", ...JSON.parse(line)];
  const returncode = await runCli(argv).then(() => 0, (error) => handleError(error).catch((exit) => exit.code));
  answer(JSON.stringify({ returncode, ...written }) + "\n");
}
