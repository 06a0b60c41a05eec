// One instance that consumes, transforms and produces in transactions, by franz-go. What it reads
// and reports is described in tests/support/transactions/programs/reporting.py.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	pollTime     = 100 * time.Millisecond
	batchMax     = 100
	dwellTime    = 20 * time.Millisecond
	abortedEvery = 8
)

type fields map[string]any

type instance struct {
	source, target, name string
	session              *kgo.GroupTransactSession
	attempt              int
	holds                bool
	goOn                 chan struct{}
	ctx                  context.Context
	leave                context.CancelFunc
}

func main() {
	i := &instance{source: os.Args[2], target: os.Args[3], name: os.Args[6]}
	i.goOn = make(chan struct{}, 100)
	i.ctx, i.leave = context.WithCancel(context.Background())
	go i.listen()
	err := i.run(os.Args[1], os.Args[4], os.Args[5], os.Args[7:])
	switch {
	case err == nil:
		i.report("left", nil)
	case fenced(err):
		i.report("fenced", fields{"a": i.attempt, "why": err.Error()})
	default:
		i.report("failed", fields{"why": err.Error()})
		os.Exit(1)
	}
}

func (i *instance) report(what string, more fields) {
	line := fields{"t": time.Now().UnixMilli(), "m": i.name, "e": what}
	for key, value := range more {
		line[key] = value
	}
	data, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	if _, err := os.Stdout.Write(append(data, '\n')); err != nil {
		panic(err)
	}
}

func (i *instance) listen() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		i.goOn <- struct{}{}
	}
	i.leave()
	close(i.goOn)
}

// Some errors of the client have only the text of what was answered.
func fenced(err error) bool {
	for _, one := range []*kerr.Error{kerr.ProducerFenced, kerr.InvalidProducerEpoch} {
		if strings.Contains(err.Error(), one.Message) {
			return true
		}
	}
	return false
}

// Its id is its own from here on, though it has written nothing yet.
func (i *instance) init() error {
	for {
		_, _, err := i.session.Client().ProducerID(i.ctx)
		if !kerr.IsRetriable(err) && !errors.Is(err, kerr.ConcurrentTransactions) {
			return err
		}
		time.Sleep(pollTime)
	}
}

func (i *instance) options(bootstrap, group, id string, given []string) []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ClientID(i.name),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(i.source),
		kgo.TransactionalID(id),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequireStableFetchOffsets(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(pollTime),
	}
	for _, one := range given {
		name, value, _ := strings.Cut(one, "=")
		number, _ := strconv.Atoi(value)
		time := time.Duration(number) * time.Millisecond
		switch name {
		case "consumer.session.timeout.ms":
			options = append(options, kgo.SessionTimeout(time))
		case "consumer.heartbeat.interval.ms":
			options = append(options, kgo.HeartbeatInterval(time))
		case "producer.transaction.timeout.ms":
			options = append(options, kgo.TransactionTimeout(time))
		case "hold":
			i.holds = true
		default:
			panic("no setting here: " + name)
		}
	}
	return options
}

func (i *instance) run(bootstrap, group, id string, given []string) error {
	session, err := kgo.NewGroupTransactSession(i.options(bootstrap, group, id, given)...)
	if err != nil {
		return err
	}
	defer session.Close()
	i.session = session
	err = i.init()
	if errors.Is(err, context.Canceled) {
		return nil // it was asked to leave before it had begun
	}
	if err != nil {
		return err
	}
	i.report("ready", nil)
	for i.ctx.Err() == nil {
		waiting, stop := context.WithTimeout(i.ctx, pollTime)
		fetches := session.PollRecords(waiting, batchMax)
		stop()
		if records := fetches.Records(); len(records) > 0 {
			if err := i.transact(records); err != nil {
				return err
			}
		}
	}
	return nil
}

func (i *instance) transact(records []*kgo.Record) error {
	i.attempt++
	if err := i.session.Begin(); err != nil {
		return err
	}
	failures := make(chan error, 2*len(records))
	i.write(records, failures)
	if i.holds {
		if err := i.hold(records, failures); err != nil {
			return err
		}
	}
	background := context.Background()
	if err := i.session.Client().Flush(background); err != nil {
		return err
	}
	var failed error
	switch {
	case len(failures) > 0:
		failed = <-failures
	case i.attempt%abortedEvery == 0:
		failed = errors.New("on purpose")
	case i.attempt%2 == 1:
		time.Sleep(dwellTime)
	}
	if failed == nil {
		i.report("committing", fields{"a": i.attempt})
	}
	committed, err := i.session.End(background, kgo.TransactionEndTry(failed == nil))
	switch {
	case err != nil && failed != nil:
		return errors.Join(failed, err)
	case err != nil:
		return err
	case committed:
		i.report("committed", fields{"a": i.attempt})
	default:
		i.report("aborted", fields{"a": i.attempt, "why": fmt.Sprint(failed)})
	}
	return nil
}

func (i *instance) write(records []*kgo.Record, failures chan<- error) {
	ranges := [][]any{}
	var at int32 = -1
	for _, one := range records {
		last := len(ranges) - 1
		if one.Partition == at && ranges[last][2].(int64)+1 == one.Offset {
			ranges[last][2] = one.Offset
		} else {
			at = one.Partition
			place := fmt.Sprintf("%s/%d", one.Topic, at)
			ranges = append(ranges, []any{place, one.Offset, one.Offset})
		}
		made := &kgo.Record{Topic: i.target, Partition: at, Value: i.transformed(one.Value)}
		i.session.Produce(context.Background(), made, func(_ *kgo.Record, err error) {
			if err != nil {
				failures <- err
			}
		})
	}
	i.report("sent", fields{"a": i.attempt, "r": ranges})
}

func (i *instance) hold(records []*kgo.Record, failures chan error) error {
	i.holds = false
	background := context.Background()
	if err := i.session.Client().Flush(background); err != nil {
		return err
	}
	i.report("held", fields{"a": i.attempt})
	<-i.goOn
	i.write(records, failures)
	if err := i.session.Client().Flush(background); err != nil {
		return err
	}
	if len(failures) > 0 {
		failed := <-failures
		failures <- failed
		i.report("refused", fields{"a": i.attempt, "why": failed.Error()})
	}
	return nil
}

func (i *instance) transformed(value []byte) []byte {
	parts := bytes.SplitN(value, []byte("/"), 3)
	text := fmt.Sprintf("%s/%s/%s/%d/", parts[0], parts[1], i.name, i.attempt)
	return append([]byte(text), bytes.ToUpper(parts[2])...)
}
