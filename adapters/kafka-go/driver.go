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
func consume(task task, report func(record) bool) error {
	config := kafka.ReaderConfig{
		Brokers: []string{task.Bootstrap}, Topic: task.Topic, Partition: task.Partition,
		IsolationLevel: levels[task.Isolation], MaxWait: time.Second,
		ReadBatchTimeout: 200 * time.Millisecond, // it waits this long for missing bytes of a damaged batch
		ReadBackoffMin:   time.Millisecond, ReadBackoffMax: 100 * time.Millisecond,
	}
	if task.Group {
		config.GroupID, config.HeartbeatInterval = task.Topic, 100*time.Millisecond
	}
	reader := kafka.NewReader(config)
	defer reader.Close()
	if !task.Group {
		if err := reader.SetOffset(task.Offset); err != nil {
			return err
		}
	}
	for {
		message, err := reader.FetchMessage(context.Background())
		if err != nil {
			return err
		}
		if report(shown(message)) {
			return nil
		}
		if task.Group {
			if err := reader.CommitMessages(context.Background(), message); err != nil {
				return err
			}
		}
	}
}

func shown(message kafka.Message) record {
	result := record{
		Offset: number(message.Offset), Key: hexed(message.Key), Value: hexed(message.Value),
		Headers: each(message.Headers, func(field kafka.Header) header { return header{field.Key, hexed(field.Value)} }),
	}
	if !message.Time.IsZero() { // the value for 0 and all negative timestamps
		result.Timestamp = number(message.Time.UnixMilli())
	}
	return result
}

func main() { drive("github.com/segmentio/kafka-go", consume, produce) }
