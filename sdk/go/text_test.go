package skald

import (
	"strings"
	"testing"
)

func TestWhatStrangersHaveSentBeginsNoLineOfTheLog(t *testing.T) {
	if said := line("a\nb\x00\x85\u0085\x9bc\xff\uFFFDé"); said != `a\x0ab\x00\x85\x85\x9bc\xff`+"\uFFFDé" {
		t.Error(said)
	}
}

func TestAnAddressThatIsNoBrokersIsRefusedWithoutItsPassword(t *testing.T) {
	for _, address := range []string{"", "localhost", "amqp://u:%cret@localhost", "amqp://u:x/cret@localhost", "amqp://u:1:cret@localhost:x",
		"amqp://u:cret@local host", "amqp://u:cr\net@localhost", "amqp://u:99999999999/cret@localhost",
		"amqp://u:s@cret/@localhost"} {
		p := New("payments")
		p.DatabaseURL, p.AMQPURL = "none", address
		if err := p.Run(ctx); err == nil || !strings.HasPrefix(err.Error(), "AMQP_URL is not the URL of a broker") || strings.Contains(err.Error(), "cret") {
			t.Error(address, err)
		}
	}
}

func TestAnAddressThatIsNoDatabasesIsRefusedWithoutItsPassword(t *testing.T) {
	for _, address := range []string{"", "none", "postgresql://u:se/cret@localhost/db", "postgresql://u:%cret@localhost/db",
		"postgresql://u:cr et@local host/cret", "postgresql://u:cret", "postgresql://localhost:0/db?password=cret",
		"postgresql://localhost/db?password=cret&sslmode=x", "host=localhost port=x password = cret",
		"postgresql://localhost/db?password=cret&pool_max_conns=x", "postgresql://u:s@localhost/cret@localhost/db"} {
		p := New("payments")
		p.DatabaseURL = address
		if err := p.Run(ctx); err == nil || !strings.HasPrefix(err.Error(), "DATABASE_URL is not") || strings.Contains(err.Error(), "cret") {
			t.Error(address, err)
		}
	}
	p := New("payments")
	p.DatabaseURL = "postgresql://u:cret@localhost/db?sslmode=verify-full&sslrootcert=/none"
	if err := p.Connect(ctx); err == nil || err.Error() != "DATABASE_URL: open /none: no such file or directory" {
		t.Error(err)
	}
}
