// sarama as an application uses it: NewConsumer, ConsumePartition, the channels of messages and errors.
package main

import "github.com/IBM/sarama"

// consume passes on the messages of a partition consumer, and returns its first error.
func consume(topic told, hand func(record) bool) error {
	if topic.Group {
		return join(topic, hand)
	}
	config := sarama.NewConfig()
	config.Consumer.Return.Errors = true // otherwise they are only logged
	config.RackID = "rack"
	if topic.Isolation == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer([]string{topic.Bootstrap}, config)
	if err != nil {
		return err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic.Topic, int32(topic.Partition), topic.Offset)
	if err != nil {
		return err
	}
	defer partition.Close()
	for {
		select {
		case message := <-partition.Messages():
			if hand(shown(message)) {
				return nil
			}
		case err := <-partition.Errors():
			for len(partition.Messages()) > 0 { // they came before the error
				if hand(shown(<-partition.Messages())) {
					return nil
				}
			}
			return err
		}
	}
}

func shown(message *sarama.ConsumerMessage) record {
	handed := record{
		Offset: number(message.Offset), Key: hexed(message.Key), Value: hexed(message.Value),
		Headers: each(message.Headers, func(one *sarama.RecordHeader) header {
			return header{string(one.Key), hexed(one.Value)}
		}),
	}
	if !message.Timestamp.IsZero() { // the value for all negative timestamps
		handed.Timestamp = number(message.Timestamp.UnixMilli())
	}
	return handed
}

func main() { drive("github.com/IBM/sarama", consume, produce) }
