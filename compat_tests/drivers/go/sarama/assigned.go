package main

import (
	"errors"
	"maps"
	"slices"

	"github.com/IBM/sarama"

	"kavka.test/drivers/driver"
)

// assigned are partitions that a consumer was given, each a consumer of the library's own.
type assigned struct {
	of       *consumer
	consumer sarama.Consumer
	each     []sarama.PartitionConsumer
	starts   map[driver.Place]int64
	out      chan *sarama.ConsumerMessage
	failures chan error
	closed   chan struct{}
}

func newAssigned(of *consumer, partitions []driver.Start) (*assigned, error) {
	consumer, err := sarama.NewConsumerFromClient(of.client)
	if err != nil {
		return nil, err
	}
	a := &assigned{
		of:       of,
		consumer: consumer,
		starts:   map[driver.Place]int64{},
		out:      make(chan *sarama.ConsumerMessage),
		failures: make(chan error, len(partitions)),
		closed:   make(chan struct{}),
	}
	for _, one := range partitions {
		if err := a.add(one); err != nil {
			return nil, errors.Join(err, a.close())
		}
	}
	return a, nil
}

func (a *assigned) add(start driver.Start) error {
	at, err := start.At()
	if err != nil {
		return err
	}
	a.starts[start.Place] = at
	// The library's numbers for the two ends are the protocol's, as the driver's are.
	one, err := a.consumer.ConsumePartition(start.Topic, start.Partition, at)
	if errors.Is(err, sarama.ErrOffsetOutOfRange) {
		// The library finds this out when it is asked for the partition, not when for records.
		a.failures <- err
		return nil
	}
	if err != nil {
		return err
	}
	a.each = append(a.each, one)
	go a.pass(one)
	go a.passErrors(one)
	return nil
}

func (a *assigned) pass(one sarama.PartitionConsumer) {
	for message := range one.Messages() {
		select {
		case a.out <- message:
		case <-a.closed:
			return
		}
	}
}

func (a *assigned) passErrors(one sarama.PartitionConsumer) {
	for err := range one.Errors() {
		select {
		case a.failures <- err:
		case <-a.closed:
			return
		}
	}
}

func (a *assigned) records() <-chan *sarama.ConsumerMessage { return a.out }
func (a *assigned) errors() <-chan error                    { return a.failures }
func (a *assigned) places() []driver.Place                  { return slices.Collect(maps.Keys(a.starts)) }
func (a *assigned) pause(which map[string][]int32)          { a.consumer.Pause(which) }
func (a *assigned) resume(which map[string][]int32)         { a.consumer.Resume(which) }

func (a *assigned) session() sarama.ConsumerGroupSession { return nil }

func (a *assigned) start(of driver.Place) (int64, error) {
	if at := a.starts[of]; at >= 0 {
		return at, nil
	}
	return a.of.client.GetOffset(of.Topic, of.Partition, a.starts[of])
}

// commit is without a membership, for which the library has its administration.
func (a *assigned) commit(offsets []driver.Offset) error {
	all := map[string]map[int32]sarama.OffsetAndMetadata{}
	for _, one := range offsets {
		if all[one.Topic] == nil {
			all[one.Topic] = map[int32]sarama.OffsetAndMetadata{}
		}
		all[one.Topic][one.Partition] = sarama.OffsetAndMetadata{
			Offset: one.Offset, Metadata: one.Metadata, LeaderEpoch: -1,
		}
	}
	response, err := a.of.admin.AlterConsumerGroupOffsets(*a.of.given.Group, all, nil)
	if err != nil {
		return err
	}
	for _, partitions := range response.Errors {
		for _, refused := range partitions {
			if refused != sarama.ErrNoError {
				return refused
			}
		}
	}
	return nil
}

func (a *assigned) close() error {
	close(a.closed)
	var failed error
	for _, one := range a.each {
		failed = errors.Join(failed, one.Close())
	}
	return errors.Join(failed, a.consumer.Close())
}
