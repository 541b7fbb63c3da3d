// segmentio's kafka-go as an application uses it: NewReader, SetOffset, ReadMessage; a Writer.
package main

import (
	"context"
	"iter"
	"time"

	"github.com/segmentio/kafka-go"
)

var levels = map[string]kafka.IsolationLevel{
	"read_committed": kafka.ReadCommitted, "read_uncommitted": kafka.ReadUncommitted,
}

var codecs = map[string]kafka.Compression{
	"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

// consume yields the messages that ReadMessage returns, and its first error.
func consume(topic told) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		reader := kafka.NewReader(kafka.ReaderConfig{
			Brokers: []string{topic.Bootstrap}, Topic: topic.Topic, Partition: topic.Partition,
			IsolationLevel: levels[topic.Isolation], MaxWait: time.Second,
			ReadBatchTimeout: 200 * time.Millisecond, // it waits so long for bytes that a damaged batch only claims
			ReadBackoffMin:   time.Millisecond, ReadBackoffMax: 100 * time.Millisecond,
		})
		defer reader.Close()
		if err := reader.SetOffset(topic.Offset); err != nil {
			yield(record{}, err)
			return
		}
		for {
			message, err := reader.ReadMessage(context.Background())
			if err != nil {
				yield(record{}, err)
				return
			}
			if !yield(shown(message), nil) {
				return
			}
		}
	}
}

func shown(message kafka.Message) record {
	headers := []header{}
	for _, one := range message.Headers {
		headers = append(headers, header{one.Key, hexed(one.Value)})
	}
	handed := record{
		Offset: number(message.Offset), Key: hexed(message.Key), Value: hexed(message.Value), Headers: headers,
	}
	if !message.Time.IsZero() { // which stands for 0 and every negative one
		handed.Timestamp = number(message.Time.UnixMilli())
	}
	return handed
}

// produce writes batches, each by a WriteMessages of its own; the first error that it returns.
func produce(topic told) error {
	transport := &kafka.Transport{ClientID: topic.Topic, MetadataTopics: []string{topic.Topic}}
	defer transport.CloseIdleConnections()
	for _, batch := range topic.Produce.Batches {
		writer := &kafka.Writer{
			Addr: kafka.TCP(topic.Bootstrap), Topic: topic.Topic, Transport: transport, RequiredAcks: kafka.RequireAll,
			Balancer:    kafka.BalancerFunc(func(kafka.Message, ...int) int { return topic.Partition }),
			Compression: codecs[topic.Produce.Compression], BatchSize: len(batch), BatchBytes: much,
		}
		if err := writer.WriteMessages(context.Background(), taken(batch)...); err != nil {
			return err
		}
		if err := writer.Close(); err != nil {
			return err
		}
	}
	return nil
}

func taken(batch []record) (messages []kafka.Message) {
	for _, row := range batch {
		written := kafka.Message{Key: octets(row.Key), Value: octets(row.Value), Time: moment(row)}
		for _, one := range row.Headers {
			written.Headers = append(written.Headers, kafka.Header{Key: one.Key, Value: octets(one.Value)})
		}
		messages = append(messages, written)
	}
	return messages
}

func main() { drive("github.com/segmentio/kafka-go", consume, produce) }
