// segmentio's kafka-go as an application uses it to write: a Writer, WriteMessages.
package main

import (
	"context"

	"github.com/segmentio/kafka-go"
)

var codecs = map[string]kafka.Compression{
	"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

// produce writes batches, each with a separate WriteMessages, and returns the first error.
func produce(task task) error {
	transport := &kafka.Transport{ClientID: task.Topic, MetadataTopics: []string{task.Topic}}
	defer transport.CloseIdleConnections()
	for _, batch := range task.Produce.Batches {
		writer := &kafka.Writer{
			Addr: kafka.TCP(task.Bootstrap), Topic: task.Topic, Transport: transport, RequiredAcks: kafka.RequireAll,
			Balancer:    kafka.BalancerFunc(func(kafka.Message, ...int) int { return task.Partition }),
			Compression: codecs[task.Produce.Compression], BatchSize: len(batch), BatchBytes: int64(task.Produce.BatchBytes),
		}
		if err := writer.WriteMessages(context.Background(), each(batch, clientRecord)...); err != nil {
			return err
		}
		if err := writer.Close(); err != nil {
			return err
		}
	}
	return nil
}

func clientRecord(row record) kafka.Message {
	return kafka.Message{
		Key: octets(row.Key), Value: octets(row.Value), Time: timestamp(row),
		Headers: each(row.Headers, func(field header) kafka.Header {
			return kafka.Header{Key: field.Key, Value: octets(field.Value)}
		}),
	}
}
