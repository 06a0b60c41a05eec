package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kavka.test/drivers/driver"
)

var balancers = map[string]kgo.GroupBalancer{
	"range":       kgo.RangeBalancer(),
	"roundrobin":  kgo.RoundRobinBalancer(),
	"sticky":      kgo.StickyBalancer(),
	"cooperative": kgo.CooperativeStickyBalancer(),
}

var timestampTypes = map[int8]string{0: "create", 1: "append"}

// consumer is a client that is made anew by subscribe and by assign: the library wants to know then
// whether it consumes in a group. Before, it consumes nothing.
type consumer struct {
	connection []kgo.Opt
	given      driver.ConsumerOptions
	options    []kgo.Opt
	client     *kgo.Client
	member     *member
	// starts and next are of assigned partitions, whose positions the library tells nobody.
	starts map[driver.Place]int64
	next   map[driver.Place]int64
	failed error
}

func (c *consumer) offer(requests map[string]driver.Handler) {
	requests["consumer"] = driver.Do(c.make)
	requests["subscribe"] = driver.Do(c.subscribe)
	requests["assign"] = driver.Do(c.assign)
	requests["poll"] = driver.Take(c.poll)
	requests["assignment"] = driver.Take(c.assignment)
	requests["seek"] = driver.Do(c.seek)
	requests["position"] = driver.Take(c.position)
	requests["pause"] = driver.Do(func(which driver.Places) error {
		c.client.PauseFetchPartitions(byTopic(which.Partitions))
		return nil
	})
	requests["resume"] = driver.Do(func(which driver.Places) error {
		c.client.ResumeFetchPartitions(byTopic(which.Partitions))
		return nil
	})
	requests["commit"] = driver.Do(c.commit)
	requests["committed"] = driver.Take(c.committed)
	requests["offsets_for_times"] = driver.Take(c.offsetsForTimes)
	requests["ends"] = driver.Take(c.ends)
	requests["close_consumer"] = driver.Order(func() error { c.close(); return nil })
}

func (c *consumer) make(given driver.ConsumerOptions) error {
	c.close()
	c.given = given
	var err error
	if c.options, err = c.clientOptions(); err != nil {
		return err
	}
	return c.start()
}

func (c *consumer) close() {
	if c.client != nil {
		c.client.Close()
		c.client, c.member = nil, nil
	}
}

func (c *consumer) start(more ...kgo.Opt) error {
	c.close()
	client, err := kgo.NewClient(slices.Concat(c.options, more)...)
	if err != nil {
		return err
	}
	c.client, c.failed = client, nil
	c.starts, c.next = map[driver.Place]int64{}, map[driver.Place]int64{}
	return nil
}

func (c *consumer) clientOptions() ([]kgo.Opt, error) {
	options := slices.Clone(c.connection)
	reset := "earliest"
	if c.given.Reset != nil {
		reset = *c.given.Reset
	}
	to, known := map[string]kgo.Offset{
		"earliest": kgo.NewOffset().AtStart(),
		"latest":   kgo.NewOffset().AtEnd(),
		"none":     kgo.NoResetOffset(),
	}[reset]
	if !known {
		return nil, fmt.Errorf("no reset: %q", reset)
	}
	options = append(options, kgo.ConsumeResetOffset(to))
	if given := c.given.Isolation; given != nil {
		level := kgo.ReadUncommitted()
		if *given == "read_committed" {
			level = kgo.ReadCommitted()
		}
		options = append(options, kgo.FetchIsolationLevel(level))
	}
	if given := c.given.FetchMaxBytes; given != nil {
		options = append(options, kgo.FetchMaxBytes(*given))
	}
	if given := c.given.PartitionFetchMaxBytes; given != nil {
		options = append(options, kgo.FetchMaxPartitionBytes(*given))
	}
	if given := c.given.MetadataMaxAgeMs; given != nil {
		// The least age is five seconds by default, which must not be more than the greatest.
		age := given.Duration()
		options = append(options, kgo.MetadataMaxAge(age), kgo.MetadataMinAge(min(age, 5*time.Second)))
	}
	return options, nil
}

func (c *consumer) groupOptions() ([]kgo.Opt, error) {
	options := []kgo.Opt{kgo.ConsumerGroup(*c.given.Group), kgo.DisableAutoCommit()}
	byServer := c.given.Protocol != nil && *c.given.Protocol == "consumer"
	assignor := c.given.Assignor
	if byServer {
		options = append(options, kgo.ServerSideBalancer())
		if assignor == nil {
			// With the library's default it would stay with the classic protocol; of the two that it
			// takes to the broker, "sticky" is there the broker's default ("uniform").
			assignor = new("sticky")
		}
	}
	if assignor != nil {
		balancer, known := balancers[*assignor]
		if !known {
			return nil, fmt.Errorf("no assignor: %q", *assignor)
		}
		options = append(options, kgo.Balancers(balancer))
	}
	if c.given.InstanceID != nil {
		options = append(options, kgo.InstanceID(*c.given.InstanceID))
	}
	if c.given.SessionTimeoutMs != nil {
		options = append(options, kgo.SessionTimeout(c.given.SessionTimeoutMs.Duration()))
	}
	if c.given.HeartbeatMs != nil {
		options = append(options, kgo.HeartbeatInterval(c.given.HeartbeatMs.Duration()))
	}
	if c.given.Reset != nil && *c.given.Reset == "none" {
		options = append(options, kgo.ConsumeStartOffset(kgo.NewOffset().AtCommitted()))
	}
	return options, nil
}

func (c *consumer) subscribe(to driver.Subscription) error {
	var options []kgo.Opt
	if to.Pattern != nil {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics("^(?:"+*to.Pattern+")$"))
	} else {
		options = append(options, kgo.ConsumeTopics(to.Topics...))
	}
	if c.given.Group == nil {
		return c.start(options...)
	}
	more, err := c.groupOptions()
	if err != nil {
		return err
	}
	member := newMember()
	options = slices.Concat(options, more, member.options())
	if err := c.start(options...); err != nil {
		return err
	}
	c.member = member
	return nil
}

func (c *consumer) assign(given driver.Assignment) error {
	starts := map[driver.Place]int64{}
	wanted := map[string]map[int32]kgo.Offset{}
	for _, one := range given.Partitions {
		at, err := one.At()
		if err != nil {
			return err
		}
		starts[one.Place] = at
		if wanted[one.Topic] == nil {
			wanted[one.Topic] = map[int32]kgo.Offset{}
		}
		wanted[one.Topic][one.Partition] = c.from(at)
	}
	if err := c.start(kgo.ConsumePartitions(wanted)); err != nil {
		return err
	}
	c.starts = starts
	return nil
}

func (c *consumer) from(at int64) kgo.Offset {
	from := kgo.NewOffset()
	if c.given.Reset != nil && *c.given.Reset == "none" {
		from = kgo.NoResetOffset()
	}
	switch at {
	case driver.Earliest:
		return from.AtStart()
	case driver.Latest:
		return from.AtEnd()
	default:
		return from.At(at)
	}
}

func (c *consumer) poll(how driver.Poll) (driver.Batch, error) {
	if err := c.failed; err != nil {
		c.failed = nil
		return driver.Batch{}, err
	}
	ctx, stop := context.WithTimeout(background, how.TimeoutMs.Duration())
	defer stop()
	records := []driver.Consumed{}
	// The library looks at nothing when the time is over already, but with no time it takes what it has.
	within := ctx
	if how.TimeoutMs == 0 {
		within = nil
	}
	for len(records) < how.Records {
		fetches := c.client.PollRecords(within, how.Records-len(records))
		for record := range fetches.RecordsAll() {
			consumed := consumed(record)
			c.next[consumed.Place] = consumed.Offset + 1
			records = append(records, consumed)
		}
		for _, one := range fetches.Errors() {
			if !errors.Is(one.Err, context.DeadlineExceeded) {
				c.failed = one.Err
			}
		}
		if c.failed != nil || within == nil || ctx.Err() != nil {
			break
		}
	}
	if c.failed != nil && len(records) == 0 {
		err := c.failed
		c.failed = nil
		return driver.Batch{}, err
	}
	return driver.Batch{Records: records}, nil
}

func consumed(record *kgo.Record) driver.Consumed {
	headers := []driver.Header{}
	for _, header := range record.Headers {
		headers = append(headers, driver.Header{Name: header.Key, Value: header.Value})
	}
	return driver.Consumed{
		Place:         driver.Place{Topic: record.Topic, Partition: record.Partition},
		Offset:        record.Offset,
		Timestamp:     record.Timestamp.UnixMilli(),
		TimestampType: timestampTypes[record.Attrs.TimestampType()],
		Key:           record.Key,
		Value:         record.Value,
		Headers:       headers,
	}
}

// assignment needs no polls: the library is a member in goroutines of its own.
func (c *consumer) assignment(how driver.Poll) (driver.Places, error) {
	if c.member != nil {
		return c.member.wait(how.TimeoutMs.Duration())
	}
	return driver.Sorted(slices.Collect(maps.Keys(c.starts))), nil
}

// seek begins anew with an assigned partition that nothing came of yet: the library skips it in
// SetOffsets as long as it hasn't found it in its metadata.
func (c *consumer) seek(to driver.Offset) error {
	_, assigned := c.starts[to.Place]
	if _, polled := c.next[to.Place]; assigned && !polled {
		c.client.RemoveConsumePartitions(map[string][]int32{to.Topic: {to.Partition}})
		c.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{
			to.Topic: {to.Partition: c.from(to.Offset)},
		})
		c.starts[to.Place] = to.Offset
		return nil
	}
	c.client.SetOffsets(epochOffsets([]driver.Offset{to}))
	c.next[to.Place] = to.Offset
	return nil
}

func (c *consumer) position(of driver.Place) (driver.Position, error) {
	if next, polled := c.next[of]; polled {
		return driver.Position{Offset: next}, nil
	}
	if at, assigned := c.starts[of]; assigned && at >= 0 {
		return driver.Position{Offset: at}, nil
	}
	if committed, found := c.client.CommittedOffsets()[of.Topic][of.Partition]; found {
		return driver.Position{Offset: committed.Offset}, nil
	}
	ends, err := c.ends(driver.Places{Partitions: []driver.Place{of}})
	if err != nil {
		return driver.Position{}, err
	}
	if at := c.starts[of]; at == driver.Latest || c.given.Reset != nil && *c.given.Reset == "latest" {
		return driver.Position{Offset: ends.Ends[0].Latest}, nil
	}
	return driver.Position{Offset: ends.Ends[0].Earliest}, nil
}

func epochOffsets(of []driver.Offset) map[string]map[int32]kgo.EpochOffset {
	all := map[string]map[int32]kgo.EpochOffset{}
	for _, one := range of {
		if all[one.Topic] == nil {
			all[one.Topic] = map[int32]kgo.EpochOffset{}
		}
		all[one.Topic][one.Partition] = kgo.EpochOffset{Epoch: -1, Offset: one.Offset}
	}
	return all
}

func byTopic(places []driver.Place) map[string][]int32 {
	all := map[string][]int32{}
	for _, place := range places {
		all[place.Topic] = append(all[place.Topic], place.Partition)
	}
	return all
}
