package skald

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

var noText = regexp.MustCompile(`[\x00\x{FFFD}]`)
var control = regexp.MustCompile(`\p{Cc}`)

const escapes = "a password's %, @, : and / are written %25, %40, %3A, %2F"

// torn is a URL with an @ in its password: where a / follows, pieces of the password are read as the host and the rest.
var torn = regexp.MustCompile(`^\w+://[^?]*@[^?]*@`)

// text is what a text column takes: bytes that are no UTF-8, and NUL, as \xNN. Invalid bytes match U+FFFD too. A real U+FFFD (efbfbd) is put back.
func text(value string) string {
	return noText.ReplaceAllStringFunc(value, func(bad string) string { return strings.Replace(fmt.Sprintf(`\x%02x`, bad), `\xefbfbd`, "\uFFFD", 1) })
}

// line is for a log, in which what strangers have sent begins no line of its own; some take a byte that is no UTF-8 for a control character.
func line(value any) string {
	return control.ReplaceAllStringFunc(text(fmt.Sprint(value)), func(bad string) string { return fmt.Sprintf(`\x%02x`, []rune(bad)[0]) })
}

// headersOf has them as text. What has no text form is left out: then take() says which header is missing.
func headersOf(headers amqp.Table) map[string]string {
	made := map[string]string{}
	for name, value := range headers {
		switch value := value.(type) {
		case string, []byte:
			made[text(name)] = text(fmt.Sprintf("%s", value))
		case bool, int, int8, int16, int32, int64, uint8, uint16, uint32:
			made[text(name)] = fmt.Sprint(value)
		case time.Time:
			made[text(name)] = fmt.Sprint(value.Unix())
		}
	}
	return made
}

func (c *Context) changed() ([]byte, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(c.data, &members); err != nil {
		return nil, err
	}
	for member, value := range members {
		if _, isChanged := c.changes[member]; !isChanged {
			c.changes[member] = value
		}
	}
	return dump(c.changes)
}

func dump(data any) ([]byte, error) {
	var made bytes.Buffer
	encoder := json.NewEncoder(&made)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(data)
	return bytes.TrimSuffix(made.Bytes(), []byte("\n")), err
}
