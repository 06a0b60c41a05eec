// What a library delivered to a callback, kept until a request asks for it.
'use strict'

const LOOK_EACH_MS = 50

const keyOf = ({ topic, partition }) => `${topic}:${partition}`

/**
 * The consuming side of a driver for a library that pushes records. Records wait here for `poll`;
 * those of a paused partition until it is resumed, as the library had delivered them before it was
 * paused.
 *
 * `look`, for a library that shows its assignment but does not tell each change of it: its
 * partitions, null if there is no assignment, undefined if the driver tells it by itself.
 */
class Deliveries {
  assignment = null
  #look
  #records = []
  #positions = new Map()
  #paused = new Set()
  #failure = null
  #awaken = () => {}

  constructor(look = () => undefined) {
    this.#look = look
  }

  deliver(record) {
    this.#records.push(record)
    this.#awaken()
  }

  /** The library gave up, or reports an error: the next poll's. */
  fail(error) {
    this.#failure = error
    this.#awaken()
  }

  /** There is a new assignment: records of other partitions are not for this member any more. */
  assigned(partitions) {
    const keys = new Set(partitions.map(keyOf))
    this.#records = this.#records.filter(record => keys.has(keyOf(record)))
    for (const key of this.#positions.keys()) if (!keys.has(key)) this.#positions.delete(key)
    this.assignment = partitions
    this.#awaken()
  }

  /** A rebalance began. */
  revoked() {
    this.assignment = null
  }

  /** The library begins anew: what it delivered or reported before is over. */
  clear() {
    this.#records = []
    this.#failure = null
  }

  async poll({ records: most, timeout_ms: timeoutMs }) {
    await this.#until(() => this.#ready().length >= most, timeoutMs)
    const taken = new Set(this.#ready().slice(0, most))
    this.#records = this.#records.filter(record => !taken.has(record))
    for (const record of taken) this.#positions.set(keyOf(record), record.offset + 1)
    return { records: [...taken] }
  }

  /** What is assigned, as soon as anything is: the libraries are members without being asked. */
  async assignedWithin({ timeout_ms: timeoutMs }) {
    await this.#until(() => this.assignment !== null, timeoutMs)
    this.#lookAgain()
    return { partitions: this.assignment ?? [] }
  }

  /** The library reads on from another offset. */
  moved({ topic, partition, offset }) {
    const key = keyOf({ topic, partition })
    this.#records = this.#records.filter(record => keyOf(record) !== key)
    this.#positions.set(key, offset)
  }

  pause(partitions) {
    for (const one of partitions) this.#paused.add(keyOf(one))
  }

  resume(partitions) {
    for (const one of partitions) this.#paused.delete(keyOf(one))
  }

  /** Where the next poll reads on; undefined before the first record. */
  position(place) {
    return this.#positions.get(keyOf(place))
  }

  /** The positions of the assigned partitions, as far as they are known. */
  positions() {
    return (this.assignment ?? [])
      .map(({ topic, partition }) => {
        return { topic, partition, offset: this.position({ topic, partition }) }
      })
      .filter(({ offset }) => offset !== undefined)
  }

  #ready() {
    return this.#records.filter(record => !this.#paused.has(keyOf(record)))
  }

  #lookAgain() {
    const seen = this.#look()
    if (seen === undefined) return
    if (seen === null) this.revoked()
    else if (this.assignment === null || !sameKeys(seen, this.assignment)) this.assigned(seen)
  }

  async #until(holds, timeoutMs) {
    const end = Date.now() + timeoutMs
    this.#lookAgain()
    const waits = () => !holds() && this.#failure === null
    for (let left = timeoutMs; left > 0 && waits(); left = end - Date.now()) {
      await new Promise(resolve => {
        const timer = setTimeout(resolve, Math.min(left, LOOK_EACH_MS))
        this.#awaken = () => {
          clearTimeout(timer)
          resolve()
        }
      })
      this.#lookAgain()
    }
    const failure = this.#failure
    this.#failure = null
    if (failure !== null) throw failure
  }
}

function sameKeys(these, those) {
  const keys = new Set(these.map(keyOf))
  return keys.size === those.length && those.every(one => keys.has(keyOf(one)))
}

module.exports = { Deliveries, keyOf }
