// franz-go as an application uses it to write: ProduceSync, in a transaction or not.
package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// produce writes batches, each with a separate ProduceSync, and returns the first error.
func produce(task task) error {
	client, err := kgo.NewClient(producerOptions(task)...)
	if err != nil {
		return err
	}
	defer client.Close()
	write := func(batch []record) error {
		records := each(batch, func(row record) *kgo.Record { return clientRecord(task, row) })
		return client.ProduceSync(context.Background(), records...).FirstErr()
	}
	commit := func() error { return client.EndTransaction(context.Background(), kgo.TryCommit) }
	abort := func() error { return client.EndTransaction(context.Background(), kgo.TryAbort) }
	return task.Produce.send(client.BeginTransaction, write, commit, abort)
}

func producerOptions(task task) []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(task.Bootstrap), kgo.ClientID(task.Topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[task.Produce.Compression]), kgo.ProducerBatchMaxBytes(task.Produce.BatchBytes),
		kgo.ProducerLinger(100 * time.Millisecond),
		kgo.MetadataMinAge(100 * time.Millisecond), // the default is 5 seconds after an error response
	}
	if task.Produce.Transactional {
		options = append(options, kgo.TransactionalID(task.Topic))
	} else if !task.Produce.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	return options
}

func clientRecord(task task, row record) *kgo.Record {
	return &kgo.Record{
		Topic: task.Topic, Partition: int32(task.Partition), Timestamp: timestamp(row),
		Key: octets(row.Key), Value: octets(row.Value),
		Headers: each(row.Headers, func(field header) kgo.RecordHeader {
			return kgo.RecordHeader{Key: field.Key, Value: octets(field.Value)}
		}),
	}
}
