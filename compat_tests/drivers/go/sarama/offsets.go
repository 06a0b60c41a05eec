package main

import (
	"errors"

	"github.com/IBM/sarama"

	"kavka.test/drivers/driver"
)

func (c *consumer) committed(of driver.Places) (driver.Committed, error) {
	if c.given.Group == nil {
		return driver.Committed{}, errors.New("no group that has committed")
	}
	blocks, err := committedBy(c.admin, *c.given.Group, byTopic(of.Partitions))
	if err != nil {
		return driver.Committed{}, err
	}
	offsets := []driver.CommittedOffset{}
	for _, place := range of.Partitions {
		committed := driver.CommittedOffset{}
		if block := blocks[place.Topic][place.Partition]; block != nil {
			if block.Err != sarama.ErrNoError {
				return driver.Committed{}, block.Err
			}
			committed.Metadata = block.Metadata
			if block.Offset >= 0 {
				committed.Offset = &block.Offset
			}
		}
		offsets = append(offsets, committed)
	}
	return driver.Committed{Offsets: offsets}, nil
}

type blocks = map[string]map[int32]*sarama.OffsetFetchResponseBlock

// committedBy is what a group has committed for some partitions, or, with nil, for all.
func committedBy(
	admin sarama.ClusterAdmin, group string, partitions map[string][]int32,
) (blocks, error) {
	response, err := admin.ListConsumerGroupOffsets(group, partitions)
	if err != nil {
		return nil, err
	}
	if refused := response.GroupError(); refused != sarama.ErrNoError {
		return nil, refused
	}
	if found := response.GetGroup(group); found != nil {
		return found.Blocks, nil
	}
	return response.Blocks, nil
}

func (c *consumer) offsetsForTimes(of driver.TimesOf) (driver.TimedOffsets, error) {
	offsets := []driver.TimedOffset{}
	for _, wanted := range of.Partitions {
		found, err := c.list(wanted.Place, wanted.Timestamp)
		if err != nil {
			return driver.TimedOffsets{}, err
		}
		timed := driver.TimedOffset{}
		if found.Offset >= 0 {
			timed = driver.TimedOffset{Offset: &found.Offset, Timestamp: &found.Timestamp}
		}
		offsets = append(offsets, timed)
	}
	return driver.TimedOffsets{Offsets: offsets}, nil
}

func (c *consumer) ends(of driver.Places) (driver.Ends, error) {
	ends := []driver.End{}
	for _, place := range of.Partitions {
		first, err := c.list(place, sarama.OffsetOldest)
		if err != nil {
			return driver.Ends{}, err
		}
		last, err := c.list(place, sarama.OffsetNewest)
		if err != nil {
			return driver.Ends{}, err
		}
		ends = append(ends, driver.End{Earliest: first.Offset, Latest: last.Offset})
	}
	return driver.Ends{Ends: ends}, nil
}

func (c *consumer) list(of driver.Place, time int64) (*sarama.OffsetResult, error) {
	options := &sarama.ListOffsetsOptions{IsolationLevel: c.client.Config().Consumer.IsolationLevel}
	return listed(c.admin, of, time, options)
}

func listed(
	admin sarama.ClusterAdmin, of driver.Place, time int64, options *sarama.ListOffsetsOptions,
) (*sarama.OffsetResult, error) {
	wanted := map[string]map[int32]int64{of.Topic: {of.Partition: time}}
	found, err := admin.ListOffsets(wanted, options)
	if err != nil {
		return nil, err
	}
	one := found[of.Topic][of.Partition]
	if one == nil {
		return nil, sarama.ErrIncompleteResponse
	}
	// Without an error, it has the one that says so.
	if one.Err != nil && !errors.Is(one.Err, sarama.ErrNoError) {
		return nil, one.Err
	}
	return one, nil
}
