package skald

import (
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

var errElsewhere = errors.New("belong to another database than the DATABASE_URL's")

func (p *Participant) checkBroker() error {
	if _, err := amqp.ParseURI(p.AMQPURL); err != nil || torn.MatchString(p.AMQPURL) { // it may quote the password
		return errors.New("AMQP_URL is not the URL of a broker, such as amqp://user:password@host:5672/vhost: " + escapes)
	}
	return nil
}

// declare makes the queues of docs/protocol.md, "Routing". The first is bound to this database: a process with another one is refused. So it is
// where `skald declare` has made them: there each of its databases has a queue of that name.
func (p *Participant) declare(channel *amqp.Channel) error {
	queue, refused := "skald."+p.Service, &amqp.Error{}
	left := amqp.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": "skald.parked", "x-dead-letter-routing-key": p.database}
	queues := map[string]amqp.Table{".parked": {"x-queue-type": "quorum"}, "": {"x-queue-type": "quorum", "x-dead-letter-exchange": "skald.parked",
		"x-dead-letter-routing-key": p.Service, "x-delivery-limit": 50, "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}}
	database, declare := queue+".database", channel.QueueDeclare
	if !p.Declare {
		database, declare, queues = database+"."+p.database, channel.QueueDeclarePassive, nil
	}
	_, err := declare(database, true, false, false, false, left)
	if errors.As(err, &refused) && (refused.Code == amqp.NotFound || refused.Code == amqp.PreconditionFailed) {
		return fmt.Errorf("the messages for %s %w (%s), or none was declared: check it, or run `skald declare` (%v)", p.Service, errElsewhere, p.database, err)
	}
	for suffix, arguments := range queues {
		if err == nil {
			_, err = channel.QueueDeclare(queue+suffix, true, false, false, false, arguments)
		}
		if err == nil {
			err = channel.ExchangeDeclare("skald"+suffix, "direct", true, false, false, false, nil)
		}
		if err == nil {
			err = channel.QueueBind(queue+suffix, p.Service, "skald"+suffix, false, nil)
		}
	}
	return err
}
