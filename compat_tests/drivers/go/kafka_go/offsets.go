package main

import (
	"errors"
	"time"

	"github.com/segmentio/kafka-go"

	"kavka.test/drivers/driver"
)

func (c *consumer) commit(given driver.Commit) error {
	if c.given.Group == nil {
		return errors.New("no group to commit for")
	}
	offsets := given.Offsets
	if offsets == nil {
		for place, next := range c.positions() {
			offsets = append(offsets, driver.Offset{Place: place, Offset: next})
		}
	}
	return c.source.commit(offsets)
}

// commitAs commits as the member that the request names, or as none.
func (c *consumer) commitAs(offsets []driver.Offset, request kafka.OffsetCommitRequest) error {
	request.GroupID = *c.given.Group
	request.Topics = map[string][]kafka.OffsetCommit{}
	for _, one := range offsets {
		request.Topics[one.Topic] = append(request.Topics[one.Topic], kafka.OffsetCommit{
			Partition: int(one.Partition), Offset: one.Offset, Metadata: one.Metadata,
		})
	}
	response, err := c.client.OffsetCommit(background, &request)
	if err != nil {
		return err
	}
	for _, partitions := range response.Topics {
		for _, partition := range partitions {
			if partition.Error != nil {
				return partition.Error
			}
		}
	}
	return nil
}

func (c *consumer) committed(of driver.Places) (driver.Committed, error) {
	if c.given.Group == nil {
		return driver.Committed{}, errors.New("no group that has committed")
	}
	offsets := []driver.CommittedOffset{}
	for _, place := range of.Partitions {
		response, err := c.client.OffsetFetch(background, &kafka.OffsetFetchRequest{
			GroupID: *c.given.Group, Topics: map[string][]int{place.Topic: {int(place.Partition)}},
		})
		if err != nil {
			return driver.Committed{}, err
		}
		if response.Error != nil {
			return driver.Committed{}, response.Error
		}
		for _, one := range response.Topics[place.Topic] {
			if one.Error != nil {
				return driver.Committed{}, one.Error
			}
			committed := driver.CommittedOffset{Metadata: one.Metadata}
			if one.CommittedOffset >= 0 {
				committed.Offset = &one.CommittedOffset
			}
			offsets = append(offsets, committed)
		}
	}
	return driver.Committed{Offsets: offsets}, nil
}

func (c *consumer) offsetsForTimes(of driver.TimesOf) (driver.TimedOffsets, error) {
	offsets := []driver.TimedOffset{}
	for _, wanted := range of.Partitions {
		at := kafka.TimeOffsetOf(int(wanted.Partition), time.UnixMilli(wanted.Timestamp))
		found, err := c.list(wanted.Place, at)
		if err != nil {
			return driver.TimedOffsets{}, err
		}
		// The time that the library gives with an offset is the wanted one, not the record's.
		timed := driver.TimedOffset{}
		for offset := range found.Offsets {
			if offset >= 0 {
				timed.Offset = &offset
			}
		}
		offsets = append(offsets, timed)
	}
	return driver.TimedOffsets{Offsets: offsets}, nil
}

func (c *consumer) ends(of driver.Places) (driver.Ends, error) {
	ends := []driver.End{}
	for _, place := range of.Partitions {
		number := int(place.Partition)
		found, err := c.list(place, kafka.FirstOffsetOf(number), kafka.LastOffsetOf(number))
		if err != nil {
			return driver.Ends{}, err
		}
		ends = append(ends, driver.End{Earliest: found.FirstOffset, Latest: found.LastOffset})
	}
	return driver.Ends{Ends: ends}, nil
}

func (c *consumer) list(
	of driver.Place, wanted ...kafka.OffsetRequest,
) (kafka.PartitionOffsets, error) {
	response, err := c.client.ListOffsets(background, &kafka.ListOffsetsRequest{
		Topics:         map[string][]kafka.OffsetRequest{of.Topic: wanted},
		IsolationLevel: c.reading.IsolationLevel,
	})
	if err != nil {
		return kafka.PartitionOffsets{}, err
	}
	for _, one := range response.Topics[of.Topic] {
		if one.Partition == int(of.Partition) {
			return one, one.Error
		}
	}
	return kafka.PartitionOffsets{}, kafka.UnknownTopicOrPartition
}
