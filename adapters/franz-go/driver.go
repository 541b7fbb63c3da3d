// franz-go as an application uses it: NewClient with ConsumePartitions or ConsumerGroup, PollFetches; a client each.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var levels = map[string]kgo.IsolationLevel{"read_committed": kgo.ReadCommitted(), "read_uncommitted": kgo.ReadUncommitted()}
var types = map[int8]string{-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}

// consume passes on the records of PollFetches, and returns its first error.
func consume(task task, report func(record) bool) error {
	client, err := kgo.NewClient(append(
		consumerOptions(task), kgo.SeedBrokers(task.Bootstrap), kgo.Rack("rack"), kgo.FetchIsolationLevel(levels[task.Isolation]),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }))...)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(context.Background())
		for message := range fetches.RecordsAll() {
			if report(shown(message)) {
				return nil
			} else if err := client.CommitRecords(context.Background(), message); err != nil && task.Group {
				return err // outside a group there is no commit
			}
		}
		if err := fetches.Err(); err != nil && !errors.As(err, new(*kgo.ErrGroupSession)) { // the client rejoins by itself
			return err
		}
	}
}

func consumerOptions(task task) []kgo.Opt {
	if task.Group {
		return []kgo.Opt{kgo.ConsumerGroup(task.Topic), kgo.ConsumeTopics(task.Topic), kgo.DisableAutoCommit(),
			kgo.HeartbeatInterval(100 * time.Millisecond)}
	}
	at := kgo.NewOffset().At(task.Offset)
	return []kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{task.Topic: {int32(task.Partition): at}})}
}

func shown(message *kgo.Record) record {
	timestamp := message.Timestamp.UnixMilli()
	if message.Timestamp.IsZero() { // a message of magic 0
		timestamp = -1
	}
	return record{
		Offset: number(message.Offset), Timestamp: number(timestamp),
		TimestampType: types[message.Attrs.TimestampType()], Key: hexed(message.Key), Value: hexed(message.Value),
		Headers: each(message.Headers, func(field kgo.RecordHeader) header { return header{field.Key, hexed(field.Value)} }),
	}
}

func main() { drive("github.com/twmb/franz-go", consume, produce) }
