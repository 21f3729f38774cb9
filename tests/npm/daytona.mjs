// A second client of the emulated Daytona: prints what it saw as one JSON object.
import { Daytona } from "@daytonaio/sdk";

const daytona = new Daytona({ apiKey: process.env.DAYTONA_API_KEY, apiUrl: process.env.DAYTONA_API_URL });
const seen = {};
const box = await daytona.create({ name: "box", labels: { by: "npm" }, envVars: { MADE: "here" }, autoStopInterval: 5 });
const found = await box.process.executeCommand("echo $MADE; echo bad >&2; exit 3");
seen.run = [found.exitCode, found.result];
seen.slow = await box.process.executeCommand("sleep 60", undefined, undefined, 1).catch((error) => error.constructor.name);

await box.process.createSession("one");
await box.process.executeSessionCommand("one", { command: "cd /tmp && export KEPT=yes" });
const streams = await box.process.executeSessionCommand("one", { command: "pwd; echo $KEPT; echo bad >&2; (exit 4)" });
seen.session = [streams.exitCode, streams.stdout, streams.stderr];
await box.process.deleteSession("one");

const pieces = [];
const pty = await box.process.createPty({ id: "pty", cols: 90, rows: 30, onData: (data) => pieces.push(data) });
await pty.waitForConnection();
await pty.sendInput("stty size; exit 5\n");
seen.pty = (await pty.wait()).exitCode;
seen.size = Buffer.concat(pieces).toString().includes("30 90");
await pty.disconnect();

const bytes = Buffer.from(Array.from({ length: 256 }, (_, n) => n));
await box.fs.createFolder("/root/deep", "755");
await box.fs.uploadFile(bytes, "/root/deep/file");
seen.file = Buffer.compare(bytes, await box.fs.downloadFile("/root/deep/file")) === 0;
seen.files = (await box.fs.listFiles("/root/deep")).map((one) => [one.name, one.isDir, one.size]);
seen.missing = await box.fs.downloadFile("/root/none").catch((error) => error.constructor.name);
await box.fs.deleteFile("/root/deep/file");
seen.left = (await box.fs.listFiles("/root/deep")).length;

const link = await box.getPreviewLink(3000);
seen.preview = [link.url.startsWith("http://127.0.0.1"), link.token.length > 0];
seen.ssh = (await box.createSshAccess(10)).sshCommand.startsWith("ssh ");
seen.listed = [];
for await (const one of daytona.list({ labels: { by: "npm" } })) {
  seen.listed.push(one.id === box.id);
}
seen.named = (await daytona.get("box")).id === box.id;
seen.taken = await daytona.create({ name: "box" }).catch((error) => error.constructor.name);
await box.stop();
seen.stopped = (await daytona.get(box.id)).state;
await box.start();
seen.kept = (await box.process.executeCommand("ls -d /root/deep")).result.trim();
await box.delete(60, true);
seen.gone = await daytona.get(box.id).catch((error) => error.constructor.name);
await daytona[Symbol.asyncDispose]();
console.log(JSON.stringify(seen));
