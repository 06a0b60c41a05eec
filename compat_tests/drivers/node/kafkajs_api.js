// The data of the API that kafkajs has and @confluentinc/kafka-javascript took over.
'use strict'

const { base64, bytes } = require('./serve')

/** A record to send. */
function toMessage({ partition, key, value, headers, timestamp }) {
  const message = { key: bytes(key), value: bytes(value) }
  if (partition !== undefined) message.partition = partition
  if (timestamp !== undefined) message.timestamp = String(timestamp)
  if (headers !== undefined) message.headers = {}
  for (const [name, data] of headers ?? []) {
    message.headers[name] = [...(message.headers[name] ?? []), bytes(data)]
  }
  return message
}

/** What `eachMessage` got. */
const toRecord = ({ topic, partition, message }) => ({
  topic,
  partition,
  offset: Number(message.offset),
  timestamp: Number(message.timestamp),
  key: base64(message.key),
  value: base64(message.value),
  headers: Object.entries(message.headers ?? {}).flatMap(([name, values]) =>
    [values].flat().map(value => [name, base64(value)])
  ),
})

/** An error that the library tells otherwise than by an exception. */
const error = (name, message) => Object.assign(new Error(message), { name })

const topicsOf = partitions => [...new Set(partitions.map(({ topic }) => topic))]

/** Places, each with its partition, as a list of topics with their partitions' own data. */
const byTopic = (places, toPartition) =>
  topicsOf(places).map(topic => ({
    topic,
    partitions: places.filter(place => place.topic === topic).map(toPartition),
  }))

const numbersByTopic = places => byTopic(places, ({ partition }) => partition)

const offsetsByTopic = offsets =>
  byTopic(offsets, ({ partition, offset }) => ({ partition, offset: String(offset) }))

const asTexts = offsets => offsets.map(one => ({ ...one, offset: String(one.offset) }))

/** The committed offsets of some partitions, among those that the library found. */
const committedOf = (partitions, find) => ({
  offsets: partitions.map(find).map(one => ({
    offset: Number(one?.offset ?? -1) < 0 ? null : Number(one.offset),
    metadata: one?.metadata ?? '',
  })),
})

/** What `fetchOffsets` found. */
const groupOffsets = topics => ({
  offsets: topics.flatMap(({ topic, partitions }) =>
    partitions.map(({ partition, offset }) => ({ topic, partition, offset: Number(offset) }))
  ),
})

const describedPartitions = partitions => ({
  partitions: partitions
    .map(({ partitionId: partition, ...more }) => {
      const { leader, replicas, isr } = more
      return { partition, leader, replicas, isr }
    })
    .sort((a, b) => a.partition - b.partition),
})

module.exports = {
  asTexts,
  committedOf,
  describedPartitions,
  error,
  groupOffsets,
  numbersByTopic,
  offsetsByTopic,
  toMessage,
  toRecord,
  topicsOf,
}
