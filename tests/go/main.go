// Consumers in groups by franz-go, each in a goroutine, at the word of standard input. What the
// program reads and reports is described in tests/support/groups/programs/reporting.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	pollTime   = 100 * time.Millisecond
	batchMax   = 500
	commitTime = 5 * time.Second
)

type fields map[string]any

var out sync.Mutex

func report(member, what string, more fields) {
	line := fields{"t": time.Now().UnixMilli(), "m": member, "e": what}
	for key, value := range more {
		line[key] = value
	}
	data, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	out.Lock()
	defer out.Unlock()
	if _, err := os.Stdout.Write(append(data, '\n')); err != nil {
		panic(err)
	}
}

func place(topic string, partition int32) string {
	return fmt.Sprintf("%s/%d", topic, partition)
}

func places(of map[string][]int32) fields {
	all := []string{}
	for topic, partitions := range of {
		for _, one := range partitions {
			all = append(all, place(topic, one))
		}
	}
	return fields{"p": all}
}

type seek struct {
	topic     string
	partition int32
	offset    int64
}

type member struct {
	name    string
	client  *kgo.Client
	ctx     context.Context
	leave   context.CancelFunc
	left    chan struct{}
	seeks   chan seek
	pending map[string]map[int32]kgo.EpochOffset
}

func milliseconds(given map[string]string, name string) time.Duration {
	number, err := strconv.Atoi(given[name])
	if err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
	return time.Duration(number) * time.Millisecond
}

func join(bootstrap, topic string, given map[string]string, name, group string) *member {
	m := &member{name: name, left: make(chan struct{}), seeks: make(chan seek, 100)}
	m.ctx, m.leave = context.WithCancel(context.Background())
	m.pending = map[string]map[int32]kgo.EpochOffset{}
	gone := func(what string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, of map[string][]int32) {
			for topic, partitions := range of {
				for _, one := range partitions {
					delete(m.pending[topic], one)
				}
			}
			report(name, what, places(of))
		}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.ClientID(name),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(pollTime),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, of map[string][]int32) {
			report(name, "assigned", places(of))
		}),
		kgo.OnPartitionsRevoked(gone("revoked")),
		kgo.OnPartitionsLost(gone("lost")),
	}
	for key := range given {
		time := milliseconds(given, key)
		switch key {
		case "session.timeout.ms":
			options = append(options, kgo.SessionTimeout(time))
		case "heartbeat.interval.ms":
			options = append(options, kgo.HeartbeatInterval(time))
		case "metadata.max.age.ms":
			options = append(options, kgo.MetadataMaxAge(time), kgo.MetadataMinAge(time/2))
		default:
			panic("no setting here: " + key)
		}
	}
	if strings.HasPrefix(topic, "^") {
		options = append(options, kgo.ConsumeRegex())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	m.client = client
	report(name, "joining", nil)
	go m.run()
	return m
}

func (m *member) run() {
	defer close(m.left)
	for m.ctx.Err() == nil {
		m.turn()
	}
	m.client.LeaveGroup()
	m.client.Close()
	report(m.name, "left", nil)
}

// No rebalance begins between the poll and its end here.
func (m *member) turn() {
	waiting, stop := context.WithTimeout(m.ctx, pollTime)
	defer stop()
	fetches := m.client.PollRecords(waiting, batchMax)
	defer m.client.AllowRebalance()
	m.process(fetches)
	m.commit()
	for len(m.seeks) > 0 {
		to := <-m.seeks
		m.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{
			to.topic: {to.partition: {Epoch: -1, Offset: to.offset}},
		})
	}
}

func (m *member) process(fetches kgo.Fetches) {
	ranges := [][]any{}
	fetches.EachPartition(func(of kgo.FetchTopicPartition) {
		for i := 0; i < len(of.Records); {
			first := of.Records[i].Offset
			next := first
			for ; i < len(of.Records) && of.Records[i].Offset == next; i++ {
				next++
			}
			ranges = append(ranges, []any{place(of.Topic, of.Partition), first, next - 1})
			if m.pending[of.Topic] == nil {
				m.pending[of.Topic] = map[int32]kgo.EpochOffset{}
			}
			m.pending[of.Topic][of.Partition] = kgo.EpochOffset{
				Epoch: of.Records[i-1].LeaderEpoch, Offset: next,
			}
		}
	})
	if len(ranges) > 0 {
		report(m.name, "read", fields{"r": ranges})
	}
}

func (m *member) commit() {
	offsets := map[string]int64{}
	records := []*kgo.Record{}
	for topic, partitions := range m.pending {
		for partition, to := range partitions {
			offsets[place(topic, partition)] = to.Offset
			records = append(records, &kgo.Record{
				Topic: topic, Partition: partition, Offset: to.Offset - 1, LeaderEpoch: to.Epoch,
			})
		}
	}
	if len(records) == 0 {
		return
	}
	waiting, stop := context.WithTimeout(context.Background(), commitTime)
	defer stop()
	if err := m.client.CommitRecords(waiting, records...); err != nil {
		report(m.name, "refused", fields{"why": err.Error()})
		return
	}
	m.pending = map[string]map[int32]kgo.EpochOffset{}
	report(m.name, "committed", fields{"o": offsets})
}

func main() {
	given := map[string]string{}
	for _, one := range os.Args[3:] {
		name, value, _ := strings.Cut(one, "=")
		given[name] = value
	}
	members := map[string]*member{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "join":
			members[words[1]] = join(os.Args[1], os.Args[2], given, words[1], words[2])
		case "leave":
			members[words[1]].leave()
		default:
			slash := strings.LastIndex(words[2], "/")
			partition, _ := strconv.Atoi(words[2][slash+1:])
			offset, _ := strconv.ParseInt(words[3], 10, 64)
			members[words[1]].seeks <- seek{words[2][:slash], int32(partition), offset}
		}
	}
	for _, one := range members {
		one.leave()
	}
	for _, one := range members {
		<-one.left
	}
}
