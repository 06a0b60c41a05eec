package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"kavka.test/drivers/driver"
)

// member is a membership in a group, and what the library calls its handler: it calls that from
// goroutines of its own, one a claimed partition, whether records are wanted or not.
type member struct {
	group  sarama.ConsumerGroup
	stop   context.CancelFunc
	ended  chan struct{}
	joined chan struct{}
	once   sync.Once
	out    chan *sarama.ConsumerMessage
	failed chan error

	mutex   sync.Mutex
	present sarama.ConsumerGroupSession
	starts  map[driver.Place]int64
}

func newMember(group string, topics []string, client sarama.Client) (*member, error) {
	made, err := sarama.NewConsumerGroupFromClient(group, client)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &member{
		group:  made,
		stop:   stop,
		ended:  make(chan struct{}),
		joined: make(chan struct{}),
		out:    make(chan *sarama.ConsumerMessage),
		failed: make(chan error),
		starts: map[driver.Place]int64{},
	}
	go m.passErrors()
	go m.consume(ctx, topics)
	return m, nil
}

// consume goes from one session to the next, as the library wants it. It goes on after errors, as
// users' programs do that log them: after each it waits until that is read.
func (m *member) consume(ctx context.Context, topics []string) {
	defer close(m.ended)
	for ctx.Err() == nil {
		err := m.group.Consume(ctx, topics, m)
		if err != nil && !errors.Is(err, sarama.ErrClosedConsumerGroup) {
			select {
			case m.failed <- err:
			case <-ctx.Done():
			}
		}
	}
}

func (m *member) passErrors() {
	for err := range m.group.Errors() {
		select {
		case m.failed <- err:
		case <-m.ended:
		}
	}
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.present = session
	m.once.Do(func() { close(m.joined) })
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.present = nil
	return nil
}

func (m *member) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	m.mutex.Lock()
	m.starts[driver.Place{Topic: claim.Topic(), Partition: claim.Partition()}] = claim.InitialOffset()
	m.mutex.Unlock()
	for message := range claim.Messages() {
		select {
		case m.out <- message:
		case <-session.Context().Done():
			return nil
		}
	}
	return nil
}

func (m *member) session() sarama.ConsumerGroupSession {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.present
}

// wait ends when the time is over, or with the first assignment. The member goes on after errors, as
// users' programs do that log them; it waits until they are read.
func (m *member) wait(timeout time.Duration) {
	over := time.After(timeout)
	for {
		select {
		case err := <-m.failed:
			log.Print(err)
			continue
		default:
		}
		select {
		case <-m.joined:
			return
		case err := <-m.failed:
			log.Print(err)
		case <-over:
			return
		}
	}
}

func (m *member) records() <-chan *sarama.ConsumerMessage { return m.out }
func (m *member) errors() <-chan error                    { return m.failed }
func (m *member) pause(which map[string][]int32)          { m.group.Pause(which) }
func (m *member) resume(which map[string][]int32)         { m.group.Resume(which) }

func (m *member) places() []driver.Place {
	session := m.session()
	if session == nil {
		return nil
	}
	places := []driver.Place{}
	for topic, partitions := range session.Claims() {
		for _, partition := range partitions {
			places = append(places, driver.Place{Topic: topic, Partition: partition})
		}
	}
	return places
}

func (m *member) start(of driver.Place) (int64, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	at, claimed := m.starts[of]
	if !claimed {
		return 0, fmt.Errorf("%s-%d isn't claimed", of.Topic, of.Partition)
	}
	return at, nil
}

// commit tells errors only later, by the channel of them: the library has no other way.
func (m *member) commit(offsets []driver.Offset) error {
	session := m.session()
	if session == nil {
		return errors.New("no session in the group at present")
	}
	for _, one := range offsets {
		// The one goes back only, the other forward only.
		session.ResetOffset(one.Topic, one.Partition, one.Offset, one.Metadata)
		session.MarkOffset(one.Topic, one.Partition, one.Offset, one.Metadata)
	}
	session.Commit()
	return nil
}

func (m *member) close() error {
	m.stop()
	err := m.group.Close()
	<-m.ended
	return err
}
