// sarama as an application uses it to write: a SyncProducer, in a transaction or not.
package main

import (
	"time"

	"github.com/IBM/sarama"
)

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

// produce writes batches, each with a separate SendMessages, and returns the first error.
func produce(task task) error {
	producer, err := sarama.NewSyncProducer([]string{task.Bootstrap}, settings(task))
	if err != nil {
		return err
	}
	defer producer.Close()
	write := func(batch []record) error {
		return producer.SendMessages(each(batch, func(row record) *sarama.ProducerMessage { return clientRecord(task, row) }))
	}
	return task.Produce.send(producer.BeginTxn, write, producer.CommitTxn, producer.AbortTxn)
}

func settings(task task) *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = task.Topic
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true // a SyncProducer requires it
	config.Producer.Compression = codecs[task.Produce.Compression]
	config.Producer.MaxMessageBytes = int(task.Produce.BatchBytes)
	config.Producer.Flush.Frequency = 200 * time.Millisecond
	if task.Produce.Idempotent {
		config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
	}
	if task.Produce.Transactional {
		config.Producer.Transaction.ID = task.Topic
	}
	return config
}

func clientRecord(task task, row record) *sarama.ProducerMessage {
	message := &sarama.ProducerMessage{
		Topic: task.Topic, Partition: int32(task.Partition), Timestamp: timestamp(row),
		Headers: each(row.Headers, func(field header) sarama.RecordHeader {
			return sarama.RecordHeader{Key: []byte(field.Key), Value: octets(field.Value)}
		}),
	}
	if row.Key != nil {
		message.Key = sarama.ByteEncoder(octets(row.Key))
	}
	if row.Value != nil {
		message.Value = sarama.ByteEncoder(octets(row.Value))
	}
	return message
}
