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
func produce(topic told) error {
	transport := &kafka.Transport{ClientID: topic.Topic, MetadataTopics: []string{topic.Topic}}
	defer transport.CloseIdleConnections()
	for _, batch := range topic.Produce.Batches {
		writer := &kafka.Writer{
			Addr: kafka.TCP(topic.Bootstrap), Topic: topic.Topic, Transport: transport, RequiredAcks: kafka.RequireAll,
			Balancer:    kafka.BalancerFunc(func(kafka.Message, ...int) int { return topic.Partition }),
			Compression: codecs[topic.Produce.Compression], BatchSize: len(batch), BatchBytes: int64(topic.Produce.BatchBytes),
		}
		if err := writer.WriteMessages(context.Background(), each(batch, taken)...); err != nil {
			return err
		}
		if err := writer.Close(); err != nil {
			return err
		}
	}
	return nil
}

func taken(row record) kafka.Message {
	return kafka.Message{
		Key: octets(row.Key), Value: octets(row.Value), Time: moment(row),
		Headers: each(row.Headers, func(one header) kafka.Header {
			return kafka.Header{Key: one.Key, Value: octets(one.Value)}
		}),
	}
}
