package main

import (
	"context"
	"errors"
	"log"
	"maps"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"kavka.test/drivers/driver"
)

// member is a membership in a group. It is made of the library's ConsumerGroup: a Reader in a group
// doesn't tell what it is assigned.
type member struct {
	of     *consumer
	group  *kafka.ConsumerGroup
	stop   context.CancelFunc
	ended  chan struct{}
	joined chan struct{}
	once   sync.Once
	out    chan fetched

	mutex      sync.Mutex
	generation *kafka.Generation
	begun      map[driver.Place]int64
}

func newMember(of *consumer, config kafka.ConsumerGroupConfig) (*member, error) {
	group, err := kafka.NewConsumerGroup(config)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(background)
	m := &member{
		of:     of,
		group:  group,
		stop:   stop,
		ended:  make(chan struct{}),
		joined: make(chan struct{}),
		out:    make(chan fetched),
	}
	go m.run(ctx)
	return m, nil
}

// run goes from one generation to the next, as the library wants it.
func (m *member) run(ctx context.Context) {
	defer close(m.ended)
	for {
		generation, err := m.group.Next(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			select {
			case m.out <- fetched{err: err}:
				continue
			case <-ctx.Done():
				return
			}
		}
		m.begin(generation)
		m.once.Do(func() { close(m.joined) })
	}
}

func (m *member) begin(generation *kafka.Generation) {
	begun := map[driver.Place]int64{}
	for topic, partitions := range generation.Assignments {
		for _, one := range partitions {
			begun[driver.Place{Topic: topic, Partition: int32(one.ID)}] = one.Offset
		}
	}
	m.mutex.Lock()
	m.generation, m.begun = generation, begun
	m.mutex.Unlock()
	for place, at := range begun {
		generation.Start(func(ctx context.Context) { m.read(ctx, generation, place, at) })
	}
	generation.Start(func(ctx context.Context) {
		<-ctx.Done()
		m.mutex.Lock()
		defer m.mutex.Unlock()
		m.generation, m.begun = nil, nil
	})
}

// read is over only with the generation: the library ends that with the first of its functions.
func (m *member) read(
	ctx context.Context, generation *kafka.Generation, place driver.Place, at int64,
) {
	pump, err := newPump(m.of, place, at, m.out)
	if err == nil {
		pump.generation = generation
		pump.run(ctx)
		err = pump.reader.Close()
	}
	if err != nil {
		select {
		case m.out <- fetched{err: err, generation: generation}:
		case <-ctx.Done():
		}
	}
	<-ctx.Done()
}

func (m *member) records() <-chan fetched { return m.out }

func (m *member) current() *kafka.Generation {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.generation
}

func (m *member) starts() map[driver.Place]int64 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return maps.Clone(m.begun)
}

// wait ends with the first assignment, or when the time is over. The member goes on after errors, as
// users' programs do that log them.
func (m *member) wait(timeout time.Duration) {
	over := time.After(timeout)
	for {
		select {
		case <-m.joined:
			return
		case got := <-m.out: // before there is an assignment, there can only be an error
			log.Print(got.err)
		case <-over:
			return
		}
	}
}

func (m *member) seek(driver.Offset) error {
	return errors.New("the library doesn't seek in a group")
}

func (m *member) commit(offsets []driver.Offset) error {
	generation := m.current()
	if generation == nil {
		return kafka.ErrGenerationEnded
	}
	plain := map[string]map[int]int64{}
	for _, one := range offsets {
		if one.Metadata != "" {
			return m.of.commitAs(offsets, kafka.OffsetCommitRequest{
				GenerationID: int(generation.ID), MemberID: generation.MemberID,
			})
		}
		if plain[one.Topic] == nil {
			plain[one.Topic] = map[int]int64{}
		}
		plain[one.Topic][int(one.Partition)] = one.Offset
	}
	return generation.CommitOffsets(plain)
}

func (m *member) close() error {
	m.stop()
	err := m.group.Close()
	<-m.ended
	return err
}
