// KafkaJS's consumers in groups. What the program reads and reports is described in
// tests/support/groups/programs/reporting.py.

const { writeSync } = require("node:fs");
const { createInterface } = require("node:readline");
const { Kafka, logLevel } = require("kafkajs");

const [bootstrap, topic, ...settings] = process.argv.slice(2);
const given = Object.fromEntries(settings.map((one) => one.split("=")));
const STDOUT = 1;

function report(member, what, more) {
  const line = JSON.stringify({ t: Date.now(), m: member, e: what, ...more });
  let data = Buffer.from(line + "\n");
  while (data.length > 0) data = data.subarray(writeSync(STDOUT, data));
}

const places = (assignment) =>
  Object.entries(assignment).flatMap(([name, numbers]) => numbers.map((n) => `${name}/${n}`));

class Member {
  constructor(name, group) {
    this.name = name;
    const kafka = new Kafka({
      clientId: name,
      brokers: [bootstrap],
      logLevel: logLevel.NOTHING, // that its broker goes away is the test
      retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 100 },
    });
    this.consumer = kafka.consumer({
      groupId: group,
      sessionTimeout: Number(given["session.timeout.ms"] ?? 30000),
      heartbeatInterval: Number(given["heartbeat.interval.ms"] ?? 3000),
      rebalanceTimeout: Number(given["rebalance.timeout.ms"] ?? 60000),
      metadataMaxAge: Number(given["metadata.max.age.ms"] ?? 300000),
      maxWaitTimeInMs: 100,
    });
    const { GROUP_JOIN, REBALANCING } = this.consumer.events;
    this.consumer.on(GROUP_JOIN, ({ payload }) =>
      report(name, "owns", { p: places(payload.memberAssignment) }));
    this.consumer.on(REBALANCING, () => report(name, "owns", { p: [] }));
  }

  async run() {
    report(this.name, "joining");
    await this.consumer.connect();
    const wanted = topic.startsWith("^") ? new RegExp(topic) : topic;
    await this.consumer.subscribe({ topics: [wanted], fromBeginning: true });
    await this.consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      eachBatch: (batch) => this.process(batch),
    });
  }

  async process({ batch, resolveOffset, isStale, isRunning, heartbeat }) {
    if (isStale() || !isRunning() || batch.messages.length === 0) return;
    const at = `${batch.topic}/${batch.partition}`;
    const ranges = [];
    for (const { offset } of batch.messages) {
      const number = Number(offset);
      const open = ranges.at(-1);
      if (open && open[2] + 1 === number) open[2] = number;
      else ranges.push([at, number, number]);
    }
    report(this.name, "read", { r: ranges });
    resolveOffset(batch.lastOffset());
    const next = String(BigInt(batch.lastOffset()) + 1n);
    const place = { topic: batch.topic, partition: batch.partition, offset: next };
    try {
      await this.consumer.commitOffsets([place]);
    } catch (error) {
      report(this.name, "refused", { why: String(error) });
      throw error; // the client itself rejoins, and begins at what is committed
    }
    report(this.name, "committed", { o: { [at]: Number(next) } });
    await heartbeat();
  }

  async leave() {
    await this.consumer.disconnect();
    report(this.name, "left");
  }
}

async function main() {
  const members = new Map();
  const guarded = (name, step) =>
    step.catch((error) => report(name, "failed", { why: String(error.stack ?? error) }));
  for await (const line of createInterface({ input: process.stdin })) {
    const [command, name, ...more] = line.split(" ");
    if (command === "join") {
      members.set(name, new Member(name, ...more));
      guarded(name, members.get(name).run());
    } else if (command === "leave") {
      guarded(name, members.get(name).leave());
      members.delete(name);
    } else {
      const [, at, partition] = /^(.*)\/(\d+)$/.exec(more[0]);
      members.get(name).consumer.seek({ topic: at, partition: Number(partition), offset: more[1] });
    }
  }
  await Promise.all([...members].map(([name, member]) => guarded(name, member.leave())));
  process.exit(0);
}

main();
