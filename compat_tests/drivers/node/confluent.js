// The driver for @confluentinc/kafka-javascript, by the promises that its documentation advises.
'use strict'

const { randomUUID } = require('node:crypto')
const { KafkaJS, features } = require('@confluentinc/kafka-javascript')
const { version } = require('@confluentinc/kafka-javascript/package.json')
const { Deliveries, keyOf } = require('./deliveries')
const api = require('./kafkajs_api')
const { properties } = require('./security')
const { bootstrap, clientId, findCause, renamed, serve } = require('./serve')

const CODECS = ['gzip', 'snappy', 'lz4', 'zstd'].filter(name => features.includes(name))
const CAN = [
  ...['produce', 'acks', ...CODECS, 'headers', 'timestamps', 'idempotence', 'transactions'],
  ...['append_time', 'fencing', 'keyed', 'auto_create', 'reset', 'retries', 'recreated'],
  'new_partitions',
  ...['send_offsets', 'timeout', 'consume', 'group', 'pattern', 'range', 'roundrobin'],
  ...['cooperative', 'consumer_protocol', 'static_members', 'isolation', 'seek', 'pause', 'ends'],
  ...['commit_metadata', 'small_fetches'],
  ...['create_topic', 'delete_topic', 'list_topics', 'describe_topic', 'delete_records'],
  ...['list_groups', 'describe_group', 'delete_group', 'group_offsets'],
]

const ACKS = { 0: 0, 1: 1, all: -1 }
const { ErrorCodes, PartitionAssigners } = KafkaJS
const ASSIGNORS = {
  range: PartitionAssigners.range,
  roundrobin: PartitionAssigners.roundRobin,
  cooperative: PartitionAssigners.cooperativeSticky,
}
const STATES = {
  PREPARING_REBALANCE: 'PreparingRebalance',
  COMPLETING_REBALANCE: 'CompletingRebalance',
  STABLE: 'Stable',
  DEAD: 'Dead',
  EMPTY: 'Empty',
}

const kafka = new KafkaJS.Kafka({ kafkaJS: { brokers: bootstrap, clientId }, ...properties })
const admin = kafka.admin()
let administering = null // its connection, made when it is first needed
let producer = null

let consumer = null
let consumerOptions = {}
let deliveries = new Deliveries()
let joined = false
let reading = false
let starts = null // of `assign`: the library reads partitions only as a member of a group

const administer = async () => {
  administering ??= admin.connect()
  await administering
  return admin
}

async function makeProducer(given) {
  await closeProducer()
  const kafkaJS = renamed(given, {
    codec: 'compression',
    idempotent: 'idempotent',
    transactional_id: 'transactionalId',
    transaction_timeout_ms: 'transactionTimeout',
  })
  if (given.acks !== undefined) kafkaJS.acks = ACKS[given.acks]
  const more = renamed(given, {
    linger_ms: 'linger.ms',
    batch_bytes: 'batch.size',
    max_request_bytes: 'message.max.bytes',
    timeout_ms: 'delivery.timeout.ms',
  })
  producer = kafka.producer({ kafkaJS, ...more })
  await producer.connect()
}

/** One call for each record, as a call tells no more than the first offset of each partition. */
async function send({ topic, records }) {
  const calls = records.map(record => producer.send({ topic, messages: [api.toMessage(record)] }))
  const placed = ({ status, value, reason }) => {
    if (status === 'rejected') return { error: failure(reason) }
    const [{ partition, baseOffset }] = value
    return { partition, offset: Math.max(Number(baseOffset ?? -1), -1) }
  }
  return { placed: (await Promise.allSettled(calls)).map(placed) }
}

async function sendOffsets({ group, offsets }) {
  const topics = api.offsetsByTopic(offsets)
  if (consumerOptions.kafkaJS?.groupId === group && consumer !== null) {
    await producer.sendOffsets({ consumer, topics })
    return
  }
  const other = kafka.consumer({ kafkaJS: { groupId: group } }) // the library asks for one
  await other.connect()
  try {
    await producer.sendOffsets({ consumer: other, topics })
  } finally {
    await other.disconnect()
  }
}

async function closeProducer() {
  const closing = producer
  producer = null
  await closing?.disconnect()
}

async function makeConsumer(given) {
  const kafkaJS = {
    groupId: given.group ?? `without-group-${randomUUID()}`,
    fromBeginning: given.reset !== 'latest',
    autoCommit: false,
    ...renamed(given, {
      session_timeout_ms: 'sessionTimeout',
      heartbeat_ms: 'heartbeatInterval',
      fetch_max_bytes: 'maxBytes',
      partition_fetch_max_bytes: 'maxBytesPerPartition',
      metadata_max_age_ms: 'metadataMaxAge',
    }),
  }
  if (given.isolation !== undefined) {
    kafkaJS.readUncommitted = given.isolation === 'read_uncommitted'
  }
  if (given.assignor !== undefined) kafkaJS.partitionAssigners = [ASSIGNORS[given.assignor]]
  const more = renamed(given, { protocol: 'group.protocol', instance_id: 'group.instance.id' })
  consumerOptions = { kafkaJS, ...more, rebalance_cb: rebalanced }
  await openConsumer()
}

async function openConsumer() {
  await closeConsumer()
  deliveries = new Deliveries(look)
  consumer = kafka.consumer(consumerOptions)
  await consumer.connect()
}

const look = () => {
  if (starts !== null) return undefined
  return joined ? consumer.assignment() : null
}

/** What it returns is assigned in the place of what the group assigned. */
async function rebalanced(event, assignment) {
  joined = event.code === ErrorCodes.ERR__ASSIGN_PARTITIONS
  if (!joined || starts === null) return undefined
  const keys = new Set(assignment.map(keyOf))
  return starts.filter(start => keys.has(keyOf(start)))
}

async function read(topics) {
  await consumer.subscribe({ topics, replace: true })
  if (reading) return
  reading = true
  const to = deliveries
  await consumer.run({ eachMessage: async payload => to.deliver(api.toRecord(payload)) })
}

async function assign({ partitions }) {
  const wanted = []
  for (const { topic, partition, offset } of partitions) {
    const ends = typeof offset === 'number' ? null : await endsOf({ topic, partition })
    wanted.push({ topic, partition, offset: ends?.[offset] ?? offset })
  }
  await openConsumer() // the only way to be assigned the same topics at other offsets
  starts = wanted
  deliveries.assigned(partitions.map(({ topic, partition }) => ({ topic, partition })))
  starts.forEach(start => deliveries.moved(start))
  await read(api.topicsOf(partitions))
}

function seek({ topic, partition, offset }) {
  consumer.seek({ topic, partition, offset: String(offset) })
  deliveries.moved({ topic, partition, offset })
}

function position(place) {
  const offset = deliveries.position(place)
  if (offset === undefined) throw new Error('it tells no position before the first record')
  return { offset }
}

async function committed({ partitions }) {
  const known = await consumer.committed(partitions)
  return api.committedOf(partitions, place => known.find(one => keyOf(one) === keyOf(place)))
}

async function endsOf({ topic, partition }) {
  const found = await (await administer()).fetchTopicOffsets(topic)
  const one = found.find(each => each.partition === partition)
  if (one === undefined) throw new Error(`${topic} has no partition ${partition}`)
  return { earliest: Number(one.low), latest: Number(one.high) }
}

async function closeConsumer() {
  const closing = consumer
  consumer = starts = null
  joined = reading = false
  await closing?.disconnect()
}

async function createTopic({ topic, partitions, replicas, configs = {} }) {
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
  const created = await (await administer()).createTopics({
    topics: [{ topic, numPartitions: partitions, replicationFactor: replicas, configEntries }],
  })
  // the library's way to tell this error
  if (!created) throw api.error('TOPIC_ALREADY_EXISTS', 'createTopics: false')
}

async function describeTopic({ topic }) {
  const [{ partitions }] = await (await administer()).fetchTopicMetadata({ topics: [topic] })
  return api.describedPartitions(partitions)
}

async function deleteRecords({ topic, partition, before }) {
  const partitions = [{ partition, offset: String(before) }]
  const [deleted] = await (await administer()).deleteTopicRecords({ topic, partitions })
  return { earliest: deleted.lowWatermark }
}

async function describeGroup({ group }) {
  const { groups } = await (await administer()).describeGroups([group])
  const [{ error, state, members }] = groups
  if (error) throw error
  const [name] = Object.entries(KafkaJS.ConsumerGroupStates).find(([, number]) => number === state)
  return {
    state: STATES[name] ?? name,
    members: members.map(({ clientId, assignment }) => ({
      client_id: clientId,
      partitions: assignment.topicPartitions.map(({ topic, partition }) => ({ topic, partition })),
    })),
  }
}

/** Codes of the library's own are negative; -1 is one of the protocol. */
function failure(error) {
  const causesOf = ({ cause, errors = [], groups = [], partitions = [] }) => [
    ...[cause, ...errors],
    ...[...groups, ...partitions].map(part => part.error),
  ]
  const isOfProtocol = ({ code, groups, partitions }) =>
    Number.isInteger(code) && code >= -1 && !groups && !partitions
  const told = findCause(error, isOfProtocol, causesOf)
  if (told !== undefined) return { code: told.code, message: told.message }
  const [own] = Object.entries(ErrorCodes).find(([, code]) => code === error.code) ?? [error.name]
  return { name: own, message: error.message }
}

const requests = {
  producer: makeProducer,
  send,
  begin: async () => {
    await producer.transaction()
  },
  commit_transaction: () => producer.commit(),
  abort_transaction: () => producer.abort(),
  send_offsets: sendOffsets,
  // a producer or consumer of the library shows no metadata
  partitions: async given => ({
    partitions: (await describeTopic(given)).partitions.map(({ partition }) => partition),
  }),
  close_producer: closeProducer,
  consumer: makeConsumer,
  subscribe: ({ topics, pattern }) => read(topics ?? [new RegExp(`^(${pattern})$`)]),
  assign,
  poll: given => deliveries.poll(given),
  assignment: given => deliveries.assignedWithin(given),
  seek,
  position,
  pause: ({ partitions }) => {
    consumer.pause(api.numbersByTopic(partitions))
    deliveries.pause(partitions)
  },
  resume: ({ partitions }) => {
    consumer.resume(api.numbersByTopic(partitions))
    deliveries.resume(partitions)
  },
  commit: ({ offsets = deliveries.positions() }) => consumer.commitOffsets(api.asTexts(offsets)),
  committed,
  ends: async ({ partitions }) => ({ ends: await Promise.all(partitions.map(endsOf)) }),
  close_consumer: closeConsumer,
  create_topic: createTopic,
  delete_topic: async ({ topic }) => {
    await (await administer()).deleteTopics({ topics: [topic] })
  },
  list_topics: async () => ({ topics: await (await administer()).listTopics() }),
  describe_topic: describeTopic,
  delete_records: deleteRecords,
  list_groups: async () => {
    const { groups } = await (await administer()).listGroups()
    return { groups: groups.map(({ groupId }) => groupId) }
  },
  describe_group: describeGroup,
  delete_group: async ({ group }) => {
    await (await administer()).deleteGroups([group])
  },
  group_offsets: async ({ group: groupId }) =>
    api.groupOffsets(await (await administer()).fetchOffsets({ groupId })),
}

async function close() {
  await closeProducer()
  await closeConsumer()
  if (administering !== null) await admin.disconnect()
}

serve({
  client: '@confluentinc/kafka-javascript',
  version,
  can: CAN,
  requests,
  failure,
  close,
})
