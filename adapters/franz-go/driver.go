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
func consume(topic told, hand func(record) bool) error {
	client, err := kgo.NewClient(append(
		from(topic), kgo.SeedBrokers(topic.Bootstrap), kgo.Rack("rack"), kgo.FetchIsolationLevel(levels[topic.Isolation]),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }))...)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(context.Background())
		for handed := range fetches.RecordsAll() {
			if hand(shown(handed)) {
				return nil
			} else if err := client.CommitRecords(context.Background(), handed); err != nil && topic.Group {
				return err // outside a group there is no commit
			}
		}
		if err := fetches.Err(); err != nil && !errors.As(err, new(*kgo.ErrGroupSession)) { // the client rejoins by itself
			return err
		}
	}
}

func from(topic told) []kgo.Opt {
	if topic.Group {
		return []kgo.Opt{kgo.ConsumerGroup(topic.Topic), kgo.ConsumeTopics(topic.Topic), kgo.DisableAutoCommit(),
			kgo.HeartbeatInterval(100 * time.Millisecond)}
	}
	at := kgo.NewOffset().At(topic.Offset)
	return []kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic.Topic: {int32(topic.Partition): at}})}
}

func shown(handed *kgo.Record) record {
	timestamp := handed.Timestamp.UnixMilli()
	if handed.Timestamp.IsZero() { // a message of magic 0
		timestamp = -1
	}
	return record{
		Offset: number(handed.Offset), Timestamp: number(timestamp),
		TimestampType: types[handed.Attrs.TimestampType()], Key: hexed(handed.Key), Value: hexed(handed.Value),
		Headers: each(handed.Headers, func(one kgo.RecordHeader) header { return header{one.Key, hexed(one.Value)} }),
	}
}

func main() { drive("github.com/twmb/franz-go", consume, produce) }
