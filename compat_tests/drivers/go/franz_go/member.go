package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kavka.test/drivers/driver"
)

// member knows what its consumer is assigned: the library tells it by callbacks, from goroutines of
// its own, whether the consumer polls or not.
type member struct {
	mutex    sync.Mutex
	assigned map[driver.Place]bool
	failed   error
	joined   chan struct{}
	once     sync.Once
}

func newMember() *member {
	return &member{assigned: map[driver.Place]bool{}, joined: make(chan struct{})}
}

func (m *member) options() []kgo.Opt {
	return []kgo.Opt{
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, added map[string][]int32) {
			m.change(added, true)
			m.once.Do(func() { close(m.joined) })
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
			m.change(gone, false)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
			m.change(gone, false)
		}),
		kgo.WithHooks(m),
	}
}

func (m *member) change(which map[string][]int32, added bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for topic, partitions := range which {
		for _, partition := range partitions {
			if place := (driver.Place{Topic: topic, Partition: partition}); added {
				m.assigned[place] = true
			} else {
				delete(m.assigned, place)
			}
		}
	}
}

// OnGroupManageError makes it a kgo.HookGroupManageError.
func (m *member) OnGroupManageError(err error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.failed = err
}

// wait ends with the first assignment. The library goes on trying after an error: it is the answer
// when nothing came of that.
func (m *member) wait(timeout time.Duration) (driver.Places, error) {
	select {
	case <-m.joined:
		return m.places(), nil
	case <-time.After(timeout):
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return driver.Places{Partitions: []driver.Place{}}, m.failed
}

func (m *member) places() driver.Places {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return driver.Sorted(slices.Collect(maps.Keys(m.assigned)))
}
