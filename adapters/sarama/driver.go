// sarama as an application uses it: NewConsumer, ConsumePartition, the channels of messages and errors.
package main

import "github.com/IBM/sarama"

// consume passes on the messages of a partition consumer, and returns its first error.
func consume(task task, report func(record) bool) error {
	if task.Group {
		return join(task, report)
	}
	config := sarama.NewConfig()
	config.Consumer.Return.Errors = true // otherwise they are only logged
	config.RackID = "rack"
	if task.Isolation == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer([]string{task.Bootstrap}, config)
	if err != nil {
		return err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(task.Topic, int32(task.Partition), task.Offset)
	if err != nil {
		return err
	}
	defer partition.Close()
	for {
		select {
		case message := <-partition.Messages():
			if report(shown(message)) {
				return nil
			}
		case err := <-partition.Errors():
			for len(partition.Messages()) > 0 { // they came before the error
				if report(shown(<-partition.Messages())) {
					return nil
				}
			}
			return err
		}
	}
}

func shown(message *sarama.ConsumerMessage) record {
	result := record{
		Offset: number(message.Offset), Key: hexed(message.Key), Value: hexed(message.Value),
		Headers: each(message.Headers, func(field *sarama.RecordHeader) header {
			return header{string(field.Key), hexed(field.Value)}
		}),
	}
	if !message.Timestamp.IsZero() { // the value for all negative timestamps
		result.Timestamp = number(message.Timestamp.UnixMilli())
	}
	return result
}

func main() { drive("github.com/IBM/sarama", consume, produce) }
