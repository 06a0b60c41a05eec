package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"kavka.test/drivers/driver"
)

var strategies = map[string]func() sarama.BalanceStrategy{
	"range":       sarama.NewBalanceStrategyRange,
	"roundrobin":  sarama.NewBalanceStrategyRoundRobin,
	"sticky":      sarama.NewBalanceStrategySticky,
	"cooperative": sarama.NewBalanceStrategyCooperativeSticky,
}

// source is where records come from: assigned partitions, or a group's claims.
type source interface {
	records() <-chan *sarama.ConsumerMessage
	errors() <-chan error
	places() []driver.Place
	pause(map[string][]int32)
	resume(map[string][]int32)
	commit([]driver.Offset) error
	// session is the group's, nil without a group.
	session() sarama.ConsumerGroupSession
	// start is the offset that a partition began at.
	start(driver.Place) (int64, error)
	close() error
}

type consumer struct {
	cluster
	given  driver.ConsumerOptions
	client sarama.Client
	admin  sarama.ClusterAdmin
	source source
	// next are the positions, which the library doesn't tell: in a session of a group, as the next one
	// begins where the group has committed.
	next    map[driver.Place]int64
	session sarama.ConsumerGroupSession
	paused  map[driver.Place]bool
	// held are records of paused partitions: the library had fetched them before.
	held   []*sarama.ConsumerMessage
	failed error
}

func (c *consumer) offer(requests map[string]driver.Handler) {
	requests["consumer"] = driver.Do(c.make)
	requests["subscribe"] = driver.Do(c.subscribe)
	requests["assign"] = driver.Do(c.assign)
	requests["poll"] = driver.Take(c.poll)
	requests["assignment"] = driver.Take(c.assignment)
	requests["position"] = driver.Take(c.position)
	requests["pause"] = driver.Do(c.pause)
	requests["resume"] = driver.Do(c.resume)
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
	config := c.newConfig()
	if err := configureConsumer(config, given); err != nil {
		return err
	}
	client, err := sarama.NewClient(c.servers, config)
	if err != nil {
		return err
	}
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		return errors.Join(err, client.Close())
	}
	c.given, c.client, c.admin = given, client, admin
	return nil
}

func (c *consumer) stop() error {
	c.next, c.paused = map[driver.Place]int64{}, map[driver.Place]bool{}
	c.session, c.held, c.failed = nil, nil, nil
	if c.source == nil {
		return nil
	}
	source := c.source
	c.source = nil
	return source.close()
}

func (c *consumer) close() error {
	err := c.stop()
	if c.client != nil {
		// It closes the client too.
		err = errors.Join(err, c.admin.Close())
		c.client, c.admin = nil, nil
	}
	return err
}

func configureConsumer(config *sarama.Config, given driver.ConsumerOptions) error {
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	if given.Reset != nil {
		switch *given.Reset {
		case "earliest":
		case "latest":
			config.Consumer.Offsets.Initial = sarama.OffsetNewest
		case "none":
			config.Consumer.Group.ResetInvalidOffsets = false
		default:
			return fmt.Errorf("no reset: %q", *given.Reset)
		}
	}
	if given.Isolation != nil && *given.Isolation == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	if given.Assignor != nil {
		strategy, known := strategies[*given.Assignor]
		if !known {
			return fmt.Errorf("no assignor: %q", *given.Assignor)
		}
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy()}
	}
	if given.InstanceID != nil {
		config.Consumer.Group.InstanceId = *given.InstanceID
	}
	if given.SessionTimeoutMs != nil {
		config.Consumer.Group.Session.Timeout = given.SessionTimeoutMs.Duration()
	}
	if given.HeartbeatMs != nil {
		config.Consumer.Group.Heartbeat.Interval = given.HeartbeatMs.Duration()
	}
	if given.FetchMaxBytes != nil {
		config.Consumer.Fetch.MaxBytes = *given.FetchMaxBytes
	}
	if given.PartitionFetchMaxBytes != nil {
		config.Consumer.Fetch.Default = *given.PartitionFetchMaxBytes
	}
	if given.MetadataMaxAgeMs != nil {
		config.Metadata.RefreshFrequency = given.MetadataMaxAgeMs.Duration()
	}
	return nil
}

func (c *consumer) subscribe(to driver.Subscription) error {
	if c.given.Group == nil {
		return errors.New("the library subscribes in groups only")
	}
	if err := c.stop(); err != nil {
		return err
	}
	member, err := newMember(*c.given.Group, to.Topics, c.client)
	if err != nil {
		return err
	}
	c.source = member
	return nil
}

func (c *consumer) assign(given driver.Assignment) error {
	if err := c.stop(); err != nil {
		return err
	}
	assigned, err := newAssigned(c, given.Partitions)
	if err != nil {
		return err
	}
	c.source = assigned
	return nil
}

func (c *consumer) poll(how driver.Poll) (driver.Batch, error) {
	if err := c.failed; err != nil {
		c.failed = nil
		return driver.Batch{}, err
	}
	records := []driver.Consumed{}
	take := func(message *sarama.ConsumerMessage) {
		if place := placeOf(message); c.paused[place] {
			c.held = append(c.held, message)
		} else {
			c.positions()[place] = message.Offset + 1
			records = append(records, consumed(message))
		}
	}
	held := c.held
	c.held = nil
	for number, message := range held {
		if len(records) == how.Records {
			c.held = append(c.held, held[number:]...)
			break
		}
		take(message)
	}
	over := time.After(how.TimeoutMs.Duration())
	for len(records) < how.Records {
		select {
		case message := <-c.source.records():
			take(message)
			continue
		case err := <-c.source.errors():
			if len(records) == 0 {
				return driver.Batch{}, err
			}
			c.failed = err
		case <-over:
		}
		break
	}
	return driver.Batch{Records: records}, nil
}

func placeOf(message *sarama.ConsumerMessage) driver.Place {
	return driver.Place{Topic: message.Topic, Partition: message.Partition}
}

func consumed(message *sarama.ConsumerMessage) driver.Consumed {
	headers := []driver.Header{}
	for _, header := range message.Headers {
		headers = append(headers, driver.Header{Name: string(header.Key), Value: header.Value})
	}
	return driver.Consumed{
		Place:     placeOf(message),
		Offset:    message.Offset,
		Timestamp: message.Timestamp.UnixMilli(),
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
	return driver.Sorted(c.source.places()), nil
}

func (c *consumer) positions() map[driver.Place]int64 {
	if current := c.source.session(); current != c.session {
		c.session, c.next = current, map[driver.Place]int64{}
	}
	return c.next
}

func (c *consumer) position(of driver.Place) (driver.Position, error) {
	if next, polled := c.positions()[of]; polled {
		return driver.Position{Offset: next}, nil
	}
	at, err := c.source.start(of)
	return driver.Position{Offset: at}, err
}

func (c *consumer) pause(which driver.Places) error {
	for _, place := range which.Partitions {
		c.paused[place] = true
	}
	c.source.pause(byTopic(which.Partitions))
	return nil
}

func (c *consumer) resume(which driver.Places) error {
	for _, place := range which.Partitions {
		delete(c.paused, place)
	}
	c.source.resume(byTopic(which.Partitions))
	return nil
}

func byTopic(places []driver.Place) map[string][]int32 {
	all := map[string][]int32{}
	for _, place := range places {
		all[place.Topic] = append(all[place.Topic], place.Partition)
	}
	return all
}

func (c *consumer) commit(given driver.Commit) error {
	if c.given.Group == nil {
		return errors.New("no group to commit for")
	}
	offsets := given.Offsets
	if offsets == nil {
		assigned := c.source.places()
		for place, next := range c.positions() {
			if slices.Contains(assigned, place) {
				offsets = append(offsets, driver.Offset{Place: place, Offset: next})
			}
		}
	}
	return c.source.commit(offsets)
}

// metadata is of this consumer's membership in a group, if it is a member of that.
func (c *consumer) metadata(group string) *sarama.ConsumerGroupMetadata {
	member, ok := c.source.(*member)
	if !ok || *c.given.Group != group {
		return nil
	}
	session := member.session()
	if session == nil {
		return nil
	}
	return sarama.NewConsumerGroupMetadataFromSession(session, group, c.given.InstanceID)
}
