package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"kavka.test/drivers/driver"
)

var balancers = map[string]kafka.GroupBalancer{
	"range":      kafka.RangeGroupBalancer{},
	"roundrobin": kafka.RoundRobinGroupBalancer{},
}

// source is where records come from: assigned partitions, or a membership in a group.
type source interface {
	records() <-chan fetched
	current() *kafka.Generation
	// starts are the offsets that the partitions began at.
	starts() map[driver.Place]int64
	seek(driver.Offset) error
	commit([]driver.Offset) error
	close() error
}

type consumer struct {
	cluster
	client  *kafka.Client
	given   driver.ConsumerOptions
	reading kafka.ReaderConfig
	source  source
	// next are the positions in a generation: with the next one, readers are made anew.
	next       map[driver.Place]int64
	generation *kafka.Generation
	failed     error
}

func (c *consumer) offer(requests map[string]driver.Handler) {
	requests["consumer"] = driver.Do(c.make)
	requests["subscribe"] = driver.Do(c.subscribe)
	requests["assign"] = driver.Do(c.assign)
	requests["poll"] = driver.Take(c.poll)
	requests["assignment"] = driver.Take(c.assignment)
	requests["seek"] = driver.Do(c.seek)
	requests["position"] = driver.Take(c.position)
	requests["commit"] = driver.Do(c.commit)
	requests["committed"] = driver.Take(c.committed)
	requests["offsets_for_times"] = driver.Take(c.offsetsForTimes)
	requests["ends"] = driver.Take(c.ends)
	requests["close_consumer"] = driver.Order(c.close)
}

func (c *consumer) make(given driver.ConsumerOptions) error {
	if err := c.close(); err != nil {
		return err
	}
	c.given = given
	// A reader ends with its fetch only, which by default waits ten seconds for records.
	c.reading = kafka.ReaderConfig{
		Brokers: c.servers, Dialer: c.newDialer(), MaxWait: 500 * time.Millisecond,
	}
	if given.Isolation != nil && *given.Isolation == "read_committed" {
		c.reading.IsolationLevel = kafka.ReadCommitted
	}
	c.reading.OffsetOutOfRangeError = given.Reset != nil && *given.Reset == "none"
	// A reader has one partition, so one limit; the partition's is the narrower.
	if given.FetchMaxBytes != nil {
		c.reading.MaxBytes = int(*given.FetchMaxBytes)
	}
	if given.PartitionFetchMaxBytes != nil {
		c.reading.MaxBytes = int(*given.PartitionFetchMaxBytes)
	}
	return nil
}

func (c *consumer) close() error {
	c.next, c.generation, c.failed = map[driver.Place]int64{}, nil, nil
	if c.source == nil {
		return nil
	}
	source := c.source
	c.source = nil
	return source.close()
}

func (c *consumer) groupConfig(topics []string) (kafka.ConsumerGroupConfig, error) {
	config := kafka.ConsumerGroupConfig{
		ID: *c.given.Group, Brokers: c.servers, Dialer: c.newDialer(), Topics: topics,
		StartOffset: kafka.FirstOffset,
	}
	if c.given.Reset != nil && *c.given.Reset == "latest" {
		config.StartOffset = kafka.LastOffset
	}
	if c.given.Assignor != nil {
		balancer, known := balancers[*c.given.Assignor]
		if !known {
			return config, fmt.Errorf("no assignor: %q", *c.given.Assignor)
		}
		config.GroupBalancers = []kafka.GroupBalancer{balancer}
	}
	if c.given.SessionTimeoutMs != nil {
		config.SessionTimeout = c.given.SessionTimeoutMs.Duration()
	}
	if c.given.HeartbeatMs != nil {
		config.HeartbeatInterval = c.given.HeartbeatMs.Duration()
	}
	if c.given.MetadataMaxAgeMs != nil {
		config.WatchPartitionChanges = true
		config.PartitionWatchInterval = c.given.MetadataMaxAgeMs.Duration()
	}
	return config, nil
}

func (c *consumer) subscribe(to driver.Subscription) error {
	if c.given.Group == nil {
		return errors.New("the library subscribes in groups only")
	}
	if err := c.close(); err != nil {
		return err
	}
	config, err := c.groupConfig(to.Topics)
	if err != nil {
		return err
	}
	member, err := newMember(c, config)
	if err != nil {
		return err
	}
	c.source = member
	return nil
}

func (c *consumer) assign(given driver.Assignment) error {
	if err := c.close(); err != nil {
		return err
	}
	assigned, err := newAssigned(c, given.Partitions)
	if err != nil {
		return err
	}
	c.source = assigned
	return nil
}

// positions are the offsets of what comes next, as far as this generation has had records.
func (c *consumer) positions() map[driver.Place]int64 {
	if current := c.source.current(); current != c.generation {
		c.generation, c.next = current, map[driver.Place]int64{}
	}
	return c.next
}

func (c *consumer) poll(how driver.Poll) (driver.Batch, error) {
	if err := c.failed; err != nil {
		c.failed = nil
		return driver.Batch{}, err
	}
	records := []driver.Consumed{}
	over := time.After(how.TimeoutMs.Duration())
	for len(records) < how.Records {
		select {
		case got := <-c.source.records():
			if got.err == nil {
				record := consumed(got.message)
				if next := c.positions(); got.generation == c.generation {
					next[record.Place] = record.Offset + 1
				}
				records = append(records, record)
				continue
			}
			if len(records) == 0 {
				return driver.Batch{}, got.err
			}
			c.failed = got.err
		case <-over:
		}
		break
	}
	return driver.Batch{Records: records}, nil
}

func consumed(message kafka.Message) driver.Consumed {
	headers := []driver.Header{}
	for _, header := range message.Headers {
		headers = append(headers, driver.Header{Name: header.Key, Value: header.Value})
	}
	return driver.Consumed{
		Place:     driver.Place{Topic: message.Topic, Partition: int32(message.Partition)},
		Offset:    message.Offset,
		Timestamp: message.Time.UnixMilli(),
		Key:       message.Key,
		Value:     message.Value,
		Headers:   headers,
	}
}

// assignment needs no polls: the library is a member in goroutines of its own.
func (c *consumer) assignment(how driver.Poll) (driver.Places, error) {
	if member, ok := c.source.(*member); ok {
		member.wait(how.TimeoutMs.Duration())
	}
	return driver.Sorted(slices.Collect(maps.Keys(c.source.starts()))), nil
}

func (c *consumer) seek(to driver.Offset) error {
	if err := c.source.seek(to); err != nil {
		return err
	}
	c.next[to.Place] = to.Offset
	return nil
}

func (c *consumer) position(of driver.Place) (driver.Position, error) {
	if next, polled := c.positions()[of]; polled {
		return driver.Position{Offset: next}, nil
	}
	at, assigned := c.source.starts()[of]
	if !assigned {
		return driver.Position{}, fmt.Errorf("%s-%d isn't assigned", of.Topic, of.Partition)
	}
	if at >= 0 {
		return driver.Position{Offset: at}, nil
	}
	found, err := c.list(of, kafka.OffsetRequest{Partition: int(of.Partition), Timestamp: at})
	if at == kafka.FirstOffset {
		return driver.Position{Offset: found.FirstOffset}, err
	}
	return driver.Position{Offset: found.LastOffset}, err
}
