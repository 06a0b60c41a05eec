package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kavka.test/drivers/driver"
)

func (c *consumer) commit(given driver.Commit) error {
	if c.given.Group == nil {
		return fmt.Errorf("no group to commit for")
	}
	if c.member == nil {
		return c.commitAssigned(given.Offsets)
	}
	if given.Offsets == nil {
		return c.client.CommitUncommittedOffsets(background)
	}
	metadata := map[driver.Place]string{}
	for _, one := range given.Offsets {
		if one.Metadata != "" {
			metadata[one.Place] = one.Metadata
		}
	}
	ctx := kgo.PreCommitFnContext(background, func(request *kmsg.OffsetCommitRequest) error {
		for _, topic := range request.Topics {
			for number := range topic.Partitions {
				partition := &topic.Partitions[number]
				place := driver.Place{Topic: topic.Topic, Partition: partition.Partition}
				if given, found := metadata[place]; found {
					partition.Metadata = kmsg.StringPtr(given)
				}
			}
		}
		return nil
	})
	var failed error
	c.client.CommitOffsetsSync(ctx, epochOffsets(given.Offsets), func(
		_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error,
	) {
		failed = err
		if err == nil {
			failed = refused(response)
		}
	})
	return failed
}

func refused(response *kmsg.OffsetCommitResponse) error {
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

// commitAssigned commits outside of a group's membership, for which the library has kadm.
func (c *consumer) commitAssigned(given []driver.Offset) error {
	if given == nil {
		for place := range c.starts {
			at, err := c.position(place)
			if err != nil {
				return err
			}
			given = append(given, driver.Offset{Place: place, Offset: at.Offset})
		}
	}
	offsets := kadm.Offsets{}
	for _, one := range given {
		offsets.Add(kadm.Offset{
			Topic:       one.Topic,
			Partition:   one.Partition,
			At:          one.Offset,
			LeaderEpoch: -1,
			Metadata:    one.Metadata,
		})
	}
	return kadm.NewClient(c.client).CommitAllOffsets(background, *c.given.Group, offsets)
}

func (c *consumer) committed(of driver.Places) (driver.Committed, error) {
	if c.given.Group == nil {
		return driver.Committed{}, fmt.Errorf("no group that has committed")
	}
	found, err := kadm.NewClient(c.client).FetchOffsets(background, *c.given.Group)
	if err != nil {
		return driver.Committed{}, err
	}
	offsets := []driver.CommittedOffset{}
	for _, place := range of.Partitions {
		one, exists := found.Lookup(place.Topic, place.Partition)
		if one.Err != nil {
			return driver.Committed{}, one.Err
		}
		committed := driver.CommittedOffset{Metadata: one.Metadata}
		if exists && one.At >= 0 {
			committed.Offset = &one.At
		}
		offsets = append(offsets, committed)
	}
	return driver.Committed{Offsets: offsets}, nil
}

func (c *consumer) offsetsForTimes(of driver.TimesOf) (driver.TimedOffsets, error) {
	admin := kadm.NewClient(c.client)
	offsets := []driver.TimedOffset{}
	for _, wanted := range of.Partitions {
		listed, err := admin.ListOffsetsAfterMilli(background, wanted.Timestamp, wanted.Topic)
		if err != nil {
			return driver.TimedOffsets{}, err
		}
		one, err := listedOf(listed, wanted.Place)
		if err != nil {
			return driver.TimedOffsets{}, err
		}
		timed := driver.TimedOffset{}
		// For "none so late" the library tells the end, with no timestamp.
		if one.Timestamp >= 0 {
			timed = driver.TimedOffset{Offset: &one.Offset, Timestamp: &one.Timestamp}
		}
		offsets = append(offsets, timed)
	}
	return driver.TimedOffsets{Offsets: offsets}, nil
}

func (c *consumer) ends(of driver.Places) (driver.Ends, error) {
	admin := kadm.NewClient(c.client)
	topics := topicsOf(of.Partitions)
	starts, err := admin.ListStartOffsets(background, topics...)
	if err != nil {
		return driver.Ends{}, err
	}
	list := admin.ListEndOffsets
	if c.given.Isolation != nil && *c.given.Isolation == "read_committed" {
		list = admin.ListCommittedOffsets
	}
	lasts, err := list(background, topics...)
	if err != nil {
		return driver.Ends{}, err
	}
	ends := []driver.End{}
	for _, place := range of.Partitions {
		start, err := listedOf(starts, place)
		if err != nil {
			return driver.Ends{}, err
		}
		last, err := listedOf(lasts, place)
		if err != nil {
			return driver.Ends{}, err
		}
		ends = append(ends, driver.End{Earliest: start.Offset, Latest: last.Offset})
	}
	return driver.Ends{Ends: ends}, nil
}

// listedOf is what was listed of a partition; for a topic that isn't there, the library puts the
// error at a partition -1.
func listedOf(listed kadm.ListedOffsets, place driver.Place) (kadm.ListedOffset, error) {
	for _, partition := range []int32{place.Partition, -1} {
		if one, found := listed.Lookup(place.Topic, partition); found {
			return one, one.Err
		}
	}
	return kadm.ListedOffset{}, kerr.UnknownTopicOrPartition
}

func topicsOf(places []driver.Place) []string {
	topics := kadm.TopicsSet{}
	for _, place := range places {
		topics.Add(place.Topic)
	}
	return topics.Topics()
}
