// sarama as an application uses it in a group: NewConsumerGroup, Consume, MarkMessage and Commit.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"
)

// member passes on the messages of its assigned partitions, and commits each.
type member struct {
	report func(record) bool
	stop   context.CancelFunc
}

func (member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		if m.report(shown(message)) {
			m.stop()
			return nil
		}
		session.MarkMessage(message, "")
		session.Commit()
	}
	return nil
}

// join consumes a topic as a member of the group with its name, and returns the first error.
func join(task task, report func(record) bool) error {
	config := sarama.NewConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	if task.Isolation == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	config.Consumer.Group.Heartbeat.Interval = 100 * time.Millisecond
	group, err := sarama.NewConsumerGroup([]string{task.Bootstrap}, task.Topic, config)
	if err != nil {
		return err
	}
	defer group.Close()
	running, stop := context.WithCancel(context.Background())
	defer stop()
	for running.Err() == nil {
		err := group.Consume(running, []string{task.Topic}, member{report, stop})
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}
