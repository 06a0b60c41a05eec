package main

import (
	"context"

	"github.com/segmentio/kafka-go"

	"kavka.test/drivers/driver"
)

// fetched is a record, or the error that ended a partition.
type fetched struct {
	message kafka.Message
	err     error
	// generation is the group's that the partition was assigned in, nil without a group.
	generation *kafka.Generation
}

// pump reads a partition, which is a reader each in the library, into a channel that all share.
type pump struct {
	reader     *kafka.Reader
	generation *kafka.Generation
	into       chan<- fetched
}

func newPump(of *consumer, place driver.Place, at int64, into chan<- fetched) (*pump, error) {
	config := of.reading
	config.Topic, config.Partition = place.Topic, int(place.Partition)
	reader := kafka.NewReader(config)
	if err := reader.SetOffset(at); err != nil {
		return nil, err
	}
	return &pump{reader: reader, into: into}, nil
}

// run ends with the context, or with an error.
func (p *pump) run(ctx context.Context) {
	for {
		message, err := p.reader.FetchMessage(ctx)
		if ctx.Err() != nil {
			return
		}
		select {
		case p.into <- fetched{message, err, p.generation}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}
