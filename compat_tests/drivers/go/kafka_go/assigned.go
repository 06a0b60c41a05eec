package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/segmentio/kafka-go"

	"kavka.test/drivers/driver"
)

// assigned are partitions that a consumer was given.
type assigned struct {
	of    *consumer
	each  map[driver.Place]*running
	begun map[driver.Place]int64
	out   chan fetched
}

type running struct {
	*pump
	stop  context.CancelFunc
	ended chan struct{}
}

func newAssigned(of *consumer, partitions []driver.Start) (*assigned, error) {
	a := &assigned{
		of:    of,
		each:  map[driver.Place]*running{},
		begun: map[driver.Place]int64{},
		out:   make(chan fetched),
	}
	for _, one := range partitions {
		at, err := one.At()
		if err != nil {
			return nil, errors.Join(err, a.close())
		}
		// The library's numbers for the two ends are the protocol's, as the driver's are.
		pump, err := newPump(of, one.Place, at, a.out)
		if err != nil {
			return nil, errors.Join(err, a.close())
		}
		a.each[one.Place] = &running{pump: pump}
		a.each[one.Place].begin()
		a.begun[one.Place] = at
	}
	return a, nil
}

func (r *running) begin() {
	ctx, stop := context.WithCancel(background)
	r.stop, r.ended = stop, make(chan struct{})
	go func() {
		defer close(r.ended)
		r.run(ctx)
	}()
}

func (r *running) end() {
	r.stop()
	<-r.ended
}

func (a *assigned) records() <-chan fetched { return a.out }

func (a *assigned) current() *kafka.Generation { return nil }

func (a *assigned) starts() map[driver.Place]int64 { return a.begun }

func (a *assigned) seek(to driver.Offset) error {
	one, found := a.each[to.Place]
	if !found {
		return fmt.Errorf("%s-%d isn't assigned", to.Topic, to.Partition)
	}
	one.end()
	defer one.begin()
	return one.reader.SetOffset(to.Offset)
}

func (a *assigned) commit(offsets []driver.Offset) error {
	return a.of.commitAs(offsets, kafka.OffsetCommitRequest{GenerationID: -1})
}

func (a *assigned) close() error {
	var failed error
	for _, one := range slices.Collect(maps.Values(a.each)) {
		one.end()
		failed = errors.Join(failed, one.reader.Close())
	}
	return failed
}
