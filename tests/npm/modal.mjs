// A second client of the emulated Modal: prints what it saw as one JSON object.
import { ModalClient } from "modal";

const client = new ModalClient({
  tokenId: process.env.MODAL_TOKEN_ID,
  tokenSecret: process.env.MODAL_TOKEN_SECRET,
});
const seen = {};
const app = await client.apps.fromName("second", { createIfMissing: true });
const image = client.images.fromRegistry("debian:12");
const box = await client.sandboxes.create(app, image, {
  name: "box",
  tags: { by: "npm" },
  timeoutMs: 600_000,
  workdir: "/workspace",
});
const shell = async (script, input) => {
  const process = await box.exec(["sh", "-c", script]);
  if (input !== undefined) {
    await process.stdin.writeText(input);
    await process.closeStdin();
  }
  const [out, err, code] = await Promise.all([
    process.stdout.readText(),
    process.stderr.readText(),
    process.wait(),
  ]);
  return { out, err, code };
};
seen.run = await shell("pwd; echo bad >&2; exit 3");
seen.input = await shell("tr a-z A-Z", "hello");

const bytes = new Uint8Array(Array.from({ length: 256 }, (_, n) => n));
await box.filesystem.writeBytes(bytes, "/workspace/deep/file");
const back = await box.filesystem.readBytes("/workspace/deep/file");
seen.file = Buffer.compare(Buffer.from(bytes), Buffer.from(back)) === 0;
seen.inside = await shell("wc -c < /workspace/deep/file");
seen.files = (await box.filesystem.listFiles("/workspace/deep")).map((one) => [one.name, one.type, one.size]);
seen.stat = (await box.filesystem.stat("/workspace/deep")).type;
seen.missing = await box.filesystem.readText("/workspace/none").catch((error) => error.constructor.name);
await box.filesystem.makeDirectory("/workspace/empty");
await box.filesystem.remove("/workspace/deep", { recursive: true });
seen.left = (await box.filesystem.listFiles("/workspace")).map((one) => one.name);

const kept = await box.snapshotFilesystem();
seen.listed = [];
for await (const one of client.sandboxes.list({ appId: app.appId, tags: { by: "npm" } })) {
  seen.listed.push(one.sandboxId === box.sandboxId);
}
seen.tags = await box.getTags();
seen.named = (await client.sandboxes.fromName("second", "box")).sandboxId === box.sandboxId;
seen.taken = await client.sandboxes.create(app, image, { name: "box" }).catch((error) => error.constructor.name);
seen.running = await box.poll();
seen.ended = await box.terminate({ wait: true });
const again = await client.sandboxes.create(app, await client.images.fromId(kept.imageId), { timeoutMs: 600_000 });
seen.restored = await again.filesystem.listFiles("/workspace").then((found) => found.map((one) => one.name));
await again.terminate();
client.close();
console.log(JSON.stringify(seen));
