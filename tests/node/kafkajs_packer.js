// One batch by KafkaJS in gzip, the one codec that it brings along: "BOOTSTRAP TOPIC COUNT".

const { CompressionTypes, Kafka } = require("kafkajs");

const [bootstrap, topic, count] = process.argv.slice(2);

async function main() {
  const producer = new Kafka({ brokers: [bootstrap] }).producer({ allowAutoTopicCreation: false });
  await producer.connect();
  const messages = Array.from({ length: Number(count) }, (_, number) => ({
    key: `KafkaJS ${number}`,
    value: `value ${number}, `.repeat(4),
  }));
  await producer.send({ topic, messages, compression: CompressionTypes.GZIP });
  await producer.disconnect();
}

main();
