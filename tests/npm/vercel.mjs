// A second client of the emulated Vercel Sandbox: prints what it saw as one JSON object.
import { Sandbox, Snapshot } from "@vercel/sandbox";

// It has no setting for where the API is.
const base = "https://vercel.com/api";
const account = {
  token: process.env.VERCEL_TOKEN,
  teamId: process.env.VERCEL_TEAM_ID,
  projectId: process.env.VERCEL_PROJECT_ID,
  fetch: (address, options) =>
    fetch(String(address).replace(base, process.env.HERMES_VERCEL_API_URL), options),
};
const seen = {};
const box = await Sandbox.create({ ...account, name: "box", tags: { by: "npm" }, timeout: 600_000, env: { MADE: "here" } });
const finished = async (command) => [command.exitCode, await command.stdout(), await command.stderr()];
const shell = (script, more) => box.runCommand({ cmd: "sh", args: ["-c", script], ...more });
seen.run = await finished(await shell("echo $MADE; pwd; echo bad >&2; exit 3"));
const detached = await shell("echo first; sleep 0.2; echo second >&2", { detached: true });
seen.logs = [];
for await (const one of detached.logs()) seen.logs.push([one.stream, one.data]);
seen.waited = (await detached.wait()).exitCode;
const killed = await shell("sleep 100", { detached: true });
await killed.kill("SIGTERM");
seen.killed = (await killed.wait()).exitCode;

const bytes = Buffer.from(Array.from({ length: 256 }, (_, n) => n));
await box.mkDir("deep");
await box.writeFiles([{ path: "deep/file", content: bytes }]);
seen.file = Buffer.compare(bytes, await box.readFileToBuffer({ path: "deep/file" })) === 0;
seen.missing = await box.readFileToBuffer({ path: "none" });
seen.inside = await finished(await shell("ls deep; wc -c < deep/file"));

// It asks for a runtime at the version of the API before, and cannot have an image, too.
const older = await Sandbox.create({ ...account, name: "older", runtime: "node22" });
seen.runtime = [older.runtime, older.image ?? null, await finished(await older.runCommand("pwd"))];
await older.delete();
seen.refused = await Sandbox.create({ ...account, runtime: "node20" }).catch((error) => error.response?.status);

const names = async (query) => {
  const found = [];
  for await (const one of await Sandbox.list({ ...account, ...query })) found.push(one.name);
  return found;
};
seen.listed = [await names({ tags: { by: "npm" } }), await names({ tags: { by: "nobody" } })];
seen.named = (await Sandbox.get({ ...account, name: "box" })).name;
seen.taken = await Sandbox.create({ ...account, name: "box" }).catch((error) => error.response?.status);
await box.extendTimeout(60_000);
const kept = await box.snapshot();
seen.snapshot = (await Snapshot.get({ ...account, snapshotId: kept.snapshotId })).status;
const copy = await Sandbox.create({ ...account, name: "copy", persistent: false, source: { type: "snapshot", snapshotId: kept.snapshotId } });
seen.restored = (await copy.readFileToBuffer({ path: "deep/file" })).length;
await copy.stop({ blocking: true });
seen.stopped = copy.status;
await copy.delete();
await kept.delete();
await box.delete();
seen.left = await names({});
console.log(JSON.stringify(seen));
