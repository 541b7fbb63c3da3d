// segmentio's kafka-go as an application uses it: NewReader, SetOffset, ReadMessage, or FetchMessage and CommitMessages in a group.
package main

import (
	"context"
	"time"

	"github.com/segmentio/kafka-go"
)

var levels = map[string]kafka.IsolationLevel{
	"read_committed": kafka.ReadCommitted, "read_uncommitted": kafka.ReadUncommitted,
}

// consume passes on the messages of ReadMessage, and returns its first error.
func consume(topic told, hand func(record) bool) error {
	config := kafka.ReaderConfig{
		Brokers: []string{topic.Bootstrap}, Topic: topic.Topic, Partition: topic.Partition,
		IsolationLevel: levels[topic.Isolation], MaxWait: time.Second,
		ReadBatchTimeout: 200 * time.Millisecond, // it waits this long for missing bytes of a damaged batch
		ReadBackoffMin:   time.Millisecond, ReadBackoffMax: 100 * time.Millisecond,
	}
	if topic.Group {
		config.GroupID, config.HeartbeatInterval = topic.Topic, 100*time.Millisecond
	}
	reader := kafka.NewReader(config)
	defer reader.Close()
	if !topic.Group {
		if err := reader.SetOffset(topic.Offset); err != nil {
			return err
		}
	}
	for {
		message, err := reader.FetchMessage(context.Background())
		if err != nil {
			return err
		}
		if hand(shown(message)) {
			return nil
		}
		if topic.Group {
			if err := reader.CommitMessages(context.Background(), message); err != nil {
				return err
			}
		}
	}
}

func shown(message kafka.Message) record {
	handed := record{
		Offset: number(message.Offset), Key: hexed(message.Key), Value: hexed(message.Value),
		Headers: each(message.Headers, func(one kafka.Header) header { return header{one.Key, hexed(one.Value)} }),
	}
	if !message.Time.IsZero() { // the value for 0 and all negative timestamps
		handed.Timestamp = number(message.Time.UnixMilli())
	}
	return handed
}

func main() { drive("github.com/segmentio/kafka-go", consume, produce) }
