// franz-go as an application uses it: NewClient with ConsumePartitions, PollFetches; a client a topic.
package main

import (
	"context"
	"iter"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var levels = map[string]kgo.IsolationLevel{
	"read_committed": kgo.ReadCommitted(), "read_uncommitted": kgo.ReadUncommitted(),
}
var types = map[int8]string{-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}

// consume yields the records that PollFetches hands out, and the first error that it tells.
func consume(topic told) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		begin := map[int32]kgo.Offset{int32(topic.Partition): kgo.NewOffset().At(topic.Offset)}
		client, err := kgo.NewClient(
			kgo.SeedBrokers(topic.Bootstrap),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic.Topic: begin}),
			kgo.FetchIsolationLevel(levels[topic.Isolation]),
			kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
		)
		if err != nil {
			yield(record{}, err)
			return
		}
		defer client.Close()
		for {
			fetches := client.PollFetches(context.Background())
			for handed := range fetches.RecordsAll() {
				if !yield(shown(handed), nil) {
					return
				}
			}
			if err := fetches.Err(); err != nil {
				yield(record{}, err)
				return
			}
		}
	}
}

func shown(handed *kgo.Record) record {
	headers := []header{}
	for _, one := range handed.Headers {
		headers = append(headers, header{one.Key, hexed(one.Value)})
	}
	timestamp := handed.Timestamp.UnixMilli()
	if handed.Timestamp.IsZero() { // that of a message of magic 0
		timestamp = -1
	}
	return record{
		Offset: number(handed.Offset), Timestamp: number(timestamp),
		TimestampType: types[handed.Attrs.TimestampType()], Key: hexed(handed.Key), Value: hexed(handed.Value),
		Headers: headers,
	}
}

func main() { drive("github.com/twmb/franz-go", consume) }
